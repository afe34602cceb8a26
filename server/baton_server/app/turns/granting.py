"""Decisions that hold for the whole session: a call that waits for one gets it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from baton_server.app.runtime import Runtime
from baton_server.app.turns.turn import Driven
from baton_server.core.events import Decision
from baton_server.core.inputs import DecisionMade, Input
from baton_server.ports.store import GrantRow


class Granting:
    """Looks whether a session has decided about a call already."""

    def __init__(self, runtime: Runtime, feed: Callable[[str, Input], asyncio.Future[bool]]) -> None:
        self._runtime, self._feed = runtime, feed

    async def look(self, driven: Driven) -> bool:
        """Bring a turn the decisions that its session has made before; False: there are none. Each call is asked once.

        A decision is bound to the function's definition: of another one it says nothing.
        """
        state = driven.state
        if state is None or state.over:
            return False
        waiting = {
            one: call
            for one, call in state.open_calls.items()
            if call.awaiting is not None and one not in driven.granted
        }
        if not waiting:
            return False
        grants = await self._runtime.store.sessions.grants(state.session_id)
        by_tool = {(grant.agent, grant.tool, grant.definition_digest): grant for grant in grants}
        found = False
        for call_id, call in waiting.items():
            driven.granted.add(call_id)
            binding = call.awaiting
            grant = None if binding is None else by_tool.get((call.agent, call.name, binding.definition_digest))
            if grant is not None:
                found = True
                self._feed(state.turn_id, DecisionMade(decision=_decision(call_id, grant)))
        return found


def _decision(call_id: str, grant: GrantRow) -> Decision:
    return Decision(call_id=call_id, approve=grant.approve, decided_by=grant.decided_by, message=grant.message)
