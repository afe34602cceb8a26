"""The server's process of the harness, and its sabotages: each breaks one promise, and a count shows that it is seen.

The product's code stays as it is; one part of a server that was put together is wrapped.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from baton.v1 import event_pb2, item_pb2
from baton_server.app.calls.frames import Ack, Frame, HeldVerdict, Introduction, Link, ResultVerdict
from baton_server.config import Settings
from baton_server.core.events import Event
from baton_server.core.inputs import AttemptFailed, Input
from baton_server.core.runner import Runner
from baton_server.core.state import TurnState
from baton_server.main import Baton, open_store, running
from baton_server.ports.store import Batch, Committed, NewEvent, Store
from baton_server.telemetry.logging import configure

MATCHING: Mapping[str, str] = {
    "forget_result_ack": "calls_lost",
    "settle_twice": "settled_twice",
    "requeue_ask": "executed_again_although_ask",
    "skip_lease": "turns_stuck",
}
"""What each sabotage is called, and the count that must show it."""


class SettlesTwice:
    """A store in which a result that came too late settles its call once more, in place of the event that says so."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch) -> Committed:
        """Implement `Store.commit`."""
        return await self._store.commit(replace(batch, events=tuple(map(_settling, batch.events))))


def _settling(new: NewEvent) -> NewEvent:
    event = event_pb2.Event.FromString(new.data)
    if not event.HasField("result_discarded"):
        return new
    late = event.result_discarded
    output = item_pb2.FunctionCallOutput(
        call_id=late.call_id,
        attempt=late.attempt,
        settlement=item_pb2.SETTLEMENT_OUTPUT,
        output=[item_pb2.ContentPart(text=late.result_digest)],
    )
    item = item_pb2.Item(item_id=f"item_{late.result_digest[:24]}", function_call_output=output)
    event.item_added.CopyFrom(event_pb2.ItemAdded(item=item, in_history=True))
    return replace(new, data=event.SerializeToString())


class NeverAsks:
    """A Runner to which a call that must not run twice is one like any other."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def step(self, state: TurnState, given: Input) -> tuple[Event, ...]:
        """Implement `Runner.step`."""
        if isinstance(given, AttemptFailed):
            given = replace(given, ask=False, check=False)
        return self._runner.step(state, given)


def _never_ask(baton: Baton) -> None:
    baton.runtime.runner = cast(Runner, NeverAsks(baton.runtime.runner))


def _forget_acks(baton: Baton) -> None:
    """Have workers that attach from now on never hear that a result is durable, neither by an ack nor in a Welcome."""
    attach = baton.workers.attach

    async def attach_to(hello: Introduction, link: Link) -> Any:
        send = link.send

        def forgetful(frame: Frame) -> None:
            if not (isinstance(frame, Ack) and frame.verdict is ResultVerdict.DURABLE):
                send(frame)

        cast(Any, link).send = forgetful
        attached = await attach(hello, link)
        verdicts = {HeldVerdict.ALREADY_SETTLED: HeldVerdict.CONTINUE}
        return replace(attached, held=tuple(verdicts.get(verdict, verdict) for verdict in attached.held))

    cast(Any, baton.workers).attach = attach_to


def _keep_leases(baton: Baton) -> None:
    """Have no lease ever end by a clock: what a dead worker had stays its own."""
    cast(Any, baton.dispatcher.losses).tick = lambda: None


_SABOTAGES: Mapping[str, Callable[[Baton], None]] = {
    "forget_result_ack": _forget_acks,
    "requeue_ask": _never_ask,
    "skip_lease": _keep_leases,
}


async def serve(given: Mapping[str, Any], sabotage: str, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM, then drain and close. `given`: settings. `sabotage` empty: none."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings = Settings(**given)
    configure(settings.log_level, settings.log_json)
    logging.basicConfig(level=logging.WARNING)
    store = await open_store(settings)
    if sabotage == "settle_twice":
        store = cast(Store, SettlesTwice(store))
    async with running(settings, store=store) as baton:
        if sabotage in _SABOTAGES:
            _SABOTAGES[sabotage](baton)
        ready(baton.address)
        await stop.wait()
