"""What the model used, where the Agents SDK has it: `from agents.usage import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.items.usage import RequestUsage, Usage

__all__ = ["RequestUsage", "Usage"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
