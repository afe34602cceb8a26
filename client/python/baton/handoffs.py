"""Handoffs, where the Agents SDK has them: `from agents.handoffs import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.agents.handoff_data import HandoffInputData
from baton.agents.handoff_history import (
    get_conversation_history_wrappers,
    reset_conversation_history_wrappers,
    set_conversation_history_wrappers,
)
from baton.agents.handoffs import Handoff, handoff
from baton.sdk_names import HandoffInputFilter

__all__ = [
    "Handoff",
    "HandoffInputData",
    "HandoffInputFilter",
    "get_conversation_history_wrappers",
    "handoff",
    "reset_conversation_history_wrappers",
    "set_conversation_history_wrappers",
]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
