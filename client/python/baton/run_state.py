"""States of runs, where the Agents SDK has them: `from agents.run_state import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.runs.run_state import RunState

__all__ = ["RunState"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
