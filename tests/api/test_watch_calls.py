"""Workers that cannot hold a stream both ways: what WatchCalls brings, and when it ends."""

from __future__ import annotations

import grpc
import pytest
from tests.api.calling import kinds, refused, soon
from tests.support.scripted_watcher import OK, Watcher, extended, settled
from tests.support.scripted_worker import held
from tests.support.stage import Stage, eventually

from baton.v1 import handler_pb2

POLL = {"end_after": 1}


async def watch(stage: Stage, *names: str, **given: object) -> Watcher:
    """Watch for calls."""
    return await Watcher.watching(stage.client, *names, **given)  # type: ignore[arg-type]


async def test_the_first_message_is_welcome(stage: Stage) -> None:
    """It says who the caller is, how long a lease is, and what became of each handler and each held attempt."""
    declared = [{"name": "f"}, {"name": "g", "parameters_json": "{"}]
    watcher = await watch(stage, handlers=declared, held=[{"call_id": "call_gone", "attempt": 1}])

    assert watcher.worker_id.startswith("worker_")
    assert watcher.welcome.lease.seconds == 30
    assert watcher.welcome.resume_token
    assert [verdict.HasField("error") for verdict in watcher.welcome.handlers] == [False, True]
    assert [one.verdict for one in watcher.welcome.attempts] == [handler_pb2.HELD_VERDICT_ABANDON]


async def test_a_poll_brings_one_call_and_ends(stage: Stage) -> None:
    """Its result needs no stream; the next poll brings the next call."""
    turn = await stage.turn([("f", '{"n":1}')], [("f", '{"n":2}')])
    for n in (1, 2):
        poll = await watch(stage, "f", ends=POLL)
        call = await poll.expect("call")
        assert await poll.ended() == OK
        assert (call.arguments_json, call.attempt) == (f'{{"n":{n}}}', 1)
        await poll.finish(call)

    await turn.completed()


async def test_a_poll_for_one_takes_no_more_than_one(stage: Stage) -> None:
    """However much credit it grants: the others are nobody's, and were never delivered."""
    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(3)])
    await turn.waiting()

    poll = await watch(stage, "f", credit=10, ends=POLL)

    call = await poll.expect("call")
    assert await poll.ended() == OK
    states = {action.call_id: (action.attempt, action.HasField("lease")) for action in await turn.actions()}
    assert states.pop(call.call_id) == (1, True)
    assert set(states.values()) == {(0, False)}


async def test_a_poll_ends_after_as_many_calls_as_it_asked_for(stage: Stage) -> None:
    """Also where some of them are settled while it lasts."""
    await stage.turn([("f", f'{{"n":{n}}}') for n in range(5)])
    watcher = await watch(stage, "f", credit=1, ends={"end_after": 3})
    for _ in range(2):
        await watcher.finish(await watcher.expect("call"))
    last = await watcher.expect("call")

    assert await watcher.ended() == OK
    await watcher.finish(last)


async def test_it_ends_when_there_was_nothing_for_so_long(stage: Stage) -> None:
    """With OK. What came before is brought, whatever is on its way to the disk included."""
    turn = await stage.call("f")
    await turn.waiting()

    watcher = await watch(stage, "f", ends={"end_when_idle": {"seconds": 0}})

    call = await watcher.expect("call")
    assert await watcher.ended() == OK
    await watcher.finish(call)
    assert await (await watch(stage, "f", ends={"end_when_idle": {"nanos": 1_000_000}})).ended() == OK
    await turn.completed()


async def test_silence_is_filled_with_heartbeats(empty_stage: Stage) -> None:
    """They are no reason to go on: an idle watch ends all the same."""
    await empty_stage.start(heartbeat_s=0.01)

    watcher = await watch(empty_stage, "f", ends={"end_when_idle": {"nanos": 60_000_000}})

    assert await watcher.ended() == OK
    assert watcher.beats >= 2


async def test_a_call_that_was_written_counts_as_acked(stage: Stage) -> None:
    """No ack is missed; the worker has it, and no sign of life of its stream is needed."""
    watcher = await watch(stage, "f")
    turn = await stage.call("f")
    call = await watcher.expect("call")
    await eventually(lambda: stage.lease(call.call_id).acked)

    stage.pass_time(29)

    (action,) = await turn.actions()
    assert (action.lease.worker_id, action.lease.acked) == (watcher.worker_id, True)
    await watcher.finish(call)
    assert "attempt_lost" not in kinds(await turn.completed())


