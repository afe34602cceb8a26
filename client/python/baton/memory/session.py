"""Sessions, and their base, where the Agents SDK has them: `from agents.memory.session import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.runs.session_store import SessionABC
from baton.server.session import Session

__all__ = ["Session", "SessionABC"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
