"""A raw worker that says everything twice, late or not at all, and yet never lies: what it says of its bodies is true.

It keeps the rules that a call which must not run twice depends on: a body that has begun is named in each Hello until
the server has said what becomes of it. Everything else is as bad as the contract allows.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import grpc

from baton import FunctionError
from baton.v1 import handler_pb2 as pb
from baton.v1 import handler_pb2_grpc
from tests.faults.functions import ALLOWED, NAMES, QUICK_S, Attempt, Bodies, output_of
from tests.faults.journal import Fact, Journal
from tests.faults.worker import Place, left

CREDIT = 8
AWAY_S = (0.1, 2.5)
"""How long it stays away when it vanishes: within and beyond the server's grace."""

RECONNECT_S = 0.1
CHANNEL = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
)

BROKEN = (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError)
"""What reading from, and writing to, a stream raises that has ended."""

log = logging.getLogger("rogue")


class Manner(StrEnum):
    """What it does with one call.

    PLAIN: a result. TWICE: two at once. AGAIN: one, and the same behind its ack. OTHER: one, and another behind its
    ack. NACKED: it runs, gives the call back, and then sends the result. UNBEGUN: it gives it back unbegun. IGNORED: it
    says nothing. VANISHED: it runs, and goes away for a while before it tells.
    """

    PLAIN = "plain"
    TWICE = "twice"
    AGAIN = "again"
    OTHER = "other"
    NACKED = "nacked"
    UNBEGUN = "unbegun"
    IGNORED = "ignored"
    VANISHED = "vanished"


