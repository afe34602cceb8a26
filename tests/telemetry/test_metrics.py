"""The counters: what an operator sees of calls, workers and hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from tests.support.scripted_watcher import Watcher
from tests.support.scripted_worker import ScriptedWorker, acked, result_of
from tests.support.stage import Stage, Turn, eventually

from baton.v1 import event_pb2
from baton_server.ports.observer import Attendance
from baton_server.telemetry.observers import Observers

SINCE_THEN = AggregationTemporality.DELTA
READER = InMemoryMetricReader(preferred_temporality={Counter: SINCE_THEN, Histogram: SINCE_THEN})

Points = Mapping[str, Mapping[tuple[tuple[str, Any], ...], Any]]
"""By name of the instrument: its points by their attributes."""


@pytest.fixture
def counted() -> Callable[[], Points]:
    """Read what was counted since the test began, or the last reading. OpenTelemetry takes one provider per process."""
    if not isinstance(metrics.get_meter_provider(), MeterProvider):
        metrics.set_meter_provider(MeterProvider([READER]))
    _read()
    return _read


def _read() -> Points:
    data = READER.get_metrics_data()
    if data is None:
        return {}
    return {
        metric.name: {tuple(sorted((point.attributes or {}).items())): point for point in metric.data.data_points}
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def values(points: Points, name: str) -> dict[tuple[str, ...], Any]:
    """List what an instrument counted, by the values of its attributes."""
    found = points.get(name, {})
    return {tuple(value for _, value in attributes): point.value for attributes, point in found.items()}


async def test_calls_are_counted_by_what_settled_them(stage: Stage, counted: Callable[[], Points]) -> None:
    """Each once, by the name of its function, and by nothing that would tell one call from another."""
    worker = await stage.worker("f", "g")
    turn = await stage.turn([("f", '{"n":1}'), ("f", '{"n":2}'), ("g", "{}"), ("f", "[]")])
    for call, outcome in zip(await worker.expect_all("call", 3), ({}, {"failure": "no"}, {}), strict=True):
        await worker.settle(call, **outcome)
    await turn.completed()

    points = counted()

    assert values(points, "baton.calls.settled") == {
        ("f", "output"): 1,
        ("f", "failure"): 1,
        ("g", "output"): 1,
        ("f", "arguments_invalid"): 1,
    }
    keys = {key for metric in points.values() for attributes in metric for key, _ in attributes}
    assert keys <= {"baton.function.name", "baton.settlement", "rpc.method"}


async def test_deliveries_after_the_first_are_counted(stage: Stage, counted: Callable[[], Points]) -> None:
    """Whatever brought them about."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    for _ in range(2):
        call = await worker.expect("call")
        await worker.send(nack={"call_id": call.call_id, "attempt": call.attempt})
    await worker.finish(await worker.expect("call"))
    await turn.completed()

    assert values(counted(), "baton.calls.redelivered") == {("f",): 2}


async def test_a_call_waits_until_somebody_can_take_it(stage: Stage, counted: Callable[[], Points]) -> None:
    """One that is handed over at once does not; a delay that its worker asked for is no waiting."""
    turn = await stage.call("f")
    await turn.waiting()
    stage.pass_time(7)
    worker = await stage.worker("f")
    call = await worker.expect("call")
    await worker.send(nack={"call_id": call.call_id, "attempt": 1, "delay": {"seconds": 20}})
    await eventually(lambda: stage.baton.dispatcher.leases.get(call.call_id) is None)
    stage.pass_time(21)
    await worker.finish(await worker.expect("call"))
    await turn.completed()

    (point,) = counted()["baton.calls.queue.duration"].values()

    assert (dict(point.attributes), point.count) == ({"baton.function.name": "f"}, 2)
    assert (point.max, point.sum) == (pytest.approx(7, abs=0.1), pytest.approx(8, abs=0.1))


async def test_results_that_do_not_count_are_counted_once(stage: Stage, counted: Callable[[], Points]) -> None:
    """By why they do not; one that comes again is the same one."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.finish(call)
    for _ in range(2):
        await worker.send(result=result_of(call, output="too late"))
        await worker.expect("result_ack")
    await turn.completed()

    assert values(counted(), "baton.results.discarded") == {("CALL_SETTLED",): 1}


async def test_attached_workers_and_their_credit_are_told(stage: Stage, counted: Callable[[], Points]) -> None:
    """Those with a stream both ways, and those that watch; lost ones are not attached."""
    first = await stage.worker("f", credit=3)
    await stage.worker("g", credit=4)
    watcher = await Watcher.watching(stage.client, "h", credit=2)
    await stage.call("h")
    await watcher.expect("call")
    stage.pass_time(1)

    points = counted()
    assert values(points, "baton.workers.attached") == {("Connect",): 2, ("WatchCalls",): 1}
    assert values(points, "baton.workers.credit") == {(): 8}

    await stage.call("f")
    await stage.break_off(first, (await acked(first)).call_id)
    stage.pass_time(1)
    assert values(counted(), "baton.workers.attached") == {("Connect",): 1, ("WatchCalls",): 1}


GUARD = {"name": "pii", "kind": event_pb2.HANDLER_KIND_INPUT_GUARDRAIL}


async def guarded(stage: Stage) -> tuple[ScriptedWorker, Turn, dict[str, Any]]:
    """Have a guardrail asked; returns also which answer is meant."""
    worker = await stage.worker(handlers=[GUARD])
    turn = await stage.turn(input_guardrails=[{"name": "no PII", "hook": {"name": "pii"}}])
    (hook,) = (await worker.expect("hook_batch")).hooks
    return worker, turn, {"hook_id": hook.hook_id, "attempt": 1}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"answer_json": '{"tripped":false}'}, "answered"),
        ({"answer_json": "[]"}, "answer_invalid"),
        ({"crash": {"type": "KeyError"}}, "raised"),
        (None, "timeout"),
    ],
)
async def test_hooks_are_counted_by_how_they_ended(
    stage: Stage, counted: Callable[[], Points], answer: dict[str, Any] | None, outcome: str
) -> None:
    """By their kind, not by their name."""
    worker, turn, about = await guarded(stage)

    if answer is None:
        for _ in range(3):
            stage.pass_time(11)
            await worker.send(heartbeat={})
            await asyncio.sleep(0)
    else:
        await worker.send(hook_answers={"batch_id": "b", "answers": [{**about, **answer}]})

    await turn.ended()
    assert values(counted(), "baton.hooks.settled") == {("input_guardrail", outcome): 1}


def test_an_observer_that_fails_fails_nobody_else() -> None:
    """The others are told all the same."""
    told: list[Any] = []

    class Failing:
        def __getattr__(self, name: str) -> Callable[..., None]:
            def fail(*_: Any) -> None:
                raise RuntimeError("no collector")

            return fail

    class Noting:
        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *facts: told.append((name, facts))

    observers = Observers(Failing(), Noting())
    attendance = Attendance(streams=1, watches=0, credit=2)

    observers.left("turn_1")
    observers.delivered("f", 1, 0.0)
    observers.attended(attendance)

    assert told == [("left", ("turn_1",)), ("delivered", ("f", 1, 0.0)), ("attended", (attendance,))]
