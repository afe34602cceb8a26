"""The markers around a folded conversation, for all runs of this process."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from baton.checks import check_text
from baton.v1 import run_config_pb2

DEFAULT_START, DEFAULT_END = "<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>"
"""The server's own (run_config.proto, HandoffHistory)."""


@dataclass(slots=True)
class _Wrappers:
    start: str = DEFAULT_START
    end: str = DEFAULT_END


_wrappers = _Wrappers()
_lock = threading.Lock()


def set_conversation_history_wrappers(*, start: str | None = None, end: str | None = None) -> None:
    """Put other markers around conversations that are folded at a handoff; None leaves one as it is.

    They hold for the runs of this process that begin from now on.
    """
    for name, text in (("start", start), ("end", end)):
        check_text(name, text)
    with _lock:
        _wrappers.start = start or _wrappers.start
        _wrappers.end = end or _wrappers.end


def reset_conversation_history_wrappers() -> None:
    """Put the markers back that hold at first."""
    with _lock:
        _wrappers.start, _wrappers.end = DEFAULT_START, DEFAULT_END


def get_conversation_history_wrappers() -> tuple[str, str]:
    """Tell which markers hold now: before and behind."""
    with _lock:
        return _wrappers.start, _wrappers.end


def wrappers_to_pb(made: run_config_pb2.HandoffHistory) -> None:
    """Write the markers into `baton.v1.HandoffHistory`, where they are others than the server's own."""
    start, end = get_conversation_history_wrappers()
    made.start_marker = "" if start == DEFAULT_START else start
    made.end_marker = "" if end == DEFAULT_END else end
