"""Hooks over real streams: asked once too often rather than never, and no turn hangs on a worker for ever."""

from __future__ import annotations

import json
from typing import Any

import grpc
from tests.api.calling import told
from tests.support.scripted_worker import ScriptedWorker
from tests.support.stage import Stage, Turn, eventually

from baton.v1 import error_pb2, event_pb2, handler_pb2

GUARDRAIL = event_pb2.HANDLER_KIND_INPUT_GUARDRAIL
PASSED, TRIPPED = '{"tripped":false}', '{"tripped":true}'


def hosting(*names: str) -> list[dict[str, Any]]:
    """Declare guardrails."""
    return [{"name": name, "kind": GUARDRAIL} for name in names]


def guarded(*names: str, timeout_s: int = 30) -> dict[str, Any]:
    """Have an agent ask guardrails before its model."""
    return {
        "input_guardrails": [
            {"name": name, "hook": {"name": name, "timeout": {"seconds": timeout_s}}, "blocking": True}
            for name in names
        ]
    }


async def answer(worker: ScriptedWorker, batch: handler_pb2.HookBatch, *answers: str) -> None:
    """Answer a batch, the same to all hooks unless there is one for each."""
    given = answers or (PASSED,) * len(batch.hooks)
    await worker.send(
        hook_answers={
            "batch_id": batch.batch_id,
            "answers": [
                {"hook_id": hook.hook_id, "attempt": hook.attempt, "answer_json": said}
                for hook, said in zip(batch.hooks, given, strict=False)
            ],
        }
    )


async def failure(turn: Turn) -> Any:
    """Wait for the end of a turn, which must be a failure; returns why."""
    (failed,) = told(await turn.ended(), "turn_failed")
    return failed.turn.error


async def until_lost(stage: Stage, worker: ScriptedWorker) -> None:
    """Cut a worker's connection, and wait until the server has noticed."""
    lost = next(one for one in stage.baton.hooks._registry.workers() if one.worker_id == worker.welcome.worker_id)
    await worker.break_connection()
    await eventually(lambda: lost.lost_at is not None)


async def test_a_turn_goes_on_when_all_have_answered(stage: Stage) -> None:
    """Two workers, each asked what it alone serves; the answers are in the log before the model is asked."""
    one, other = await stage.worker(handlers=hosting("a")), await stage.worker(handlers=hosting("b"))
    turn = await stage.turn(**guarded("a", "b"))

    await answer(one, await one.expect("hook_batch"))
    assert stage.model.requests == []
    await answer(other, await other.expect("hook_batch"))

    settled = told(await turn.completed(), "hook_settled")
    assert [(hook.name, hook.worker_id) for hook in settled] == [
        ("a", one.welcome.worker_id),
        ("b", other.welcome.worker_id),
    ]


async def test_a_hook_is_asked_again_when_its_stream_breaks(stage: Stage) -> None:
    """As the next attempt; the turn does not notice."""
    worker = await stage.worker(handlers=hosting("a"))
    turn = await stage.turn(**guarded("a"))
    first = await worker.expect("hook_batch")
    await until_lost(stage, worker)

    back = await stage.back(worker, handlers=hosting("a"))
    again = await back.expect("hook_batch")

    assert (again.hooks[0].hook_id, again.hooks[0].attempt) == (first.hooks[0].hook_id, 2)
    await answer(back, again)
    await turn.completed()


async def test_a_hook_that_a_former_process_asked_is_asked_again(stage: Stage) -> None:
    """The turn waits for its workers to come back to the new process, and does not fail meanwhile."""
    worker = await stage.worker(handlers=hosting("a"))
    turn = await stage.turn(**guarded("a"))
    first = await worker.expect("hook_batch")

    await stage.restart()
    turn = stage.again(turn)
    stage.pass_time(9)
    back = await stage.worker(handlers=hosting("a"))
    again = await back.expect("hook_batch")

    assert again.hooks[0].hook_id == first.hooks[0].hook_id
    await answer(back, again)
    await turn.completed()


async def test_nobody_who_serves_it_fails_the_turn(stage: Stage) -> None:
    """With the name that was looked up, and where."""
    stage.pass_time(20)
    turn = await stage.turn(scopes=("svc-7",), **guarded("a"))
    await eventually(lambda: len(stage.baton.hooks._unasked))
    stage.pass_time(2.1)

    error = await failure(turn)

    assert error.reason == error_pb2.ERROR_REASON_HOOK_UNSERVED
    assert error.metadata == {"kind": "INPUT_GUARDRAIL", "name": "a", "scopes": "svc-7,"}


