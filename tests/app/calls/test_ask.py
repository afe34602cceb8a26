"""Calls that must not run twice: sent means may have run, and then somebody is asked."""

from __future__ import annotations

import pytest
from tests.support.hand import Hand, held
from tests.support.room import Room

from baton_server.app.calls.frames import CancelOutcome, CancelReason, Deliver, Handler, SideEffects
from baton_server.app.calls.leases import LeaseState
from baton_server.core.events import HookKind
from baton_server.core.inputs import AttemptFailed
from baton_server.core.items import Settlement
from baton_server.core.tools import LostWorker
from baton_server.ports.store import CallRow, CallState

ASK = LostWorker.ASK
CHECK = Handler(name="f", kind=HookKind.EFFECT_CHECK)
LOST = CancelReason.LEASE_LOST


async def delivered(room: Room, *, acked: bool = True) -> tuple[Hand, CallRow, Deliver]:
    """Bring a call that must not run twice to a worker."""
    worker = await room.worker("f")
    opened = await room.open(lost_worker=ASK)
    call = worker.expect(Deliver)
    if acked:
        worker.ack(call)
    return worker, opened, call


async def answered(room: Room, worker: Hand, call: Deliver, outcome: CancelOutcome) -> None:
    """Answer a Stop."""
    room.dispatcher.returns.stopped(call.call.call_id, call.call.attempt, outcome, worker.id)
    await room.pass_time(0)


# -- lost ----------------------------------------------------------------------------------------


async def test_a_worker_that_does_not_come_back_leaves_a_question(room: Room) -> None:
    """The call waits for an answer, with nobody, however many workers there are."""
    worker, opened, _ = await delivered(room)
    other = await room.worker("f")
    await worker.breaks()

    await room.pass_time(11)

    (lost,) = room.fed_of(AttemptFailed)
    assert (lost.ask, lost.check) == (True, False)
    assert await room.state(opened) is CallState.EFFECT_UNKNOWN
    other.nothing()
    assert not room.dispatcher.leases.any_of(opened.turn_id)


async def test_silence_beyond_the_lease_leaves_a_question(room: Room) -> None:
    """The worker is told that the attempt is not its own any more."""
    worker, opened, _ = await delivered(room)
    worker.attached.worker.extended_until = 1e9  # not silent; only this lease runs out

    await room.pass_time(31)

    assert worker.stop() == (opened.call_id, LOST, 0.0)
    assert [lost.ask for lost in room.fed_of(AttemptFailed)] == [True]


async def test_a_crash_of_the_server_while_it_is_out_leaves_a_question(room: Room) -> None:
    """Unless the worker comes back with its token and says otherwise."""
    _, opened, _ = await delivered(room)
    room = await room.restarted()

    await room.pass_time(11)

    assert [lost.ask for lost in room.fed_of(AttemptFailed)] == [True]
    assert await room.state(opened) is CallState.EFFECT_UNKNOWN


@pytest.mark.parametrize("restart", [False, True])
async def test_a_worker_that_comes_back_and_does_not_name_it_frees_it(room: Room, restart: bool) -> None:
    """It has not begun it; over a restart of the server too."""
    worker, _, _ = await delivered(room, acked=False)
    await worker.breaks()
    if restart:
        room = await room.restarted()

    back = await room.worker("f", resume_token=worker.token)

    again = back.expect(Deliver).call
    assert (again.attempt, again.may_have_run) == (2, False)
    assert room.fed_of(AttemptFailed) == []


async def test_a_new_process_of_the_instance_leaves_a_question(room: Room) -> None:
    """The former one may have run it before it died."""
    worker = await room.worker("f", instance_id="pod")
    opened = await room.open(lost_worker=ASK)
    worker.expect(Deliver)

    new = await room.worker("f", instance_id="pod")

    assert [lost.ask for lost in room.fed_of(AttemptFailed)] == [True]
    assert await room.state(opened) is CallState.EFFECT_UNKNOWN
    new.nothing()


async def test_what_was_never_written_is_free(room: Room) -> None:
    """A stream that broke while the call waited for its turn to be written has shown it to nobody."""
    worker = await room.worker("f")
    worker.takes = False
    opened = await room.open(lost_worker=ASK)
    other = await room.worker("f")

    await worker.breaks()

    assert other.expect(Deliver).call.may_have_run is False
    assert room.fed_of(AttemptFailed) == []
    assert await room.state(opened) is CallState.LEASED


