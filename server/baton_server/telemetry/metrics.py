"""Counters, through the OpenTelemetry API. Where they go is the process's own configuration.

Attributes have few values: names of functions, kinds and outcomes; never an id, and never what anybody said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import metrics

from baton_server.core.events import HookSettled, ItemAdded, ResultDiscarded
from baton_server.core.items import FunctionCallOutput
from baton_server.ports.observer import Attendance, Recorded

QUEUE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Bounds of the buckets of waiting times: from a hand-over at once to a call that waits for people."""

FUNCTION = "baton.function.name"


class Counters:
    """Implements `ports.observer.Observer`. Without a configured exporter it costs next to nothing."""

    def __init__(self) -> None:
        meter = metrics.get_meter("baton")
        self._settled = meter.create_counter("baton.calls.settled", "{call}", "Calls that have their output.")
        self._redelivered = meter.create_counter(
            "baton.calls.redelivered", "{delivery}", "Deliveries of calls after their first one."
        )
        self._waited = meter.create_histogram(
            "baton.calls.queue.duration",
            "s",
            "How long calls waited for a worker that could take them.",
            explicit_bucket_boundaries_advisory=QUEUE_SECONDS,
        )
        self._discarded = meter.create_counter("baton.results.discarded", "{result}", "Results that did not count.")
        self._hooks = meter.create_counter("baton.hooks.settled", "{hook}", "Hooks that were answered or given up.")
        self._workers = meter.create_gauge("baton.workers.attached", "{worker}", "Workers that are attached.")
        self._credit = meter.create_gauge("baton.workers.credit", "{call}", "Calls that workers would take now.")
        self._counted: Mapping[type, Callable[[Any], None]] = {
            ItemAdded: self._item,
            HookSettled: self._hook,
            ResultDiscarded: self._discard,
        }

    def recorded(self, told: Recorded) -> None:
        """Count what the events tell."""
        for event in told.events:
            count = self._counted.get(type(event.body))
            if count is not None:
                count(event.body)

    def loaded(self, turn_id: str, read: Callable[[], Recorded]) -> None:
        """Count nothing: it was counted when it was recorded."""

    def left(self, turn_id: str) -> None:
        """Count nothing."""

    def delivered(self, name: str, attempt: int, waited_s: float) -> None:
        """Count a delivery."""
        function = {FUNCTION: name}
        self._waited.record(waited_s, function)
        if attempt > 1:
            self._redelivered.add(1, function)

    def attended(self, attendance: Attendance) -> None:
        """Tell who is there."""
        self._workers.set(attendance.streams, {"rpc.method": "Connect"})
        self._workers.set(attendance.watches, {"rpc.method": "WatchCalls"})
        self._credit.set(attendance.credit)

    def _item(self, body: ItemAdded) -> None:
        output = body.item.body
        if isinstance(output, FunctionCallOutput) and output.settlement is not None:
            self._settled.add(1, {FUNCTION: output.name, "baton.settlement": output.settlement.value.lower()})

    def _hook(self, body: HookSettled) -> None:
        failure = body.failure
        outcome = "answered" if failure is None else failure.reason.value.removeprefix("HOOK_").lower()
        self._hooks.add(1, {"baton.hook.kind": body.kind.value.lower(), "baton.hook.outcome": outcome})

    def _discard(self, body: ResultDiscarded) -> None:
        self._discarded.add(1, {"error.type": body.failure.reason.value})
