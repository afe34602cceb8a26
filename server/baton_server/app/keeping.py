"""Who keeps a session's history: Baton or the model's API. Its first turn that is either's decides."""

from __future__ import annotations

from enum import StrEnum

from baton_server.core.errors import Reason, Refused, refuse
from baton_server.core.run_config import KEPT_BY_MODEL, HistoryMode
from baton_server.ports.store import SessionRow


class Keeper(StrEnum):
    """Who keeps it: `baton.v1.HistoryKeeper`."""

    SESSION = "SESSION"
    MODEL = "MODEL"


def keeper_after(session: SessionRow, mode: HistoryMode) -> str | None:
    """Say who keeps the history once a turn of this mode is accepted; None: it stays as it is.

    CALLER and STORED fit both, and decide nothing. Raises Refused(HISTORY_MIXED).
    """
    wanted = _keeper_of(mode)
    if wanted is None or wanted == session.history_keeper:
        return None
    if session.history_keeper:
        raise mixed(session, mode)
    return wanted


def check_takes_items(session: SessionRow) -> None:
    """Refuse items for a history that the model's API keeps: no turn would see them. Raises Refused(HISTORY_MIXED)."""
    if session.history_keeper == Keeper.MODEL:
        raise mixed(session, HistoryMode.SESSION)


def mixed(session: SessionRow, mode: HistoryMode) -> Refused:
    """Say that a history cannot be kept in two places."""
    whose = "the model's API" if session.history_keeper == Keeper.MODEL else "the session"
    return refuse(
        Reason.HISTORY_MIXED,
        f"The history of the session {session.session_id} is kept by {whose}, and {mode} would keep it elsewhere. "
        "Use the same kind of history, CALLER or STORED, or another session.",
        session=session.history_keeper,
        turn=mode,
    )


def _keeper_of(mode: HistoryMode) -> Keeper | None:
    if mode is HistoryMode.SESSION:
        return Keeper.SESSION
    return Keeper.MODEL if mode in KEPT_BY_MODEL else None
