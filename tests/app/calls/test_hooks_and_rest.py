"""A turn does not rest while something is asked; who waits for that hears when nothing is any more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.app.calls.hooking import answer, hosts
from tests.contract.store.builders import turn_row
from tests.core.driving import Turn
from tests.core.making import hook
from tests.support.room import Room, quiet

from baton_server.app.calls.frames import Ask
from baton_server.app.turns.hooking import Hooking
from baton_server.app.turns.turn import Driven
from baton_server.core.agents import Agent
from baton_server.core.events import HookKind, TurnStatus
from baton_server.core.inputs import Input
from baton_server.core.state import TurnState


async def test_who_waits_for_a_turn_looks_again_once_nothing_is_asked_any_more(room: Room) -> None:
    """What came of the answer may be on disk before the question is done with: nothing else would wake the one."""
    turn = Turn(agent=Agent(name="Helper", instructions_hook=hook()))
    turn.begin()
    driven = Driven(turn_id="turn_0a", state=turn.state, row=turn_row("turn_0a", TurnStatus.WAITING))
    waiter = room.bus.subscribe("sess_1")
    seen: list[bool] = []

    def feed(_turn_id: str, _given: Input) -> asyncio.Future[bool]:
        seen.append(driven.working)  # as if it were on disk already
        counted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        counted.set_result(True)
        return counted

    async def history(_driven: Driven, _state: TurnState) -> Sequence[str]:
        return ()

    driven.look = False
    hooking = Hooking(room.runtime, room.hooks, history, feed)
    worker = await room.worker(*hosts("ask", kind=HookKind.INSTRUCTIONS))
    hooking.ask(driven, turn.state, turn.questions())
    await quiet()
    waiter.take()

    answer(room, worker, worker.expect(Ask), answer_json='{"instructions":"Be brief."}')
    await quiet()

    assert (seen, driven.working) == ([True], False)
    assert waiter.nudged