async def test_one_that_disappears_is_missed_when_its_lease_ends_and_not_before(stage: Stage) -> None:
    """Its registrations go with their grace, its call does not."""
    watcher = await watch(stage, "f")
    turn = await stage.call("f")
    call = await watcher.expect("call")
    await eventually(lambda: stage.lease(call.call_id).acked)
    worker = stage.lease(call.call_id).worker
    assert worker is not None
    watcher.leave()
    await eventually(lambda: worker.lost_at is not None)
    other = await watch(stage, "f")

    stage.pass_time(29)
    assert await turn.state() == "LEASED"
    stage.pass_time(2)

    again = await other.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, True)
    await other.finish(again)
    assert "attempt_lost" in kinds(await turn.completed())


async def test_its_credit_is_the_most_that_may_be_unsettled(stage: Stage) -> None:
    """Settling gives it back; one that grants none has one."""
    await stage.turn([("f", f'{{"n":{n}}}') for n in range(4)])
    watcher = await watch(stage, "f", credit=2)
    first, second = await watcher.expect("call"), await watcher.expect("call")

    await watcher.finish(first)
    third = await watcher.expect("call")

    assert len({call.call_id for call in (first, second, third)}) == 3
    (view,) = (await soon(stage.client.handlers.ListWorkers(handler_pb2.ListWorkersRequest()))).workers
    assert ({one.call_id for one in view.held}, view.credit_messages) == ({second.call_id, third.call_id}, 0)
    single = await watch(stage, "f")
    await single.expect("call")


async def test_two_pollers_share_a_queue(stage: Stage) -> None:
    """Each call goes to one of them."""
    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(6)])
    one, other = await watch(stage, "f"), await watch(stage, "f")

    seen = []
    for _ in range(3):
        for watcher in (one, other):
            call = await watcher.expect("call")
            seen.append(call.call_id)
            await watcher.finish(call)

    assert len(set(seen)) == 6
    await turn.completed()


async def test_it_shares_a_queue_with_a_worker_on_a_stream(stage: Stage) -> None:
    """Who has room gets the next call, however it came."""
    watcher, worker = await watch(stage, "f"), await stage.worker("f", credit=1)
    turn = await stage.turn([("f", '{"n":1}'), ("f", '{"n":2}')])

    await watcher.finish(await watcher.expect("call"))
    await worker.finish(await worker.expect("call"))

    await turn.completed()


async def test_a_large_call_comes_in_slices(stage: Stage) -> None:
    """Each is a message that the caller takes; together they are the call."""
    arguments = f'{{"text":"{"x" * 200_000}"}}'
    watcher = await watch(stage, "f", max_message_bytes=65_536)
    turn = await stage.call("f", arguments)

    slices = [await watcher.expect("chunk")]
    while not slices[-1].last:
        slices.append(await watcher.expect("chunk"))

    whole = handler_pb2.WatchCallsResponse.FromString(b"".join(one.data for one in slices))
    assert whole.call.arguments_json == arguments
    assert {one.call_id for one in slices} == {whole.call.call_id}
    await watcher.finish(whole.call)
    await turn.completed()


async def test_it_is_told_what_is_to_stop(stage: Stage) -> None:
    """By a Cancel, for which it owes nothing; a call that is settled elsewhere as well."""
    watcher = await watch(stage, "f", credit=2)
    turn = await stage.turn([("f", '{"n":1}'), ("f", '{"n":2}')])
    first, second = await watcher.expect("call"), await watcher.expect("call")

    await turn.settle(first.call_id, output="from outside")
    elsewhere = await watcher.expect("cancel")
    await turn.cancel(grace={"seconds": 7})
    ended = await watcher.expect("cancel")

    assert (elsewhere.call_id, elsewhere.reason) == (first.call_id, handler_pb2.CANCEL_REASON_SETTLED_ELSEWHERE)
    assert (ended.call_id, ended.reason) == (second.call_id, handler_pb2.CANCEL_REASON_TURN_ENDED)
    await watcher.settle(second)
    await turn.until("turn_cancelled")


