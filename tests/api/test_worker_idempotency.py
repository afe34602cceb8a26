"""Idempotency fields: what a model plans twice takes effect once in its session."""

from __future__ import annotations

from typing import Any

from tests.api.calling import kinds
from tests.support.stage import Stage, Turn

from baton.v1 import item_pb2

ORDER = [{"name": "f", "execution": {"idempotency_fields": ["/order"]}}]


def order(number: int, note: str = "") -> tuple[str, str]:
    """Call f for an order."""
    return "f", f'{{"order":{number},"note":"{note}"}}'


async def joined(turn: Turn) -> list[str]:
    """List whose results the turn's calls took, in the order of the log; empty: their own."""
    return [output.joined_call_id for output in await turn.outputs()]


async def again(stage: Stage, turn: Turn, *rounds: Any) -> Turn:
    """Start another turn in the same session."""
    text, _ = stage.script(*rounds)
    answer = await stage.client.submit(turn.session_id, text)
    return Turn(stage.client, turn.session_id, answer.turn_id)


async def test_the_second_call_of_a_reply_takes_the_result_of_the_first(stage: Stage) -> None:
    """Only one reaches a worker; the key is the same for both, and tells orders apart."""
    worker = await stage.worker(handlers=ORDER)
    turn = await stage.turn([order(1), order(1, "again"), order(2)])
    first, other = await worker.expect_all("call", 2)
    assert (first.arguments_json, other.arguments_json) == (order(1)[1], order(2)[1])
    assert first.idempotency_key != other.idempotency_key
    await turn.waiting()
    await worker.nothing()

    await worker.finish(first, output="booked")
    await worker.finish(other, output="booked too")

    await turn.completed()
    outputs = {output.call_id: output for output in await turn.outputs()}
    (second,) = [output for output in outputs.values() if output.joined_call_id]
    assert (second.joined_call_id, second.output[0].text) == (first.call_id, "booked")


async def test_a_later_turn_takes_an_earlier_success(stage: Stage) -> None:
    """The model planned it again, days later; nobody executes it again."""
    worker = await stage.worker(handlers=ORDER)
    turn = await stage.turn([order(1)])
    call = await worker.expect("call")
    await worker.finish(call, output="booked")
    await turn.completed()

    later = await again(stage, turn, [order(1)])

    await later.completed()
    await worker.nothing()
    (output,) = await later.outputs()
    assert (output.joined_call_id, output.output[0].text) == (call.call_id, "booked")
    assert output.settlement == item_pb2.SETTLEMENT_OUTPUT


async def test_a_success_is_found_after_a_restart(stage: Stage) -> None:
    """It stands in the rows of the calls."""
    worker = await stage.worker(handlers=ORDER)
    turn = await stage.turn([order(1)])
    await worker.finish(await worker.expect("call"), output="booked")
    await turn.completed()
    await stage.restart()
    worker = await stage.worker(handlers=ORDER)

    later = await again(stage, stage.again(turn), [order(1)])

    await later.completed()
    await worker.nothing()
    assert len(list(filter(None, await joined(later)))) == 1


async def test_a_failure_is_tried_again(stage: Stage) -> None:
    """By the next call of the key, of the same reply or of a later turn."""
    worker = await stage.worker(handlers=ORDER)
    turn = await stage.turn([order(1), order(1)])
    first = await worker.expect("call")
    await worker.settle(first, failure="no room")
    frames = [await worker.frame(), await worker.frame()]
    second = next(frame.call for frame in frames if frame.HasField("call"))
    assert second.idempotency_key == first.idempotency_key

    await worker.finish(second, output="booked")

    await turn.completed()
    assert await joined(turn) == ["", ""]


async def test_another_session_has_keys_of_its_own(stage: Stage) -> None:
    """One customer's order 1 is not another's."""
    worker = await stage.worker(handlers=ORDER)
    for _ in range(2):
        turn = await stage.turn([order(1)])
        await worker.finish(await worker.expect("call"))
        await turn.completed()


async def test_a_call_that_lacks_a_field_is_joined_with_no_other(stage: Stage) -> None:
    """Its id is its key."""
    worker = await stage.worker(handlers=ORDER)
    turn = await stage.turn([("f", "{}"), ("f", "{}")])

    for call in await worker.expect_all("call", 2):
        assert call.idempotency_key == call.call_id
        await worker.finish(call)

    await turn.completed()


async def test_a_success_from_outside_settles_those_that_wait_for_it(stage: Stage) -> None:
    """Although a worker would be there for them."""
    worker = await stage.worker(handlers=ORDER)
    turn = await stage.turn([order(1), order(1)])
    call = await worker.expect("call")
    await worker.ack(call)

    await turn.settle(call.call_id, output="by hand")

    assert (await worker.expect("cancel")).call_id == call.call_id
    await turn.completed()
    await worker.nothing()
    assert sorted(await joined(turn)) == ["", call.call_id]


async def test_a_cancel_settles_those_that_wait_too(stage: Stage) -> None:
    """Nobody is left behind in the line."""
    worker = await stage.worker(handlers=ORDER)
    turn = await stage.turn([order(1), order(1)])
    call = await worker.expect("call")
    await worker.ack(call)
    await turn.cancel()
    await worker.expect("cancel")

    await worker.finish(call)

    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    later = await again(stage, turn, [order(1)])
    await later.completed()
    assert await joined(later) == [call.call_id]