async def test_what_was_never_written_is_free_for_a_new_process_too(room: Room) -> None:
    """The former one cannot have begun it."""
    worker = await room.worker("f", instance_id="pod")
    worker.takes = False
    await room.open(lost_worker=ASK)

    new = await room.worker("f", instance_id="pod")

    again = new.expect(Deliver).call
    assert (again.attempt, again.may_have_run) == (2, False)
    assert room.fed_of(AttemptFailed) == []


async def test_what_is_being_written_may_have_arrived(room: Room) -> None:
    """A stream that breaks in the middle of a write leaves a question."""
    worker = await room.worker("f")
    worker.takes = False
    opened = await room.open(lost_worker=ASK)
    room.dispatcher.returns.writing(worker.attached.worker, opened.call_id, 1)
    await worker.breaks()

    await room.pass_time(11)

    assert [lost.ask for lost in room.fed_of(AttemptFailed)] == [True]


# -- never acked ---------------------------------------------------------------------------------


async def test_one_that_is_never_acked_is_asked_back(room: Room) -> None:
    """Its worker has as long as an ack to say whether it has begun; nobody else gets it meanwhile."""
    worker, opened, _ = await delivered(room, acked=False)
    other = await room.worker("f")

    await room.pass_time(6)

    assert worker.stop() == (opened.call_id, LOST, 5.0)
    assert room.lease(opened).state is LeaseState.RECALLED
    assert room.fed_of(AttemptFailed) == []
    other.nothing()


async def test_not_begun_frees_it(room: Room) -> None:
    """It goes to another worker, and no event tells of it."""
    worker, _, call = await delivered(room, acked=False)
    other = await room.worker("f")
    await room.pass_time(6)

    await answered(room, worker, call, CancelOutcome.NOT_BEGUN)

    again = other.expect(Deliver).call
    assert (again.attempt, again.may_have_run) == (2, False)
    assert room.fed_of(AttemptFailed) == []


async def test_stopped_midway_leaves_a_question(room: Room) -> None:
    """At once."""
    worker, opened, call = await delivered(room, acked=False)
    await room.pass_time(6)

    await answered(room, worker, call, CancelOutcome.STOPPED)

    assert [lost.ask for lost in room.fed_of(AttemptFailed)] == [True]
    assert await room.state(opened) is CallState.EFFECT_UNKNOWN


@pytest.mark.parametrize("says", ["nothing", "NOT_STOPPED", "ack"])
async def test_no_clear_answer_within_the_grace_leaves_a_question(room: Room, says: str) -> None:
    """Silence, a handler that cannot be stopped, an ack that comes too late."""
    worker, opened, call = await delivered(room, acked=False)
    await room.pass_time(6)
    if says == "ack":
        worker.ack(call)
    elif says == "NOT_STOPPED":
        await answered(room, worker, call, CancelOutcome.NOT_STOPPED)
    await room.pass_time(4)
    assert room.fed_of(AttemptFailed) == []

    await room.pass_time(2)

    assert [lost.ask for lost in room.fed_of(AttemptFailed)] == [True]
    assert await room.state(opened) is CallState.EFFECT_UNKNOWN


async def test_a_result_within_the_grace_counts(room: Room) -> None:
    """It was only the ack that was lost."""
    worker, opened, call = await delivered(room, acked=False)
    await room.pass_time(6)

    await worker.result(call)

    assert (await room.row(opened)).settled_attempt == 1
    assert room.fed_of(AttemptFailed) == []


async def test_one_that_was_asked_back_and_whose_stream_breaks_waits_for_its_worker(room: Room) -> None:
    """Within the registration grace it may come back and say; naming it means that it goes on."""
    worker, opened, call = await delivered(room, acked=False)
    await room.pass_time(6)
    await worker.breaks()
    await room.pass_time(9)
    assert room.fed_of(AttemptFailed) == []

    back = await worker.back("f", held=held(call))

    assert room.lease(opened).state is LeaseState.HELD
    await back.result(call)
    assert (await room.row(opened)).settled_attempt == 1


async def test_one_that_never_arrives_anywhere_fails_and_leaves_no_question(room: Room) -> None:
    """After five deliveries that nobody has begun."""
    worker = await room.worker("f")
    opened = await room.open(lost_worker=ASK)
    for _ in range(5):
        call = worker.expect(Deliver)
        worker.beat()
        await room.pass_time(6)
        worker.stop()
        await answered(room, worker, call, CancelOutcome.NOT_BEGUN)

    (lost,) = room.fed_of(AttemptFailed)
    assert (lost.may_retry, lost.ask) == (False, False)
    assert await room.state(opened) is CallState.SETTLED


