"""Answers to hooks that came without a stream: what is said about them, and when."""

from __future__ import annotations

import asyncio

import pytest

from baton_server.app.calls.answered import Answered
from baton_server.app.calls.frames import HookReply, ResultVerdict
from baton_server.core.errors import Reason

SAID = HookReply(hook_id="hook_1", attempt=1, answer_json="{}")
OTHER = HookReply(hook_id="hook_1", attempt=1, answer_json="[]")


async def verdict(answered: Answered, reply: HookReply = SAID, current: int = 0) -> Reason | ResultVerdict:
    """Say what became of an answer: why it did not count, or that it is durable."""
    ack = await answered.ack(reply, current)
    assert (ack.call_id, ack.attempt) == (reply.hook_id, reply.attempt)
    assert (ack.failure is None) == (ack.verdict is ResultVerdict.DURABLE)
    return ack.failure.reason if ack.failure is not None else ack.verdict


def fed(answered: Answered) -> asyncio.Future[bool]:
    """Bring an answer to its turn."""
    counted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    answered.recorded("hook_1", counted)
    return counted


async def test_nothing_is_said_before_it_is_on_disk() -> None:
    """However often it is asked for."""
    answered = Answered()
    answered.taken(SAID)
    waiting = [asyncio.ensure_future(verdict(answered, reply)) for reply in (SAID, SAID, OTHER)]
    counted = fed(answered)
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)

    counted.set_result(True)

    durable = ResultVerdict.DURABLE
    assert await asyncio.gather(*waiting) == [durable, durable, Reason.CALL_SETTLED]
    assert await verdict(answered) is durable


@pytest.mark.parametrize("how", ["dropped", "not counted", "server stops"])
async def test_an_answer_that_came_to_nothing_did_not_count(how: str) -> None:
    """Its asker went away before it was brought to its turn, or the turn did not take it."""
    answered = Answered()
    answered.taken(SAID)
    waiting = asyncio.ensure_future(verdict(answered))
    await asyncio.sleep(0)

    if how == "dropped":
        answered.dropped("hook_1")
    elif how == "not counted":
        fed(answered).set_result(False)
    else:
        fed(answered).cancel()

    assert await waiting is Reason.CALL_SETTLED


async def test_who_gives_up_does_not_undo_what_is_on_its_way() -> None:
    """A question is dropped as a matter of course once its answer was taken."""
    answered = Answered()
    answered.taken(SAID)
    counted = fed(answered)

    answered.dropped("hook_1")
    counted.set_result(True)

    assert await verdict(answered) is ResultVerdict.DURABLE


async def test_who_asks_no_more_takes_nothing_with_it() -> None:
    """The caller of one rpc went away; the answer counts, and the next rpc is told so."""
    answered = Answered()
    answered.taken(SAID)
    leaving = asyncio.ensure_future(verdict(answered))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)

    fed(answered).set_result(True)

    assert await verdict(answered) is ResultVerdict.DURABLE


async def test_what_is_not_known_is_told_apart() -> None:
    """Nobody asks it, or it was asked of somebody else."""
    assert await verdict(Answered()) is Reason.CALL_NOT_FOUND
    assert await verdict(Answered(), current=2) is Reason.ATTEMPT_STALE
