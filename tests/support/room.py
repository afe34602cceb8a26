"""The room of calls by itself: a store in memory, a clock that stands still, workers by hand, and a driver that does
no more than is needed.

call = await room.open("f")
worker = await room.worker("f")
await worker.expect(Deliver)
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.frames import (
    CancelReason,
    Credit,
    Frame,
    Handler,
    Introduction,
)
from baton_server.app.calls.hooks import Hooks
from baton_server.app.calls.leases import Leased
from baton_server.app.calls.registry import Registry
from baton_server.app.calls.worker import Worker
from baton_server.app.calls.workers import Workers
from baton_server.app.runtime import Limits, Runtime
from baton_server.bus.local import LocalBus
from baton_server.core.events import Event, ItemAdded, TurnStatus
from baton_server.core.inputs import (
    AttemptFailed,
    CallExpired,
    CallSettled,
    CallsUnheld,
    CallTimedOut,
    DecisionMade,
    Input,
)
from baton_server.core.items import FunctionCallOutput, Item, Settlement, TextPart
from baton_server.core.rules import Rules
from baton_server.core.runner import Runner
from baton_server.engine.clock import TimeIds
from baton_server.ports.model import Model
from baton_server.ports.store import (
    Batch,
    CallRow,
    CallState,
    Conflict,
    InboxRow,
    ItemRow,
    NewEvent,
    Parked,
    Requeue,
    SessionRow,
    SessionWrite,
    Settled,
    SettleGuard,
    Store,
    TurnRow,
    TurnWrite,
)
from baton_server.store.memory import MemoryStore
from baton_server.wire.codec import ProtoCodec, stamp
from baton_server.wire.stream import ProtoParts
from tests.support.hand import Hand
from tests.support.stepped_clock import SteppedClock

PATIENCE_S = 10.0
SESSION, TURN = "sess_1", "turn_1"

T = TypeVar("T", bound=Frame)


async def eventually(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await quiet(1)


async def quiet(rounds: int = 200) -> None:
    """Let everybody do what there is to do; nothing here waits for anything but the loop and the clock."""
    for _ in range(rounds):
        await asyncio.sleep(0)


class NotedHooks(Hooks):
    """Hooks that note whose streams broke."""

    def __init__(self, runtime: Runtime, registry: Registry) -> None:
        super().__init__(runtime, registry)
        self.broken: list[str] = []

    def broke(self, worker: Worker) -> None:
        """Note whose stream broke."""
        self.broken.append(worker.worker_id)
        super().broke(worker)


class Room:
    """The room and its surroundings. `fed`: what was fed to turns, in order. `cancelled`: calls under a cancel."""

    def __init__(self, store: MemoryStore | None = None, clock: SteppedClock | None = None, **limits: Any) -> None:
        self.clock = clock or SteppedClock()
        self.store = store or MemoryStore(stamp=stamp, clock=self.clock.wall)
        self.bus = LocalBus()
        self.runtime = Runtime(
            store=cast(Store, self.store),
            bus=self.bus,
            model=cast(Model, None),
            codec=ProtoCodec(),
            parts=ProtoParts(),
            runner=Runner(cast(Rules, None)),
            ids=TimeIds(),
            clock=self.clock,
            limits=Limits(**limits),
        )
        self.registry = Registry()
        self.hooks = NotedHooks(self.runtime, self.registry)
        self.dispatcher = Dispatcher(self.runtime, self.registry, self.feed, lambda: None, _in_a_nested_run)
        self.workers = Workers(self.runtime, self.registry, self.dispatcher, self.hooks)
        self.fed: list[Input] = []
        self.batches: list[Batch] = []
        self.cancelled: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._go: asyncio.Event | None = None
        self._commit = self.store.commit
        self.store.commit = self._note  # type: ignore[method-assign]

    async def prepare(self) -> Room:
        """Make the session and the turn of all calls."""
        new = SessionWrite(new=SessionRow(session_id=SESSION))
        turn = TurnRow(
            turn_id=TURN,
            session_id=SESSION,
            status=TurnStatus.IN_PROGRESS,
            snapshot=b"",
            agent_digest="a",
            config_digest="c",
            request_id="r",
        )
        begun = NewEvent(turn_id=TURN, data=b"")
        await self.store.commit(
            Batch(session_id=SESSION, session=new, turn=TurnWrite(row=turn, starts=True), events=(begun,))
        )
        return self

    async def restarted(self, **limits: Any) -> Room:
        """Begin anew over the same store, as after a crash."""
        await self.close()
        self.store.commit = self._commit  # type: ignore[method-assign]
        room = Room(self.store, self.clock, **limits)
        room._numbers = self._numbers
        await room.dispatcher.recover()
        return room

    async def close(self) -> None:
        """End what goes on."""
        await self.dispatcher.close()
        await self.hooks.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- calls -----------------------------------------------------------------------------------

    async def open(self, name: str = "f", **fields: Any) -> CallRow:
        """Open a call as the driver does, and see to it that somebody has it, or that it waits."""
        number = next(self._numbers)
        given = {"arguments": "{}", "scopes": ("",), "agent": "A", **fields}
        row = CallRow(call_id=f"call_1_{number:06x}", session_id=SESSION, turn_id=TURN, name=name, **given)
        await self.store.commit(Batch(session_id=SESSION, calls_opened=(row,)))
        self.dispatcher.opened(row)
        self.dispatcher.wait_for_worker(row)
        await quiet()
        return row

    async def row(self, call: CallRow) -> CallRow:
        """Read a call."""
        row = await self.store.calls.get(call.call_id)
        assert row is not None
        return row

    async def state(self, call: CallRow) -> CallState:
        """Say where a call is."""
        return (await self.row(call)).state

    def lease(self, call: CallRow) -> Leased:
        """Look at who holds a call."""
        lease = self.dispatcher.leases.get(call.call_id)
        assert lease is not None, f"nobody holds {call.call_id}"
        return lease

    def fed_of(self, kind: type[Input]) -> list[Any]:
        """List what was fed of one kind."""
        return [given for given in self.fed if isinstance(given, kind)]

    async def quiet(self) -> None:
        """Let everybody do what there is to do."""
        await quiet()

    async def pass_time(self, seconds: float) -> None:
        """Move the clock, have it looked at, and let everybody do what follows."""
        await quiet()
        self.clock.advance(seconds)
        self.workers.tick()
        await quiet()

    # -- the driver ------------------------------------------------------------------------------

    def feed(self, _turn_id: str, given: Input) -> asyncio.Future[bool]:
        """Take an input, as the driver does."""
        counted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.fed.append(given)

        async def step() -> None:
            answer = await self._step(given)
            if not counted.done():
                counted.set_result(answer)

        task = asyncio.ensure_future(step())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return counted

    async def _step(self, given: Input) -> bool:
        match given:
            case CallsUnheld(call_ids=ids):
                mine = [call_id for call_id in ids if call_id in self.cancelled]
                for call_id in mine:
                    await self.settle(call_id, Settlement.CANCELLED, reason=CancelReason.TURN_ENDED)
                return bool(mine)
            case CallSettled():
                return await self.settle(
                    given.call_id,
                    given.settlement,
                    given.attempt,
                    worker_id=given.worker_id,
                    digest=given.digest,
                    text="".join(part.text for part in given.output if isinstance(part, TextPart)),
                )
            case CallTimedOut(call_id=call_id):
                return await self.settle(call_id, Settlement.TIMEOUT, reason=CancelReason.TIMEOUT)
            case CallExpired(call_id=call_id):
                return await self.settle(call_id, Settlement.EXPIRED, reason=CancelReason.EXPIRED)
            case DecisionMade(decision=decision, expired=True):
                return await self.settle(decision.call_id, Settlement.REJECTED)
            case AttemptFailed():
                return await self._fail(given)
            case _:
                raise AssertionError(f"nobody feeds {given}")

    async def _fail(self, given: AttemptFailed) -> bool:
        call_id, attempt = given.call_id, given.attempt
        if given.check or given.ask:
            state = CallState.CHECKED if given.check else CallState.EFFECT_UNKNOWN
            parked = Parked(call_id=call_id, attempt=attempt, state=state)
            await self.store.commit(Batch(session_id=SESSION, parked=(parked,)))
            self.dispatcher.parked(call_id)
        elif given.may_retry:
            await self.redeliver(call_id, attempt)
        else:
            await self.settle(call_id, Settlement.WORKER_LOST)
        return True

    async def redeliver(self, call_id: str, attempt: int) -> None:
        """Queue an attempt again."""
        requeue = Requeue(call_id=call_id, attempt=attempt)
        await self.store.commit(Batch(session_id=SESSION, requeues=(requeue,)))
        row = await self.store.calls.get(call_id)
        assert row is not None
        self.dispatcher.wait_for_worker(row)

    async def settle(
        self,
        call_id: str,
        settlement: Settlement,
        attempt: int = 0,
        *,
        worker_id: str = "",
        digest: str = "",
        text: str = "",
        reason: CancelReason = CancelReason.SETTLED_ELSEWHERE,
    ) -> bool:
        """Settle a call, with its output in the log; False: it was settled before."""
        event, contents = self._output(call_id, settlement, text)
        settled = Settled(
            call_id=call_id,
            attempt=attempt,
            worker_id=worker_id,
            digest=digest,
            succeeded=settlement is Settlement.OUTPUT,
            output_item_id=event.item.item_id if event.item is not None else "",
        )
        try:
            await self.store.commit(
                Batch(
                    session_id=SESSION,
                    settles=(SettleGuard(call_id=call_id, attempt=attempt),),
                    events=(event,),
                    contents=contents,
                    calls_settled=(settled,),
                )
            )
        except Conflict:
            return False
        self.dispatcher.forget(call_id, attempt, reason)
        return True

    async def settle_outside(self, call: CallRow, text: str) -> CallSettled:
        """Settle a call by a result from outside: it is acknowledged, and waits in the turn's inbox to be recorded."""
        given = CallSettled(call_id=call.call_id, settlement=Settlement.OUTPUT, output=(TextPart(text=text),))
        inbox = InboxRow(turn_id=TURN, source=f"result/{call.call_id}", data=self.runtime.codec.input(given))
        settled = Settled(call_id=call.call_id)
        await self.store.commit(Batch(session_id=SESSION, calls_settled=(settled,), inbox_added=(inbox,)))
        self.dispatcher.forget(call.call_id, 0, CancelReason.SETTLED_ELSEWHERE)
        return given

    async def record(self, call: CallRow, settlement: Settlement, text: str) -> None:
        """Record what `settle_outside` brought: its inbox row is fed, and its output stands in the log."""
        rows = await self.store.inbox.rows(TURN)
        event, contents = self._output(call.call_id, settlement, text)
        assert event.item is not None
        settled = Settled(
            call_id=call.call_id,
            succeeded=settlement is Settlement.OUTPUT,
            output_item_id=event.item.item_id,
        )
        await self.store.commit(
            Batch(
                session_id=SESSION,
                events=(event,),
                contents=contents,
                calls_settled=(settled,),
                inbox_consumed=tuple((row.turn_id, row.n) for row in rows),
            )
        )
        self.dispatcher.forget(call.call_id, 0, CancelReason.SETTLED_ELSEWHERE)

    def _output(self, call_id: str, settlement: Settlement, text: str) -> tuple[NewEvent, Mapping[str, bytes]]:
        number = int(call_id.rpartition("_")[2], 16) + 1000
        body = FunctionCallOutput(call_id=call_id, name="f", output=(TextPart(text=text),), settlement=settlement)
        item = Item(item_id=f"item_1_{number:06x}", turn_id=TURN, body=body, json="{}")
        data, contents = self.runtime.codec.event(Event(body=ItemAdded(item=item, in_history=True), turn_id=TURN))
        row = ItemRow(item_id=item.item_id, turn_id=TURN, rank=number, data=b"", json="{}", in_history=True)
        return NewEvent(turn_id=TURN, data=data, item=row), contents

    def hold_leases(self) -> asyncio.Event:
        """Hold the commits that lease calls back, until the event is set."""
        self._go = asyncio.Event()
        return self._go

    async def _note(self, batch: Batch) -> Any:
        self.batches.append(batch)
        if batch.leases and self._go is not None:
            await self._go.wait()
        return await self._commit(batch)

    # -- workers ---------------------------------------------------------------------------------

    async def worker(self, *names: str | Handler, credit: int | Credit = 10, **hello: Any) -> Hand:
        """Attach a worker that serves these functions."""
        handlers = tuple(Handler(name=one) if isinstance(one, str) else one for one in names)
        granted = Credit(messages=credit) if isinstance(credit, int) else credit
        hand = Hand(self)
        await hand.attach(Introduction(**{"instance_id": "", "handlers": handlers, **hello}), granted)
        return hand


def _in_a_nested_run(_turn_id: str, _call_id: str) -> tuple[tuple[str, ...], int]:
    """Says where every call was made."""
    return ("call_0",), 7
