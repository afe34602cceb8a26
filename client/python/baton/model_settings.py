"""Settings of models, where the Agents SDK has them: `from agents.model_settings import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.agents.model_settings import ModelSettings, Reasoning

__all__ = ["ModelSettings", "Reasoning"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
