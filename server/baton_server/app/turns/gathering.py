"""Gathering: what has come for a turn from the store, read before it is fed. Reading changes nothing."""

from __future__ import annotations

import asyncio

from baton_server.app.runtime import Runtime
from baton_server.app.turns.step import Following, Gathered
from baton_server.app.turns.turn import Driven
from baton_server.core.inputs import CallSettled, DecisionMade, Input, Steered
from baton_server.core.state import TurnState
from baton_server.ports.store import Conflict, InboxRow, StoreUnavailable

MAX_FAULTS = 5
"""Faults of ours in a row with what has come for a turn, before the turn is ended with INTERNAL."""


class Gathering:
    """Reads inboxes, and what comes after turns."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def come(self, driven: Driven, state: TurnState) -> Gathered:
        """Read what has come: rows of the inbox where there may be new ones, and whether a queued turn may begin."""
        look, driven.look = driven.look, False
        try:
            if driven.faults >= MAX_FAULTS:
                unread = await self._runtime.store.inbox.rows(driven.turn_id)
                return Gathered(broken=True, unread=unread)
            fed, messages = await self._rows(driven) if look else ([], driven.waiting)
            begins = state.queued and await self._is_active(driven, state)
        except BaseException as error:
            driven.look = True
            count_fault(driven, error)
            raise
        driven.waiting = messages
        return Gathered(rows=fed, messages=messages, begins=begins, takes_messages=driven.takes_messages)

    async def _rows(self, driven: Driven) -> tuple[list[tuple[InboxRow, Input]], list[tuple[InboxRow, Steered]]]:
        """Read what is new in the inbox: what is fed at once, and messages, which wait until a request can take them.

        What was read before and is still there are messages.
        """
        fed: list[tuple[InboxRow, Input]] = []
        messages = list(driven.waiting)
        last = messages[-1][0].n if messages else 0
        for row in await self._runtime.store.inbox.rows(driven.turn_id, last):
            given = self._runtime.codec.read_input(row.data)
            if isinstance(given, Steered):
                messages.append((row, given))
            else:
                fed.append((row, given))
        return sorted(fed, key=lambda one: _rank(one[1])), messages

    async def _is_active(self, driven: Driven, state: TurnState) -> bool:
        session = await self._runtime.store.sessions.get(state.session_id)
        return session is not None and session.active_turn_id == driven.turn_id

    async def following(self, driven: Driven) -> Following:
        """Find out what comes after a turn that ends."""
        if driven.session_version is not None or driven.row is None:
            return Following(session_version=driven.session_version, active=True, queued="")
        session_id = driven.row.session_id
        session = await self._runtime.store.sessions.get(session_id)
        waiting = await self._runtime.store.turns.queued(session_id)
        return Following(
            session_version=session.version if session is not None else None,
            active=session is None or session.active_turn_id == driven.turn_id,
            queued=next((row.turn_id for row in waiting if row.turn_id != driven.turn_id), ""),
        )


_FIRST: tuple[type[Input], ...] = (CallSettled, DecisionMade)
"""What is fed first: what was acknowledged as settling or deciding a call, before what is about several.

So no cancel settles a call that has its result, and decisions that came together are taken in together.
"""


def _rank(given: Input) -> int:
    return _FIRST.index(type(given)) if type(given) in _FIRST else len(_FIRST)


def count_fault(driven: Driven, error: BaseException) -> None:
    """Count a fault of ours; that the store is away, or that another was faster, is none."""
    if not isinstance(error, Conflict | StoreUnavailable | asyncio.CancelledError):
        driven.faults += 1