async def test_one_that_waits_to_be_written_is_taken_back_from_a_worker_that_does_not_read(room: Room) -> None:
    """It will not arrive any more, so that another worker may have it."""
    worker = await room.worker("f", credit=99)
    worker.takes = False
    await room.open(lost_worker=ASK)
    other = await room.worker("f")
    await room.pass_time(29)
    worker.beat()
    other.beat()

    await room.pass_time(2)

    assert other.expect(Deliver).call.may_have_run is False
    assert worker.unwritten == []
    worker.nothing()


# -- given back ----------------------------------------------------------------------------------


async def test_a_nack_leaves_a_question(room: Room) -> None:
    """The handler may have begun, unless the worker says that it has not."""
    worker, opened, call = await delivered(room)

    await worker.nack(call)

    assert [lost.ask for lost in room.fed_of(AttemptFailed)] == [True]
    assert await room.state(opened) is CallState.EFFECT_UNKNOWN


async def test_a_nack_of_what_has_not_begun_frees_it(room: Room) -> None:
    """As often as the worker likes."""
    worker, _, call = await delivered(room)

    await worker.nack(call, not_begun=True)

    again = worker.expect(Deliver).call
    assert (again.attempt, again.may_have_run) == (2, False)
    assert room.fed_of(AttemptFailed) == []


async def test_a_redelivery_that_somebody_asks_for_stands_where_it_stood(room: Room) -> None:
    """Before all calls that came later."""
    worker, opened, _ = await delivered(room)
    await worker.breaks()
    await room.pass_time(11)
    later = await room.open()

    await room.redeliver(opened.call_id, 1)
    other = await room.worker("f", credit=1)

    assert other.expect(Deliver).call.call_id == opened.call_id
    assert await room.state(later) is CallState.QUEUED


# -- by the handler's word -----------------------------------------------------------------------


async def test_a_handler_that_is_harmful_twice_makes_its_attempts_ask(room: Room) -> None:
    """Where the agent says nothing; it is written down with the lease, and holds over a restart."""
    await room.worker(Handler(name="f", side_effects=SideEffects.ONCE))
    opened = await room.open()
    room = await room.restarted()

    await room.pass_time(11)

    assert (await room.row(opened)).lost_worker is ASK
    assert [lost.ask for lost in room.fed_of(AttemptFailed)] == [True]


async def test_the_agents_word_wins(room: Room) -> None:
    """REDELIVER means again, whatever the handler says."""
    worker = await room.worker(Handler(name="f", side_effects=SideEffects.ONCE))
    await room.open(lost_worker=LostWorker.REDELIVER)
    worker.expect(Deliver)
    other = await room.worker("f")
    await worker.breaks()

    await room.pass_time(11)

    assert [lost.ask for lost in room.fed_of(AttemptFailed)] == [False]
    assert other.expect(Deliver).call.may_have_run


# -- checks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost_worker", [ASK, None])
async def test_a_check_is_asked_where_one_is_served(room: Room, lost_worker: LostWorker | None) -> None:
    """Before a redelivery as before a question."""
    worker = await room.worker("f")
    await room.worker(CHECK, scopes=("own",))
    opened = await room.open(lost_worker=lost_worker, scopes=("own", ""))
    worker.expect(Deliver)
    await worker.breaks()

    await room.pass_time(11)

    (lost,) = room.fed_of(AttemptFailed)
    assert (lost.ask, lost.check) == (lost_worker is ASK, True)
    assert await room.state(opened) is CallState.CHECKED


async def test_a_check_of_another_scope_or_function_is_not_asked(room: Room) -> None:
    """What is not in the turn's scopes does not concern it."""
    worker = await room.worker("f")
    await room.worker(CHECK, scopes=("other",))
    await room.worker(Handler(name="g", kind=HookKind.EFFECT_CHECK))
    await room.open()
    worker.expect(Deliver)
    await worker.breaks()

    await room.pass_time(11)

    assert [lost.check for lost in room.fed_of(AttemptFailed)] == [False]


async def test_a_call_that_waits_for_its_check_goes_on_after_it(room: Room) -> None:
    """Its result may come from the check, or it is delivered again; a parked call is held by nobody."""
    worker = await room.worker("f")
    await room.worker(CHECK)
    checked, redelivered = await room.open(), await room.open()
    for _ in range(2):
        worker.expect(Deliver)
    await worker.breaks()
    await room.pass_time(11)
    other = await room.worker("f")
    other.nothing()

    await room.settle(checked.call_id, Settlement.OUTPUT, text="it took effect")
    await room.redeliver(redelivered.call_id, 1)
    await room.pass_time(0)

    again = other.expect(Deliver).call
    assert (again.call_id, again.attempt, again.may_have_run) == (redelivered.call_id, 2, True)
    other.nothing()
