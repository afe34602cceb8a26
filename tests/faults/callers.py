"""Those who start turns and watch: many sessions at once, each going on after every break with the same request."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import grpc

from baton.errors import AgentsException
from baton.server.client import Client
from baton.v1 import agent_pb2, event_pb2, run_config_pb2, runner_pb2, session_pb2
from tests.crash.house import ECHO_PARAMETERS
from tests.crash.raw_clients import RawWatcher
from tests.faults.functions import AFTER, AGENTS, ALLOWED, BEFORE, GUARDED, KEYED, NAMES

log = logging.getLogger("faults.callers")

MENUS = (
    "name=plain|once|slow|keyed,calls=4,parallel=4",
    "name=asked|plain|failing,calls=4,parallel=2",
    "name=checked|keyed|keyed|plain,calls=4,parallel=4",
    "name=slow|once|failing,calls=3,parallel=3",
    "name=plain|keyed,calls=6,parallel=2",
    "name=plain,calls=3,parallel=1",
    "name=allowed|aide|plain,calls=3,parallel=3",
    "name=allowed|guarded|plain,calls=3,parallel=3",
    "name=aide|guarded|allowed,calls=3,parallel=2",
)
"""What models do in a turn; `checked=1` makes the model refuse a history that is broken."""

DEFAULTS = tuple(menu for menu in MENUS if GUARDED not in menu)
"""Those of sessions, whose turns have the server's own grace."""

(AIDE,) = AGENTS
AIDE_MODEL = "rule:name=plain|allowed,calls=2,parallel=2,words=2,checked=1"

WAYS = {"run": 4, "run_streamed": 3, "submit": 3, "cancel": 1}
"""How a turn is started, and how often each way is taken."""

UNSERVED_GRACE_S = 0.3
HOOKS_UNSERVED_GRACE_S = 20.0
"""Of turns that ask hooks, which fail without an answer: longer than all workers together may be away."""
CANCEL_AFTER_S = 0.5
AGAIN_S = (0.05, 0.3)

T = TypeVar("T")


def agent(menu: str, length: int) -> agent_pb2.Agent:
    """Make an agent that does what a menu says. `length`: of the texts that its calls carry, which is their key."""
    model = f"rule:{menu},arg={length},words=3,checked=1"
    aide = agent_pb2.Agent(name=AIDE, model=AIDE_MODEL, tools=[_tool(name) for name in ("plain", ALLOWED)])
    ask = agent_pb2.AgentTool(agent=AIDE, tool_name=AIDE, parameters_json=ECHO_PARAMETERS)
    tools = [*(_tool(name) for name in NAMES), agent_pb2.Tool(agent=ask)]
    return agent_pb2.Agent(name="clerk", model=model, tools=tools, agents=[aide])


def _tool(name: str) -> agent_pb2.Tool:
    function = agent_pb2.FunctionTool(name=name, parameters_json=ECHO_PARAMETERS)
    if name in ("asked", "checked"):
        function.execution.lost_worker = agent_pb2.LOST_WORKER_ASK
    if name == ALLOWED:
        function.needs_approval.always = True
    if name == GUARDED:
        function.input_guardrails.add(name=BEFORE).hook.name = BEFORE
        function.output_guardrails.add(name=AFTER).hook.name = AFTER
    if name == KEYED:
        function.execution.idempotency_fields.append("/text")
    return agent_pb2.Tool(function=function)


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far the callers have come. `over`: begin no more turns; `given_up`: wait for none any more.

    `started`, `ended`: turns by id, as callers were told. `under_way`: one has ended.
    """

    over: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: asyncio.Event = field(default_factory=asyncio.Event)
    started: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    events: int = 0


class Reader(RawWatcher):
    """Reads a session for ever, and notes what it should not have seen. `client` None: by plain gRPC."""

    def __init__(self, channel: grpc.aio.Channel, session_id: str, progress: Progress, client: Client | None) -> None:
        super().__init__(channel, session_id)
        self._progress, self._client, self._id = progress, client, session_id
        self._news = asyncio.Event()
        self._ends: Counter[str] = Counter()

    async def run(self) -> None:
        """Read until cancelled."""
        if self._client is None:
            await super().run()
        while self._client is not None and not self.faults:
            try:
                parts = self._client.watch(
                    self._id, after_sequence=self.last, follow_until=session_pb2.FOLLOW_FOREVER,
                    deltas=event_pb2.DELTA_LEVEL_NONE,
                )  # fmt: skip
                async for part in parts:
                    self.take(part)
            except AgentsException as error:
                log.info("the watch of %s ended and goes on: %s", self._id, error)

    def take(self, part: event_pb2.StreamPart) -> None:
        """Note one thing that came."""
        super().take(part)
        if part.HasField("event"):
            self._progress.events += 1
            if part.event.WhichOneof("event") in ("turn_completed", "turn_failed", "turn_cancelled"):
                self._ends[part.event.turn_id] += 1
                self._progress.ended.add(part.event.turn_id)
                self._progress.under_way.set()
        self._news.set()

    async def saw(self, holds: Callable[[], bool]) -> bool:
        """Wait until something holds of what was seen; False: it was given up, or the reading has ended."""
        while not holds():
            if self._progress.given_up.is_set() or self.faults:
                return False
            self._news.clear()
            await _first(self._news, self._progress.given_up)
        return True

    async def ended(self, turn_id: str) -> bool:
        """Wait for a turn's end; False: it did not come."""
        return await self.saw(lambda: self._ends[turn_id] > 0)


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


