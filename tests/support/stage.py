"""A stage for workers: a server whose clock stands still, a model that calls what a turn says, workers by hand.

turn = await stage.turn([("add", '{"n":1}')], [("add", '{"n":2}')])   # two rounds with a call, then the answer
worker = await stage.worker("add")
await worker.finish(await worker.expect("call"))
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from baton.v1 import agent_pb2, event_pb2, item_pb2, session_pb2
from baton_server.app.calls.leases import Leased
from baton_server.main import Baton
from baton_server.ports.model import ModelRequest
from baton_server.ports.store import Store
from tests.api.calling import Client, client_of, helper, kinds, told
from tests.support.observed_store import ObservedStore
from tests.support.scripted_model import Reply, ScriptedModel, calls, say
from tests.support.scripted_worker import PATIENCE_S, ScriptedWorker, close_all
from tests.support.server import server
from tests.support.stepped_clock import SteppedClock

Call = tuple[str, str]
"""Name and arguments of a call that the model makes."""

ANY_OBJECT = '{"type":"object"}'
"""Parameters that let any arguments pass."""

ENDS = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})


async def eventually(holds: Callable[[], Any]) -> None:
    """Wait until something holds in this process's server."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await _a_moment()


async def _a_moment() -> None:
    """Let everybody else go on."""
    await asyncio.sleep(0)


class Turn:
    """A turn that was started."""

    def __init__(self, client: Client, session_id: str, turn_id: str) -> None:
        self._client = client
        self.session_id, self.turn_id = session_id, turn_id

    async def until(self, *arms: str, times: int = 1) -> list[event_pb2.Event]:
        """Watch from the first event until one of these arms has come so often; returns all up to then."""
        follow = session_pb2.WatchRequest(session_id=self.session_id, follow=session_pb2.FOLLOW_FOREVER)
        call = self._client.sessions.Watch(follow)
        found: list[event_pb2.Event] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for message in call:
                    for part in message.parts:
                        if part.HasField("event") and part.event.turn_id in ("", self.turn_id):
                            found.append(part.event)
                            if sum(kind in arms for kind in kinds(found)) >= times:
                                return found
        finally:
            call.cancel()
        raise AssertionError(f"the watch ended; there was {kinds(found)}")

    async def waiting(self) -> None:
        """Wait until its calls are open."""
        await self.until("session_requires_action")

    async def ended(self) -> list[event_pb2.Event]:
        """Wait for its end; returns its events."""
        return await self.until(*ENDS)

    async def completed(self) -> list[event_pb2.Event]:
        """Wait for its end, which must be a good one."""
        events = await self.ended()
        assert kinds(events)[-1] == "turn_completed", events[-1]
        return events

    async def outputs(self) -> list[item_pb2.FunctionCallOutput]:
        """List the outputs of its calls so far, in the order of the log."""
        items = told(await self._client.events(self.session_id, turn_id=self.turn_id), "item_added")
        return [added.item.function_call_output for added in items if added.item.HasField("function_call_output")]

    async def told(self, arm: str) -> list[Any]:
        """List what its events of one kind hold so far."""
        return told(await self._client.events(self.session_id, turn_id=self.turn_id), arm)

    async def actions(self) -> list[event_pb2.RequiredAction]:
        """List what is open in its session."""
        return list((await self._client.get(self.session_id)).required_actions)

    async def state(self) -> str:
        """Say where its one open call is: "QUEUED", "LEASED" or "UNSERVED"."""
        (action,) = await self.actions()
        return event_pb2.RequiredActionState.Name(action.state).removeprefix("REQUIRED_ACTION_STATE_")

    async def settle(self, call_id: str, **outcome: Any) -> session_pb2.InputOutcome:
        """Settle a call from outside."""
        given = {"turn_id": self.turn_id, "call_id": call_id, **outcome}
        return (await self._client.submit(self.session_id, {"tool_result": given})).outcomes[0]

    async def cancel(self, **fields: Any) -> session_pb2.InputOutcome:
        """Cancel it."""
        return await self._client.cancel(self.session_id, self.turn_id, **fields)


