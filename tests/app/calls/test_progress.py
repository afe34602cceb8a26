"""Progress: what handlers report reaches who watches, not too often, and the last word is not lost."""

from __future__ import annotations

import pytest
from tests.support.hand import Hand
from tests.support.room import SESSION, TURN, Room

from baton.v1 import event_pb2
from baton_server.app.calls.frames import Deliver, Progress
from baton_server.ports.bus import Subscription
from baton_server.ports.store import CallRow


class Watched:
    """A call that a worker has, and somebody who watches."""

    def __init__(self, room: Room, worker: Hand, call: Deliver, watching: Subscription) -> None:
        self.room, self.worker, self.call, self._watching = room, worker, call, watching

    def report(self, number: int, attempt: int = 1, worker_id: str | None = None, **said: str) -> bool:
        """Report."""
        given = {"text": f"report {number}", **said}
        progress = Progress(call_id=self.call.call.call_id, attempt=attempt, number=number, **given)
        who = self.worker.id if worker_id is None else worker_id
        return self.room.dispatcher.returns.progress(progress, who)

    def seen(self) -> list[event_pb2.Delta]:
        """List what the watcher has got since it last looked."""
        return [event_pb2.StreamPart.FromString(part.data).delta for part in self._watching.take()]

    def numbers(self) -> list[int]:
        """List the numbers of the reports among that."""
        return [delta.progress.number for delta in self.seen()]


@pytest.fixture
async def watched(room: Room) -> Watched:
    """Bring a call to a worker, and watch."""
    worker = await room.worker("f")
    await room.open()
    return Watched(room, worker, worker.expect(Deliver), room.bus.subscribe(SESSION))


async def test_a_report_is_published_as_it_came(watched: Watched) -> None:
    """With its turn, run and round, its call and attempt; nothing is stored."""
    before = len(watched.room.batches)

    assert watched.report(1, text="asking the station")

    (delta,) = watched.seen()
    assert (delta.turn_id, list(delta.run_path), delta.round) == (TURN, ["call_0"], 7)
    assert delta.progress == event_pb2.CallProgress(
        call_id=watched.call.call.call_id, attempt=1, number=1, text="asking the station"
    )
    await watched.room.pass_time(1)
    assert len(watched.room.batches) == before


@pytest.mark.parametrize("arm", ["text", "progress_json", "output_so_far"])
async def test_each_kind_of_report_is_told_even_where_it_is_empty(watched: Watched, arm: str) -> None:
    """An output that has nothing so far is a report too."""
    given = {"text": None, "progress_json": None, "output_so_far": None, arm: ""}
    watched.report(1, **given)  # type: ignore[arg-type]

    assert watched.seen()[0].progress.WhichOneof("progress") == arm


async def test_of_many_reports_the_newest_wins(watched: Watched) -> None:
    """At most one in 50 ms: the first at once, and then what is newest."""
    for number in range(1, 100):
        watched.report(number)
    assert watched.numbers() == [1]

    await watched.room.pass_time(0.06)
    assert watched.numbers() == [99]
    watched.report(100)
    await watched.room.pass_time(0.06)
    assert watched.numbers() == [100]


async def test_a_report_after_a_pause_goes_out_at_once(watched: Watched) -> None:
    """The limit is for floods."""
    watched.report(1)
    await watched.room.pass_time(1)
    watched.report(2)

    assert watched.numbers() == [1, 2]


async def test_the_last_report_before_the_result_is_not_lost(watched: Watched) -> None:
    """It comes before what the result leads to, and nothing comes after."""
    watched.report(1)
    watched.report(2)
    watched.seen()

    await watched.worker.result(watched.call)

    assert watched.numbers() == [2]
    await watched.room.pass_time(1)
    assert watched.numbers() == []


async def test_reports_that_are_not_newer_are_passed_over(watched: Watched) -> None:
    """Twice, out of order, or of an attempt that is not the worker's any more."""
    watched.report(5)
    assert watched.numbers() == [5]
    await watched.room.pass_time(1)
    for number in (5, 3):
        watched.report(number)
    assert not watched.report(6, attempt=2)
    assert not watched.report(6, worker_id="worker_of_nobody")
    await watched.room.pass_time(1)

    assert watched.numbers() == []


async def test_the_next_attempt_counts_from_one_again(watched: Watched) -> None:
    """And what waited of the one before is gone."""
    watched.report(1)
    watched.report(2)
    watched.seen()
    await watched.worker.nack(watched.call)
    watched.worker.expect(Deliver)

    watched.report(1, attempt=2)
    await watched.room.pass_time(1)

    assert [(delta.progress.attempt, delta.progress.number) for delta in watched.seen()] == [(2, 1)]


async def test_nothing_is_reported_of_a_call_that_something_else_settled(watched: Watched) -> None:
    """What waits to be published is void with it."""
    watched.report(1)
    watched.report(2)
    watched.seen()

    await watched.room.settle_outside(watched.call.call, "by hand")
    await watched.room.pass_time(1)

    assert watched.numbers() == []


async def test_whoever_has_the_attempt_may_report_without_a_stream(watched: Watched) -> None:
    """As ExtendCall does, which need not name a worker."""
    assert watched.report(1, worker_id="")

    assert watched.numbers() == [1]


async def test_a_report_shows_that_the_call_has_arrived(room: Room) -> None:
    """No ack is owed after it."""
    worker = await room.worker("f")
    opened: CallRow = await room.open()
    call = worker.expect(Deliver).call

    room.dispatcher.returns.progress(Progress(call_id=call.call_id, attempt=1, number=1, text=""), worker.id)
    await room.pass_time(6)

    worker.nothing()
    assert room.lease(opened).begun
