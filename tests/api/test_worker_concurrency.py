"""Handlers that say how many calls they take at once."""

from __future__ import annotations

from tests.support.scripted_worker import held
from tests.support.stage import Stage

ONE_AT_A_TIME = [{"name": "f", "max_concurrency": 1}, {"name": "g"}]


async def test_a_handler_gets_no_more_at_once_than_it_says(stage: Stage) -> None:
    """Whatever credit its worker has; other functions are not held up, and the end of one call brings the next."""
    worker = await stage.worker(handlers=ONE_AT_A_TIME, credit=100)
    turn = await stage.turn([("f", '{"n":0}'), ("f", '{"n":1}'), ("g", "{}")])
    first, other = await worker.expect_all("call", 2)
    assert (first.name, other.name) == ("f", "g")
    await turn.waiting()
    await worker.nothing()

    await worker.settle(first)

    frames = {(await worker.frame()).WhichOneof("frame") for _ in range(2)}
    assert frames == {"result_ack", "call"}
    await worker.nothing()


async def test_workers_share_what_each_takes_at_once(stage: Stage) -> None:
    """The bound is each worker's own."""
    workers = [await stage.worker(handlers=ONE_AT_A_TIME, credit=100) for _ in range(3)]
    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(5)])

    for worker in workers:
        await worker.expect("call")
        await worker.nothing()

    assert len([one for one in await turn.actions() if one.attempt == 0]) == 2


async def test_what_a_worker_still_holds_counts_when_it_comes_back(stage: Stage) -> None:
    """Over a restart of the server too."""
    worker = await stage.worker(handlers=ONE_AT_A_TIME, credit=100)
    turn = await stage.turn([("f", '{"n":0}'), ("f", '{"n":1}')])
    call = await worker.expect("call")
    await worker.ack(call)
    await worker.nothing()
    await stage.restart()
    turn = stage.again(turn)

    back = await stage.back(worker, handlers=ONE_AT_A_TIME, credit=100, held=held(call))

    await back.nothing()
    await back.settle(call)
    frames = {(await back.frame()).WhichOneof("frame") for _ in range(2)}
    assert frames == {"result_ack", "call"}