class Stage:
    """The server and all who talk to it. `restart` keeps the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self._workers: list[ScriptedWorker] = []
        self._rounds: dict[str, Sequence[Sequence[Call]]] = {}
        self._numbers = itertools.count(1)
        self.clock = SteppedClock()
        self.store: ObservedStore
        self.baton: Baton
        self.client: Client
        self.model: ScriptedModel

    async def start(self, **settings: Any) -> Stage:
        """Start the server. `settings` as of `tests.support.server.server`."""
        given = {"clock": self.clock, "drain_s": 0.0, "around_store": self._observe, **settings}
        self.model = ScriptedModel(self._reply)
        self.baton = await self._stack.enter_async_context(server(self._folder, self.model, **given))
        self.client = await self._stack.enter_async_context(client_of(self.baton))
        return self

    async def stop(self) -> None:
        """Stop everything."""
        await close_all(self._workers)
        self._workers.clear()
        await self._stack.aclose()

    async def restart(self, **settings: Any) -> None:
        """Stop everything and start again on the same file."""
        await self.stop()
        self.clock = SteppedClock()
        await self.start(**settings)

    def again(self, turn: Turn) -> Turn:
        """Look at a turn through the client of a server that was started again."""
        return Turn(self.client, turn.session_id, turn.turn_id)

    # -- who takes part --------------------------------------------------------------------------

    def stream(self, *, reading: bool = True) -> ScriptedWorker:
        """Open a stream that has said nothing yet."""
        worker = ScriptedWorker(self.baton.address, reading=reading)
        self._workers.append(worker)
        return worker

    async def worker(self, *names: str, credit: int | Mapping[str, int] = 10, **hello: Any) -> ScriptedWorker:
        """Attach a worker that serves these names."""
        worker = self.stream()
        await worker.hello(*names, credit=credit, **hello)
        return worker

    async def back(self, worker: ScriptedWorker, *names: str, **hello: Any) -> ScriptedWorker:
        """Attach a worker again, over a new stream, with its resume token."""
        return await self.worker(*names, resume_token=worker.welcome.resume_token, **hello)

    async def turn(self, *rounds: Sequence[Call], scopes: Sequence[str] = (), **agent: Any) -> Turn:
        """Start a turn whose model makes these calls, round by round, and then says "Done."."""
        text, asked = self.script(*rounds, **agent)
        session = await self.client.session(agent=asked, scopes=scopes)
        answer = await self.client.submit(session.session_id, text)
        return Turn(self.client, session.session_id, answer.turn_id)

    def script(self, *rounds: Sequence[Call], **agent: Any) -> tuple[str, agent_pb2.Agent]:
        """Prepare a turn as `turn` starts it: the text that makes the model do it, and the agent."""
        text = f"script {next(self._numbers)}"
        self._rounds[text] = rounds
        names = dict.fromkeys(name for calls_ in rounds for name, _ in calls_)
        tools = [{"function": {"name": name, "parameters_json": ANY_OBJECT}} for name in names]
        return text, helper(**{"tools": tools, **agent})

    async def call(self, name: str = "f", arguments: str = "{}", **given: Any) -> Turn:
        """Start a turn with one call."""
        return await self.turn([(name, arguments)], **given)

    # -- what goes on ----------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Move the clock, and have the server look at it."""
        self.clock.advance(seconds)
        self.baton.workers.tick()

    def lease(self, call_id: str) -> Leased:
        """Look at who holds a call."""
        lease = self.baton.dispatcher.leases.get(call_id)
        assert lease is not None, f"nobody holds {call_id}"
        return lease

    async def never_acked(self, call_id: str) -> None:
        """Let the time pass in which a call that was written must be acked."""
        await eventually(lambda: self.lease(call_id).written_at is not None)
        self.pass_time(6)

    async def break_off(self, worker: ScriptedWorker, call_id: str) -> None:
        """Cut a worker's connection, and wait until the server has noticed; the worker holds the call."""
        lost = self.lease(call_id).worker
        assert lost is not None
        await worker.break_connection()
        await eventually(lambda: lost.lost_at is not None)

    def _observe(self, store: Store) -> ObservedStore:
        self.store = ObservedStore(store)
        return self.store

    def _reply(self, request: ModelRequest) -> Reply:
        said = [item["content"] for item in map(json.loads, request.items) if item.get("role") == "user"]
        rounds = self._rounds[said[-1]]
        return calls(*rounds[request.round - 1]) if request.round <= len(rounds) else say("Done.")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Run a stage for one test."""
    made = await Stage(tmp_path).start()
    yield made
    await made.stop()


@pytest.fixture
async def empty_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Give a stage whose server the test starts itself, with settings of its own."""
    made = Stage(tmp_path)
    yield made
    await made.stop()
