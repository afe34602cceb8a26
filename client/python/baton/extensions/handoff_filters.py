"""Filters of what the receiver of a handoff sees: those of `baton.handoff_filters`, where the Agents SDK has them."""

from __future__ import annotations

from baton.handoff_filters import remove_all_tools

__all__ = ["remove_all_tools"]