class Caller:
    """One session: one turn after the other, in a way of starting turns that chance chooses."""

    def __init__(self, number: int, address: str, channel: grpc.aio.Channel, seed: int, progress: Progress) -> None:
        self._number, self._channel, self._progress = number, channel, progress
        self._client = Client(address)
        self._chance = random.Random(f"{seed} caller {number}")
        self._turns = 0
        self._session_id = ""
        self.reader: Reader | None = None

    async def run(self) -> None:
        """Run turns until it is told that it is over, and wait for the last one; then for all that the log has."""
        default = agent(DEFAULTS[self._number % len(DEFAULTS)], 8)
        key = f"session-{self._number}"
        session = await self._persist(
            lambda: self._client.create_session(key=key, get_or_create=True, agent=default), None
        )
        if session is None:
            return
        self._session_id = session.session_id
        by_client = self._client if self._number % 2 else None
        self.reader = Reader(self._channel, session.session_id, self._progress, by_client)
        reading = asyncio.create_task(self.reader.run())
        try:
            while not self._progress.over.is_set() and not self._progress.given_up.is_set():
                await self._turn(self.reader)
            await self._catch_up(self.reader)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _turn(self, reader: Reader) -> None:
        self._turns += 1
        (way,) = self._chance.choices(list(WAYS), list(WAYS.values()))
        request_id = f"{self._number}-{self._turns}"
        if way in ("run", "run_streamed"):
            turn_id = await (self._run if way == "run" else self._run_streamed)(request_id)
        else:
            turn_id = await self._submit(request_id)
        if turn_id is None:
            return
        self._progress.started.add(turn_id)
        if way == "cancel":
            await self._cancel(turn_id)
        await reader.ended(turn_id)

    # -- ways to start a turn --------------------------------------------------------------------

    async def _run(self, request_id: str) -> str | None:
        request = self._request(request_id)
        answer = await self._persist(lambda: self._client.run(request), None)
        return answer.turn.turn_id if answer is not None else None

    async def _run_streamed(self, request_id: str) -> str | None:
        request = self._request(request_id)

        async def read() -> str:
            turn_id, last = "", 0
            async for message in self._client.run_streamed(request):
                turn_id = message.started.turn_id or message.result.turn.turn_id or turn_id
                for part in message.parts:
                    if part.HasField("event") and last and part.event.sequence <= last:
                        self._fault(f"run_streamed brought {part.event.sequence} behind {last}")
                    last = part.event.sequence if part.HasField("event") else last
            return turn_id

        return await self._persist(read, None)

    async def _submit(self, request_id: str) -> str | None:
        answer = await self._persist(
            lambda: self._client.submit(
                self._session_id, "again", if_busy=session_pb2.IF_BUSY_QUEUE, request_id=request_id
            ),
            None,
        )
        return answer.turn_id if answer is not None else None

    async def _cancel(self, turn_id: str) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, CANCEL_AFTER_S))
        mode = self._chance.choice((event_pb2.CANCEL_MODE_NOW, event_pb2.CANCEL_MODE_AFTER_ROUND))
        await self._persist(lambda: self._client.cancel(self._session_id, turn_id, mode), None)

    def _request(self, request_id: str) -> runner_pb2.RunRequest:
        config = run_config_pb2.RunConfig()
        menu = self._chance.choice(MENUS)
        grace_s = HOOKS_UNSERVED_GRACE_S if GUARDED in menu else UNSERVED_GRACE_S
        config.unserved_grace.FromTimedelta(timedelta(seconds=grace_s))
        made = agent(menu, 1 + self._turns // 2)
        return runner_pb2.RunRequest(
            request_id=request_id, session_id=self._session_id, agent=made, text="again", run_config=config
        )

    # -- going on --------------------------------------------------------------------------------

    async def _persist(self, send: Callable[[], Awaitable[T]], otherwise: T | None) -> T | None:
        """Send the same again until it is answered, or all is given up."""
        while not self._progress.given_up.is_set():
            sending = asyncio.ensure_future(send())
            giving_up = asyncio.ensure_future(self._progress.given_up.wait())
            try:
                await asyncio.wait({sending, giving_up}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    return sending.result()
            except AgentsException as error:
                if not error.retryable:
                    self._fault(f"a request was refused: {error!r}")
                    return otherwise
                await asyncio.sleep(self._chance.uniform(*AGAIN_S))
            finally:
                for task in (sending, giving_up):
                    task.cancel()
                await asyncio.gather(sending, giving_up, return_exceptions=True)
        return otherwise

    async def _catch_up(self, reader: Reader) -> None:
        """Wait until the reader has all that the log has."""
        session = await self._persist(lambda: self._client.get_session(self._session_id), None)
        if session is not None and not await reader.saw(lambda: reader.last >= session.last_sequence):
            self._fault(f"it saw {reader.last} of {session.last_sequence} events")

    def _fault(self, fault: str) -> None:
        log.error("session %d: %s", self._number, fault)
        if self.reader is not None:
            self.reader.faults.append(fault)


def faults_of(callers: Sequence[Caller]) -> list[str]:
    """List what readers should not have seen."""
    return [fault for caller in callers if caller.reader is not None for fault in caller.reader.faults]
