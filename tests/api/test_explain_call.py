"""Why a call does not run: one test per cause, each as a person would meet it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.calling import refused
from tests.api.explaining import at, cause, causes, explain, opened, until
from tests.support.scripted_watcher import Watcher
from tests.support.scripted_worker import acked
from tests.support.stage import ANY_OBJECT, Stage, eventually

from baton.v1 import event_pb2, handler_pb2

ONCE = [{"name": "f", "execution": {"side_effects": handler_pb2.SIDE_EFFECTS_ONCE}}]
CHECK = {"name": "f", "kind": event_pb2.HANDLER_KIND_EFFECT_CHECK}


# -- nobody serves it ----------------------------------------------------------------------------


async def test_nobody_serves_it(stage: Stage) -> None:
    """Which function, where it was looked up, and since when."""
    turn = await stage.call("f", scopes=["svc-7"])
    call_id = await opened(turn)

    told = await cause(stage, call_id, "NO_WORKER", "'f'", "the scope 'svc-7' and the empty one", "Attach one")
    assert (told.worker_id, told.HasField("until")) == ("", False)

    worker = await stage.worker("f", scopes=["svc-7"], credit=0)
    await worker.send(unregister={"handlers": [{"name": "f"}]})
    await worker.nothing()
    stage.pass_time(20)
    await cause(stage, call_id, "NO_WORKER", "since 20 s")


async def test_somebody_serves_it_where_the_turn_does_not_look(stage: Stage) -> None:
    """Who, and in which scope."""
    worker = await stage.worker("f", scopes=["svc-8"], instance_id="pod-7")
    turn = await stage.call("f", scopes=["svc-7"])

    told = await cause(stage, await opened(turn), "OTHER_SCOPE", "pod-7", "the scope 'svc-8'", "the scope 'svc-7'")

    assert told.worker_id == worker.welcome.worker_id


async def test_somebody_serves_another_version(stage: Stage) -> None:
    """Which one is asked for, and which ones there are."""
    await stage.worker(handlers=[{"name": "f", "version": "1"}, {"name": "f", "version": "2"}])
    tools = [{"function": {"name": "f", "parameters_json": ANY_OBJECT, "handler_version": "7"}}]
    turn = await stage.call("f", tools=tools)

    await cause(stage, await opened(turn), "OTHER_VERSION", "version '7'", "'1', '2'")


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"name": "f", "parameters_json": "{"}, "parameters_json"),
        ({"name": "f", "max_concurrency": -1}, "max_concurrency"),
    ],
)
async def test_its_handler_was_refused(stage: Stage, declared: dict[str, Any], why: str) -> None:
    """Why it was, as the worker was told."""
    worker = await stage.worker(handlers=[declared])
    turn = await stage.call("f")

    told = await cause(stage, await opened(turn), "HANDLER_REFUSED", why)

    assert told.worker_id == worker.welcome.worker_id


async def test_a_handler_that_came_later_was_refused(stage: Stage) -> None:
    """By Register, over other parameters than somebody else's, who has gone since."""
    other = await stage.worker(handlers=[{"name": "f", "parameters_json": '{"type":"object"}'}])
    worker = await stage.worker()
    mine = {"name": "f", "parameters_json": '{"type":"object","required":["a"]}'}
    await worker.send(register={"handlers": [mine]})
    await worker.expect("registered")
    await other.send(drain={})
    await other.ended()
    stage.pass_time(1)
    turn = await stage.call("f")

    told = await cause(stage, await opened(turn), "HANDLER_REFUSED", "other parameters")

    assert told.worker_id == worker.welcome.worker_id


# -- who serves it cannot take it ----------------------------------------------------------------


async def test_who_serves_it_has_no_credit(stage: Stage) -> None:
    """Who, how many calls it has, and how many wait before this one."""
    worker = await stage.worker("f", credit=1, instance_id="pod-7")
    await stage.call("f")
    await acked(worker)
    before = await opened(await stage.call("f"))
    turn = await stage.call("f")

    told = await cause(
        stage, await opened(turn), "NO_CREDIT", "pod-7", "no credit", "1 call held", "1 call of 'f' waits"
    )

    assert told.worker_id == worker.welcome.worker_id
    assert "before it" not in (await cause(stage, before, "NO_CREDIT")).text


