"""Credit in bytes: a worker says how much it can hold."""

from __future__ import annotations

from tests.support.stage import Stage


def arguments(size: int) -> str:
    """Make arguments of so many bytes."""
    return f'{{"text":"{"x" * (size - 11)}"}}'


async def test_calls_come_as_far_as_the_bytes_go(stage: Stage) -> None:
    """One may take them below zero; the next waits until they are above."""
    worker = await stage.worker("f", credit={"messages": 100, "bytes": 1000})
    turn = await stage.turn([("f", arguments(600)) for _ in range(4)])
    await worker.expect_all("call", 2)
    await turn.waiting()
    await worker.nothing()

    await worker.send(credit={"bytes": 200})
    await worker.nothing()
    await worker.send(credit={"bytes": 1})

    await worker.expect("call")
    await worker.nothing()


async def test_a_call_larger_than_all_that_was_granted_comes_all_the_same(stage: Stage) -> None:
    """No call waits for ever because it is large."""
    worker = await stage.worker("f", credit={"messages": 2, "bytes": 1})
    await stage.call("f", arguments(100_000))

    assert len((await worker.expect("call")).arguments_json) == 100_000


async def test_without_a_grant_of_bytes_there_is_no_limit(stage: Stage) -> None:
    """As long as no frame of this very stream has granted any."""
    limited = await stage.worker("f", credit={"messages": 2, "bytes": 10})
    back = await stage.back(limited, "f", credit=5)
    await limited.ended()

    await stage.turn([("f", arguments(1000)) for _ in range(5)])

    await back.expect_all("call", 5)