WEIGHTS = {
    Manner.PLAIN: 4,
    Manner.TWICE: 3,
    Manner.AGAIN: 3,
    Manner.OTHER: 3,
    Manner.NACKED: 3,
    Manner.UNBEGUN: 1,
    Manner.IGNORED: 1,
    Manner.VANISHED: 1,
}


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """An attempt that it has. `result` None: it runs, or has not begun."""

    call: pb.Call
    manner: Manner
    begun: bool = False
    cancelled: bool = False
    result: pb.Result | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Call and attempt."""
        return self.call.call_id, self.call.attempt


@dataclass(slots=True)
class Rogue:
    """One process of it. `sent`: the text of each result that was sent; empty: there were several, or it failed.

    `plain`: it behaves.
    """

    place: Place
    bodies: Bodies
    journal: Journal
    chance: random.Random
    held: dict[tuple[str, int], Held] = field(default_factory=dict)
    sent: dict[tuple[str, int], str] = field(default_factory=dict)
    token: str = ""
    stream: Any = None
    away_s: float = 0.0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    plain: bool = False
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Serve until cancelled, over as many streams as it takes."""
        async with grpc.aio.insecure_channel(self.place.address, options=CHANNEL) as channel:
            stub = handler_pb2_grpc.HandlerServiceStub(channel)
            while True:
                try:
                    await self._serve(stub.Connect(wait_for_ready=True))
                except BROKEN as error:
                    log.info("the stream broke: %r", error)
                except asyncio.CancelledError:
                    if not self.away_s:
                        raise  # else it was this worker that left the stream
                away_s, self.away_s = self.away_s, 0.0
                await asyncio.sleep(away_s or self.chance.uniform(0.0, RECONNECT_S))

    async def settle_down(self) -> None:
        """Begin what was ignored so far, and be plain from now on."""
        self.plain = True
        for held in tuple(self.held.values()):
            if held.manner is Manner.IGNORED:
                await self._go_on(held)

    async def close(self) -> None:
        """Stop all that runs."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    # -- one stream ------------------------------------------------------------------------------

    async def _serve(self, stream: Any) -> None:
        hello = pb.Hello(
            instance_id=f"rogue-{self.place.name}",
            resume_token=self.token,
            handlers=[_spec(name) for name in NAMES],
            credit=pb.Credit(messages=CREDIT),
            held=[
                pb.HeldAttempt(
                    call_id=held.call.call_id,
                    attempt=held.call.attempt,
                    begun=held.begun,
                    finished=held.result is not None,
                )
                for held in self.held.values()
            ],
        )
        await stream.write(pb.ConnectRequest(hello=hello))
        try:
            async for frame in stream:
                await self._take(stream, frame)
        finally:
            self.stream = None
            stream.cancel()

    async def _take(self, stream: Any, frame: pb.ConnectResponse) -> None:
        match frame.WhichOneof("frame"):
            case "welcome":
                self.stream, self.token = stream, frame.welcome.resume_token
                await self._obey(frame.welcome)
            case "call":
                await self._accept(frame.call)
            case "result_ack":
                await self._acked(frame.result_ack)
            case "cancel":
                await self._cancel(frame.cancel)
            case "drain" | None:
                pass  # it stays until the stream is ended from there
            case "heartbeat":
                await self._write(pb.ConnectRequest(heartbeat=pb.WorkerHeartbeat()))
            case other:
                log.error("unexpected %s: %s", other, frame)

    async def _obey(self, welcome: pb.Welcome) -> None:
        """Do what Welcome says about what is held; a result that is not wanted any more is sent all the same."""
        for verdict in welcome.attempts:
            held = self.held.get((verdict.call_id, verdict.attempt))
            if held is None:
                continue
            if verdict.verdict == pb.HELD_VERDICT_CONTINUE:
                await self._go_on(held)
                continue
            self._forget(held)
            if verdict.verdict == pb.HELD_VERDICT_ABANDON and held.result is not None:
                self._note(Fact.SENT_LATE, held)
                await self._send(held)

    async def _accept(self, call: pb.Call) -> None:
        (manner,) = self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        manner = Manner.PLAIN if self.plain else manner
        held = Held(call=call, manner=manner)
        if held.key in self.held:
            log.error("%s came twice", held.key)
        if manner is Manner.UNBEGUN:
            await self._write(pb.ConnectRequest(nack=_nack(call, not_begun=True)))
            await self._grant()
            return
        self.held[held.key] = held
        if manner is not Manner.IGNORED:  # else until it is cancelled, or named in a Hello
            self._start(held)

    def _start(self, held: Held) -> None:
        task = asyncio.ensure_future(self._execute(held))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _go_on(self, held: Held) -> None:
        """Send what there is again; what was ignored so far is begun, since its lease would never end."""
        if held.result is not None:
            await self._send(held)
        elif held.manner is Manner.IGNORED:
            held.manner = Manner.PLAIN
            self._start(held)

    async def _execute(self, held: Held) -> None:
        if held.manner is not Manner.PLAIN:
            ack = pb.CallAck(call_id=held.call.call_id, attempt=held.call.attempt)
            await self._write(pb.ConnectRequest(call_ack=ack))
        if held.cancelled:
            return
        held.begun = True
        held.result = await self._result(held.call)
        if held.manner is Manner.NACKED:
            await self._write(pb.ConnectRequest(nack=_nack(held.call, not_begun=False)))
        if held.manner is Manner.NACKED or held.key not in self.held:
            self._note(Fact.SENT_LATE, held)
        if held.manner is Manner.VANISHED and self.stream is not None:
            self.away_s = self.chance.uniform(*AWAY_S)
            self.stream.cancel()
            return
        await self._send(held)
        if held.manner is Manner.TWICE:
            self._note(Fact.SENT_AGAIN, held)
            await self._send(held)

    async def _result(self, call: pb.Call) -> pb.Result:
        result = pb.Result(call_id=call.call_id, attempt=call.attempt)
        attempt = Attempt(name=call.name, call_id=call.call_id, attempt=call.attempt, key=call.idempotency_key)
        try:
            async with self.bodies.lasting(attempt, QUICK_S):
                result.output = output_of(call.name, call.call_id, call.attempt)
        except FunctionError as error:
            result.failure = str(error)
        return result

    async def _acked(self, ack: pb.ResultAck) -> None:
        held = self.held.get((ack.call_id, ack.attempt))
        verdict = pb.ResultVerdict.Name(ack.verdict).removeprefix("RESULT_VERDICT_").lower()
        text = self.sent.get((ack.call_id, ack.attempt), "")
        self.journal.write(Fact.ACKED, call_id=ack.call_id, attempt=ack.attempt, outcome=verdict, text=text)
        if held is None:
            return
        self._forget(held)
        await self._grant()
        if held.result is None or held.manner not in (Manner.AGAIN, Manner.OTHER):
            return
        if held.manner is Manner.OTHER:
            held.result.output = f"another result of {ack.call_id}"
        self._note(Fact.SENT_AGAIN if held.manner is Manner.AGAIN else Fact.SENT_LATE, held)
        await self._send(held)

    async def _cancel(self, cancel: pb.Cancel) -> None:
        held = self.held.get((cancel.call_id, cancel.attempt))
        outcome = pb.CANCEL_OUTCOME_NOT_STOPPED
        if held is not None and not held.begun:
            outcome = pb.CANCEL_OUTCOME_NOT_BEGUN
            held.cancelled = True
            self._forget(held)
            await self._grant()
        ack = pb.CancelAck(call_id=cancel.call_id, attempt=cancel.attempt, outcome=outcome)
        await self._write(pb.ConnectRequest(cancel_ack=ack))

    # -- small moves -----------------------------------------------------------------------------

    def _forget(self, held: Held) -> None:
        held.cancelled = not held.begun
        self.held.pop(held.key, None)

    def _note(self, fact: Fact, held: Held) -> None:
        self.journal.write(fact, call_id=held.call.call_id, attempt=held.call.attempt, name=held.call.name)

    async def _send(self, held: Held) -> None:
        if held.result is not None:
            text = held.result.output
            self.sent[held.key] = text if self.sent.get(held.key, text) == text else ""
            await self._write(pb.ConnectRequest(result=held.result))

    async def _grant(self) -> None:
        await self._write(pb.ConnectRequest(credit=pb.Credit(messages=1)))

    async def _write(self, frame: pb.ConnectRequest) -> None:
        stream = self.stream
        if stream is None:
            return
        try:
            async with self.writing:
                await stream.write(frame)
        except BROKEN as error:
            log.debug("not written: %s", error)  # its reader learns by itself that the stream is broken


def _spec(name: str) -> pb.HandlerSpec:
    spec = pb.HandlerSpec(name=name)
    if name in ("once", ALLOWED):
        spec.execution.side_effects = pb.SIDE_EFFECTS_ONCE
    return spec


def _nack(call: pb.Call, *, not_begun: bool) -> pb.Nack:
    return pb.Nack(call_id=call.call_id, attempt=call.attempt, not_begun=not_begun, reason="a mood")


async def misbehave(place: Place, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM, then finish what there is."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    chance = random.Random(place.seed)
    with Journal(place.journal) as journal:
        rogue = Rogue(place, Bodies(place.name, journal, place.claims, chance), journal, chance)
        serving = asyncio.create_task(rogue.run())
        ready("")
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving.done():
            serving.result()
        await rogue.settle_down()
        journal.write(Fact.LEFT, count=await left(lambda: len(rogue.held), place.rest_s))
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await rogue.close()