async def test_who_serves_it_has_no_bytes_of_credit(stage: Stage) -> None:
    """Messages would be left."""
    worker = await stage.worker("f", credit={"messages": 9, "bytes": 1})
    await stage.call("f")
    await acked(worker)
    turn = await stage.call("f")

    await cause(stage, await opened(turn), "NO_CREDIT", "no bytes of credit")


async def test_who_watches_has_as_much_unsettled_as_it_takes(stage: Stage) -> None:
    """How much that is."""
    watcher = await Watcher.watching(stage.client, "f", credit=1)
    await stage.call("f")
    await watcher.expect("call")
    turn = await stage.call("f")

    await cause(stage, await opened(turn), "NO_CREDIT", "no room for more than 1 call unsettled")


async def test_many_have_no_credit(stage: Stage) -> None:
    """The first few are named, the others counted."""
    for n in range(6):
        await stage.worker("f", credit=0, instance_id=f"pod-{n}")
    turn = await stage.call("f")

    told = await cause(stage, await opened(turn), "NO_CREDIT", "pod-0", "pod-2", "and 3 more have no credit")

    assert ("pod-3" in told.text, told.worker_id) == (False, "")


async def test_who_serves_it_has_as_many_of_it_as_it_takes(stage: Stage) -> None:
    """Its credit is not what is short."""
    worker = await stage.worker(handlers=[{"name": "f", "max_concurrency": 1}])
    await stage.call("f")
    await acked(worker)
    turn = await stage.call("f")

    told = await cause(stage, await opened(turn), "CONCURRENCY", "1 call of 'f'", "max_concurrency")

    assert told.worker_id == worker.welcome.worker_id


async def test_who_serves_it_drains(stage: Stage) -> None:
    """It still has another call."""
    worker = await stage.worker("f")
    await stage.call("f")
    await acked(worker)
    await worker.send(drain={})
    await worker.nothing()
    turn = await stage.call("f")

    told = await cause(stage, await opened(turn), "DRAINING", "drains")

    assert told.worker_id == worker.welcome.worker_id


async def test_the_server_drains(stage: Stage) -> None:
    """Nobody gets anything before it is started again."""
    await stage.worker("f", credit=0)
    call_id = await opened(await stage.call("f"))

    stage.baton.dispatcher.drain("the server stops")

    await cause(stage, call_id, "DRAINING", "The server is about to stop")


async def test_who_serves_it_is_lost(stage: Stage) -> None:
    """It may come back within its grace."""
    worker = await stage.worker("f", credit=1)
    held = await stage.call("f")
    call = await acked(worker)
    turn = await stage.call("f")
    await stage.break_off(worker, call.call_id)

    told = await cause(stage, await opened(turn), "NO_WORKER", "its stream is broken")

    assert told.worker_id == worker.welcome.worker_id
    await held.settle(call.call_id, output="x")


async def test_different_workers_have_different_reasons(stage: Stage) -> None:
    """Each kind is told once."""
    busy = await stage.worker(handlers=[{"name": "f", "max_concurrency": 1}])
    await stage.worker("f", credit=0)
    await stage.call("f")
    await acked(busy)
    turn = await stage.call("f")

    found = await causes(stage, await opened(turn))

    kinds = [handler_pb2.CauseKind.Name(one.kind) for one in found]
    assert kinds == ["CAUSE_KIND_CONCURRENCY", "CAUSE_KIND_NO_CREDIT"]


# -- it waits for something ----------------------------------------------------------------------


async def test_it_was_given_back_for_a_while(stage: Stage) -> None:
    """By whom, why, and until when."""
    worker = await stage.worker("f", instance_id="pod-7")
    turn = await stage.call("f")
    call = await acked(worker)
    await worker.send(nack={"call_id": call.call_id, "attempt": 1, "delay": {"seconds": 60}, "reason": "no database"})
    await worker.nothing()
    await eventually(lambda: stage.baton.dispatcher.leases.get(call.call_id) is None)

    told = await cause(stage, await opened(turn), "DELAYED", "pod-7", "no database", "in 60 s")

    assert until(told) == at(stage, 60)