async def test_a_hook_that_is_late_fails_the_turn(stage: Stage) -> None:
    """Its worker is told to stop; what it says then is passed over without a word."""
    worker = await stage.worker(handlers=hosting("a"))
    turn = await stage.turn(**guarded("a", timeout_s=5))
    batch = await worker.expect("hook_batch")
    stage.pass_time(5.1)

    error = await failure(turn)
    stop = await worker.expect("cancel")
    await worker.send(cancel_ack={"call_id": stop.call_id, "attempt": 1, "outcome": handler_pb2.CANCEL_OUTCOME_STOPPED})
    await answer(worker, batch)

    assert error.reason == error_pb2.ERROR_REASON_HOOK_TIMEOUT
    assert error.metadata == {"kind": "INPUT_GUARDRAIL", "name": "a", "timeout": "5s"}
    assert (stop.call_id, stop.reason) == (batch.hooks[0].hook_id, handler_pb2.CANCEL_REASON_TIMEOUT)
    await worker.nothing()


async def test_a_guardrail_that_trips_gives_its_siblings_up(stage: Stage) -> None:
    """Who is still asked hears that its answer is not needed."""
    one, other = await stage.worker(handlers=hosting("a")), await stage.worker(handlers=hosting("b"))
    turn = await stage.turn(**guarded("a", "b"))
    batch = await other.expect("hook_batch")

    await answer(one, await one.expect("hook_batch"), TRIPPED)

    assert (await failure(turn)).reason == error_pb2.ERROR_REASON_INPUT_GUARDRAIL_TRIPPED
    stop = await other.expect("cancel")
    assert (stop.call_id, stop.reason) == (batch.hooks[0].hook_id, handler_pb2.CANCEL_REASON_NOT_NEEDED)


async def test_a_cancelled_turn_needs_no_answers(stage: Stage) -> None:
    """Its hooks are given up with it."""
    worker = await stage.worker(handlers=hosting("a"))
    turn = await stage.turn(**guarded("a"))
    batch = await worker.expect("hook_batch")

    await turn.cancel()

    stop = await worker.expect("cancel")
    assert (stop.call_id, stop.reason) == (batch.hooks[0].hook_id, handler_pb2.CANCEL_REASON_NOT_NEEDED)
    assert told(await turn.ended(), "turn_cancelled")


async def test_an_answer_that_is_no_json_is_refused_and_may_be_sent_again(stage: Stage) -> None:
    """The author is told which field; the hook is open as before."""
    worker = await stage.worker(handlers=hosting("a"))
    turn = await stage.turn(**guarded("a"))
    batch = await worker.expect("hook_batch")

    await answer(worker, batch, "{tripped:false}")
    error = await worker.expect_error()
    await answer(worker, batch)

    assert error.error.reason == error_pb2.ERROR_REASON_FRAME_INVALID
    assert error.error.metadata["field"] == "hook_answers.answers[0].answer_json"
    await turn.completed()


async def test_an_answer_of_the_wrong_shape_fails_the_turn(stage: Stage) -> None:
    """It says where."""
    worker = await stage.worker(handlers=hosting("a"))
    turn = await stage.turn(**guarded("a"))

    await answer(worker, await worker.expect("hook_batch"), '{"tripped":"no"}')

    error = await failure(turn)
    assert error.reason == error_pb2.ERROR_REASON_HOOK_ANSWER_INVALID
    assert error.metadata["path"] == "$.tripped"


async def test_a_half_closed_worker_is_not_waited_for(stage: Stage) -> None:
    """It can answer nothing any more: somebody else is asked at once, and its stream ends."""
    worker = await stage.worker(handlers=hosting("a"))
    turn = await stage.turn(**guarded("a"))
    await worker.expect("hook_batch")
    other = await stage.worker(handlers=hosting("a"))

    await worker.half_close()

    again = await other.expect("hook_batch")
    assert again.hooks[0].attempt == 2
    await answer(other, again)
    assert (await worker.ended()).code is grpc.StatusCode.OK
    await turn.completed()


async def test_a_worker_that_drains_answers_before_its_stream_ends(stage: Stage) -> None:
    """A turn does not fail because the one who judges it is being stopped in good order."""
    worker = await stage.worker(handlers=hosting("a"))
    turn = await stage.turn(**guarded("a"))
    batch = await worker.expect("hook_batch")

    await worker.send(drain={"reason": "SIGTERM"})
    await worker.nothing()
    await answer(worker, batch)

    assert (await worker.ended()).code is grpc.StatusCode.OK
    await turn.completed()


async def test_a_question_larger_than_a_message_arrives_whole(stage: Stage) -> None:
    """In chunks, and once for all who are asked the same."""
    worker = await stage.worker(handlers=hosting("a", "b"), max_message_bytes=65_536)
    text, agent = stage.script(**guarded("a", "b"))
    session = await stage.client.session(agent=agent)
    long = {"role": "user", "content": "é" * 200_000}
    items = json.dumps([long, {"role": "user", "content": text}], ensure_ascii=False)
    sent = await stage.client.submit(session.session_id, {"items_json": items})

    batch = await worker.expect("hook_batch")
    await answer(worker, batch)

    assert json.loads(batch.shared_payload_json)["input"][0] == long
    assert max(worker.sizes) <= 65_536
    assert sum(worker.sizes) < 450_000
    await Turn(stage.client, session.session_id, sent.turn_id).completed()
