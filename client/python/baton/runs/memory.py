"""What a run remembers of former ones: how `Runner.run` was told, and as the contract carries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from baton.checks import check_text
from baton.errors import UserError
from baton.hooks import RemoteHook
from baton.hooks.refs import RefOf
from baton.runs.session_store import store_use
from baton.server.session import Session
from baton.v1 import run_config_pb2

MOST_ID = 256
"""Characters of an id at the model's API (run_config.proto, ConversationHistory, ResponseHistory)."""

MIXED = (
    "one run has one memory: a session cannot be combined with conversation_id, previous_response_id or "
    "auto_previous_response_id; leave one of them out"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of one run. All empty: the input is all that the model sees.

    `session`: one of the server's. `store`: one of the caller's own, an object with `get_items` and `add_items`, or a
    `RemoteHook` of the kind "session_store". `limit`: only the newest items of either; None: all.
    """

    session: Session | None = None
    store: Any = None
    limit: int | None = None
    conversation_id: str | None = None
    previous_response_id: str | None = None
    auto_previous_response_id: bool = False

    def to_pb(self, ref_of: RefOf) -> run_config_pb2.History | None:
        """Write it. None: it is the session's, as the server has it by default."""
        made = run_config_pb2.History()
        if self.store is not None:
            made.stored.store.CopyFrom(ref_of(store_use(self.store)))
            if self.limit is not None:
                made.stored.limit = self.limit
        elif self.session is not None:
            if self.limit is None:
                return None
            made.session.limit = self.limit
        elif self.conversation_id is not None:
            made.conversation.id = self.conversation_id
        elif self.previous_response_id is not None or self.auto_previous_response_id:
            made.response.previous_id = self.previous_response_id or ""
            made.response.auto = self.auto_previous_response_id
        else:
            made.caller.SetInParent()
        return made


def memory_of(
    session: object,
    conversation_id: str | None,
    previous_response_id: str | None,
    auto_previous_response_id: bool,
    settings: Any,
) -> Memory:
    """Check what stands for a memory. `settings`: the run's SessionSettings, which win over the session's; None: none.

    Raises UserError for two memories at once, TypeError for what is none.
    """
    for name, given in (("conversation_id", conversation_id), ("previous_response_id", previous_response_id)):
        check_text(name, given, most=MOST_ID)
    chained = previous_response_id is not None or auto_previous_response_id
    if session is not None and (chained or conversation_id is not None):
        raise UserError(MIXED)
    if conversation_id is not None and chained:
        raise UserError(
            f"conversation_id ({conversation_id!r}) and previous_response_id are two ways of one thing; leave one out"
        )
    if session is None:
        return Memory(
            conversation_id=conversation_id,
            previous_response_id=previous_response_id,
            auto_previous_response_id=auto_previous_response_id,
        )
    limit = _limit(settings, _limit(getattr(session, "session_settings", None), None))
    if isinstance(session, Session) and not _keeps_its_own(session):
        return Memory(session=session, limit=limit)
    for name in ("get_items", "add_items") if not isinstance(session, RemoteHook) else ():
        if not callable(getattr(session, name, None)):
            raise TypeError(
                f"session must be a baton.Session (or SQLiteSession), or an object with get_items and add_items, not "
                f"{type(session).__name__}: it has no {name}"
            )
    return Memory(store=session, limit=limit)


def _keeps_its_own(session: Session) -> bool:
    """Tell whether a class derived from Session keeps its items itself, as the Agents SDK's protocol of that name."""
    own = type(session)
    return own.get_items is not Session.get_items or own.add_items is not Session.add_items


def _limit(settings: Any, otherwise: int | None) -> int | None:
    found: int | None = getattr(settings, "limit", None)
    return otherwise if found is None else found