async def test_it_takes_the_result_of_another_call(stage: Stage) -> None:
    """Of which one, and by which key."""
    worker = await stage.worker(handlers=[{"name": "f", "execution": {"idempotency_fields": ["/order"]}}])
    turn = await stage.turn([("f", '{"order":1,"n":1}'), ("f", '{"order":1,"n":2}')])
    first = await acked(worker)
    await turn.waiting()
    (second,) = [action.call_id for action in await turn.actions() if action.call_id != first.call_id]

    await cause(stage, second, "JOINED", first.call_id, first.idempotency_key)


async def test_somebody_must_find_out_whether_it_took_effect(stage: Stage) -> None:
    """Under which key, and what to send then."""
    worker = await stage.worker(handlers=ONCE)
    turn = await stage.call("f")
    call = await acked(worker)
    await worker.send(nack={"call_id": call.call_id, "attempt": 1})
    await turn.until("effect_unknown")

    words = ("Attempt 1", call.idempotency_key, "tool_result", "redelivery")
    told = await cause(stage, call.call_id, "EFFECT_UNKNOWN", *words)
    assert not told.HasField("until")


async def test_its_check_is_asked(stage: Stage) -> None:
    """Of whom."""
    worker = await stage.worker(handlers=[{"name": "f"}, CHECK])
    turn = await stage.call("f")
    call = await acked(worker)
    checker = await stage.worker(handlers=[CHECK], instance_id="checker")
    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)
    await checker.expect("hook_batch")
    await turn.until("attempt_lost")

    told = await cause(stage, call.call_id, "CHECKED", "Attempt 1", "checker", call.idempotency_key)

    assert told.worker_id == checker.welcome.worker_id


# -- somebody has it -----------------------------------------------------------------------------


async def test_somebody_has_it(stage: Stage) -> None:
    """Who, which attempt, and until when if nothing more is heard."""
    worker = await stage.worker("f", instance_id="pod-7")
    await stage.call("f")
    call = await worker.expect("call")
    await eventually(lambda: stage.lease(call.call_id).written_at is not None)
    await cause(stage, call.call_id, "LEASED", "Attempt 1", "pod-7", "has not acked it yet", "for 5.0 s")
    await worker.ack(call)
    await worker.nothing()
    stage.pass_time(5)

    told = await cause(stage, call.call_id, "LEASED", "pod-7", "works on it, attempt 1", "for 25 s", "delivered again")

    assert (told.worker_id, until(told)) == (worker.welcome.worker_id, at(stage, 25))


async def test_who_has_it_is_lost(stage: Stage) -> None:
    """Since when, and for how long it is missed."""
    worker = await stage.worker(handlers=ONCE)
    await stage.call("f")
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)
    stage.pass_time(4)

    told = await cause(stage, call.call_id, "LEASED", "broke 4.0 s ago", "for 6.0 s", "whether it took effect")

    assert until(told) == at(stage, 6)


async def test_who_had_it_has_not_come_back_since_the_server_started(stage: Stage) -> None:
    """Within the grace it may."""
    worker = await stage.worker("f", instance_id="pod-7")
    await stage.call("f")
    call = await acked(worker)
    await stage.restart()

    await cause(stage, call.call_id, "LEASED", "pod-7", "when the server stopped", "for 10 s")


async def test_its_turn_is_being_cancelled(stage: Stage) -> None:
    """Until when its worker may still end it; who has it is told as well."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    await turn.cancel(grace={"seconds": 9})
    await worker.expect("cancel")

    found = await causes(stage, call.call_id)

    assert [handler_pb2.CauseKind.Name(one.kind) for one in found] == ["CAUSE_KIND_CANCELLING", "CAUSE_KIND_LEASED"]
    assert "9.0 s" in found[0].text
    assert until(found[0]) == at(stage, 9)


async def test_a_call_that_there_never_was_is_not_found(stage: Stage) -> None:
    """By its id."""
    said = await refused(explain(stage, "call_gone"))

    assert (said.reason, said.metadata) == ("CALL_NOT_FOUND", {"call_id": "call_gone"})
    assert (await refused(explain(stage, ""))).paths == ["call_id"]
