"""What a run costs, counted and not timed: commits that write, and frames on a worker's stream."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from tests.support.scripted_worker import ScriptedWorker
from tests.support.stage import Call, Stage

from baton.v1 import event_pb2
from baton_server.ports.store import Batch


async def run(stage: Stage, *rounds: Sequence[Call]) -> Counter[str]:
    """Run an agent whose model makes these calls, with a worker that answers each round at once.

    Returns the frames that the worker was sent.
    """
    worker = await stage.worker("f")
    text, agent = stage.script(*rounds)
    stage.store.committed.clear()

    running = asyncio.ensure_future(stage.client.run(agent=agent, text=text))
    for calls in rounds:
        await answer_all(worker, len(calls))
    answer = await running

    assert answer.turn.status == event_pb2.TURN_STATUS_COMPLETED
    assert answer.turn.rounds == len(rounds) + 1
    return worker.counts - Counter({"welcome": 1, "heartbeat": worker.counts["heartbeat"]})


async def answer_all(worker: ScriptedWorker, count: int) -> None:
    """Take the calls of a round, send all results, then take their acks."""
    for call in await worker.expect_all("call", count):
        await worker.settle(call)
    await worker.expect_all("result_ack", count)


def kinds(batches: Sequence[Batch]) -> list[str]:
    """Say of each commit what it was for."""
    return [kind(batch) for batch in batches]


def kind(batch: Batch) -> str:
    """Say what a commit was for."""
    if batch.request is not None:
        return "accept"
    if batch.turn is not None and batch.turn.ends:
        return "final"
    if batch.calls_opened:
        return "reply"
    return "result" if batch.calls_settled else "other"


async def test_a_run_of_four_model_calls_and_three_calls_is_eight_commits(stage: Stage) -> None:
    """One accepts, one for each reply with the lease of its call, one for each result, one ends the turn."""
    frames = await run(stage, *[[("f", f'{{"n":{n}}}')] for n in range(3)])

    assert kinds(stage.store.committed) == ["accept", *["reply", "result"] * 3, "final"]
    assert frames == {"call": 3, "result_ack": 3}


async def test_each_reply_assigns_its_calls_in_its_own_commit(stage: Stage) -> None:
    """Opening and leasing are one: no call is queued where a worker with credit is attached."""
    await run(stage, [("f", '{"n":0}'), ("f", '{"n":1}')])

    (reply,) = [batch for batch in stage.store.committed if batch.calls_opened]
    assert [(row.state, row.attempt) for row in reply.calls_opened] == [("leased", 1)] * 2


async def test_three_parallel_calls_cost_no_more_commits_than_three_in_a_row(stage: Stage) -> None:
    """Results that come together are taken together: at most one commit for each, one for all at best."""
    frames = await run(stage, [("f", f'{{"n":{n}}}') for n in range(3)])

    commits = Counter(kinds(stage.store.committed))
    assert 1 <= commits.pop("result") <= 3
    assert commits == {"accept": 1, "reply": 1, "final": 1}
    assert frames == {"call": 3, "result_ack": 3}


async def test_results_that_wait_for_a_commit_share_the_next_one(stage: Stage) -> None:
    """While one result is being written the others gather; two commits are enough for ten results."""
    worker = await stage.worker("f")
    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(10)])
    first, *others = await worker.expect_all("call", 10)
    came, go_on = stage.store.hold(lambda batch: bool(batch.calls_settled))
    await worker.settle(first)
    await came.wait()
    for call in others:
        await worker.settle(call)
    await worker.nothing()  # the server has read them all

    go_on.set()

    await worker.expect_all("result_ack", 10)
    await turn.completed()
    assert kinds(stage.store.committed).count("result") == 2


async def test_acks_credit_and_heartbeats_are_no_commits(stage: Stage) -> None:
    """What only keeps a stream going costs the disk nothing."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await turn.waiting()
    stage.store.committed.clear()

    await worker.ack(call)
    for _ in range(10):
        await worker.send(heartbeat={})
        await worker.send(credit={"messages": 1})
    await worker.send(register={"handlers": [{"name": "g"}]})
    await worker.expect("registered")
    stage.pass_time(20)

    assert stage.store.committed == []


async def test_a_call_that_waited_costs_one_commit_more(stage: Stage) -> None:
    """Its lease is written when a worker comes; a backlog is leased together."""
    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(5)])
    await turn.waiting()
    stage.store.committed.clear()

    worker = await stage.worker("f")
    await answer_all(worker, 5)
    await turn.completed()

    assert sum(bool(batch.leases) for batch in stage.store.committed) == 1