async def test_it_may_watch_again_with_its_token(stage: Stage) -> None:
    """What it names goes on, and the stream that it had ends; what it does not name comes again."""
    watcher = await watch(stage, "f", credit=2)
    turn = await stage.turn([("f", '{"n":1}'), ("f", '{"n":2}')])
    named, unnamed = await watcher.expect("call"), await watcher.expect("call")

    token = watcher.welcome.resume_token
    again = await watch(stage, "f", credit=2, resume_token=token, held=held(named))

    assert again.worker_id == watcher.worker_id
    assert [one.verdict for one in again.welcome.attempts] == [handler_pb2.HELD_VERDICT_CONTINUE]
    replaced = await watcher.ended()
    assert (replaced.code, replaced.reason) == (grpc.StatusCode.ABORTED, "WORKER_REPLACED")
    back = await again.expect("call")
    assert (back.call_id, back.attempt, back.may_have_run) == (unnamed.call_id, 2, False)
    for call in (named, back):
        await again.finish(call)
    await turn.completed()


async def test_its_leases_outlive_the_server(stage: Stage) -> None:
    """For one grace; a result within it counts, without any stream."""
    watcher = await watch(stage, "f")
    turn = await stage.call("f")
    call = await watcher.expect("call")
    await stage.restart()
    stage.pass_time(9)

    ack = await settled(stage.client, call, watcher.worker_id)

    assert ack.verdict == handler_pb2.RESULT_VERDICT_DURABLE
    assert "attempt_lost" not in kinds(await stage.again(turn).completed())


@pytest.mark.slow
async def test_one_that_reads_nothing_is_replaced_all_the_same(stage: Stage) -> None:
    """What was never written to it is delivered to the next stream, and its own ends as soon as it reads on."""
    lazy = await watch(stage, "f", credit=40)
    await stage.turn([("f", f'{{"n":{n},"text":"{"x" * 160_000}"}}') for n in range(40)])
    leases = stage.baton.dispatcher.leases
    await eventually(lambda: any(lease.acked for _, lease in leases) and sum(not one.sent for _, one in leases) > 5)

    reader = await watch(stage, "f", credit=40, resume_token=lazy.welcome.resume_token)

    calls = [await reader.expect("call") for _ in range(40)]
    assert {(call.attempt, call.may_have_run) for call in calls} == {(2, False)}
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        while await lazy.frame():
            pass
    assert ended.value.code() is grpc.StatusCode.ABORTED


async def test_an_old_stream_is_asked_to_begin_anew(stage: Stage) -> None:
    """It brings nothing more, and ends one grace later; what it brought goes on."""
    watcher = await watch(stage, "f", credit=2)
    turn = await stage.call("f")
    call = await watcher.expect("call")
    await extended(stage.client, call, 3600)
    stage.pass_time(2000)
    assert (await watcher.expect("drain")).HasField("deadline")
    await stage.call("f")

    stage.pass_time(11)

    assert (await watcher.ended()).reason == "UNAVAILABLE"
    await watcher.finish(call)
    await turn.completed()


async def test_a_server_that_stops_says_so(stage: Stage) -> None:
    """The watcher is asked to watch again, and then its stream ends."""
    watcher = await watch(stage, "f")

    stage.baton.dispatcher.drain("the server stops")

    assert (await watcher.expect("drain")).reason == "the server stops"
    await stage.baton.grpc.stop(0)
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await watcher.frame()
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("request_fields", "path"),
    [
        ({}, "hello"),
        ({"hello": {"instance_id": "x" * 257}}, "hello.instance_id"),
        ({"hello": {}, "end_after": -1}, "end_after"),
        ({"hello": {}, "end_when_idle": {"seconds": -1}}, "end_when_idle"),
    ],
)
async def test_a_wrong_request_is_refused(stage: Stage, request_fields: dict[str, object], path: str) -> None:
    """By the field that is wrong; nobody is attached."""
    request = handler_pb2.WatchCallsRequest(**request_fields)  # type: ignore[arg-type]

    said = await refused(stage.client.handlers.WatchCalls(request).read())

    assert (said.reason, said.paths) == ("INVALID_REQUEST", [path])
    assert not (await soon(stage.client.handlers.ListWorkers(handler_pb2.ListWorkersRequest()))).workers
