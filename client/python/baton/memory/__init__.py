"""Sessions, where the Agents SDK has them: `from agents.memory import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.runs.session_store import SessionABC
from baton.server.session import Session, SQLiteSession
from baton.server.session_settings import SessionSettings

__all__ = ["SQLiteSession", "Session", "SessionABC", "SessionSettings"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
