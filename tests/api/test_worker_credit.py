"""Who gets a call: by scope, by credit, oldest first."""

import asyncio
import itertools
from collections import Counter

import pytest
from tests.support.scripted_worker import ScriptedWorker
from tests.support.stage import Stage

# -- scopes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scopes", "winner"),
    [(["a", "b"], "a"), (["b", "a"], "b"), (["unknown", "b"], "b"), (["unknown"], ""), ([], "")],
)
async def test_scopes_are_looked_up_in_order_and_the_empty_one_last(
    stage: Stage, scopes: list[str], winner: str
) -> None:
    """The first scope of the session in which the name is served gets the call, and is named in it."""
    workers = {name: await stage.worker("f", scopes=[name] if name else []) for name in ("", "a", "b")}

    await stage.call("f", scopes=scopes)

    assert (await workers.pop(winner).expect("call")).scope == winner
    for other in workers.values():
        await other.nothing()


async def test_a_handler_in_a_foreign_scope_is_not_found(stage: Stage) -> None:
    """A worker gets no calls of sessions that do not look into its scope, whatever they wait for."""
    worker = await stage.worker("f", scopes=["mine"])

    turn = await stage.call("f", scopes=["yours"])
    await turn.waiting()

    await worker.nothing()
    assert await turn.state() == "UNSERVED"


async def test_one_name_in_two_scopes_is_two_functions(stage: Stage) -> None:
    """Two processes with one name never get each other's calls."""
    first, second = await stage.worker("f", scopes=["one"]), await stage.worker("f", scopes=["two"])

    await stage.call("f", '{"of":1}', scopes=["one"])
    await stage.call("f", '{"of":2}', scopes=["two"])

    assert (await first.expect("call")).arguments_json == '{"of":1}'
    assert (await second.expect("call")).arguments_json == '{"of":2}'
    await first.nothing()
    await second.nothing()


async def test_a_worker_may_serve_several_scopes(stage: Stage) -> None:
    """Its handlers are found through each of them."""
    worker = await stage.worker("f", scopes=["a", "b"])

    await stage.call("f", scopes=["b"])
    await stage.call("f", scopes=["a"])

    assert {call.scope for call in await worker.expect_all("call", 2)} == {"a", "b"}


async def test_a_busy_handler_does_not_send_its_calls_to_a_later_scope(stage: Stage) -> None:
    """What a name means does not depend on load: the call waits for the scope in which the name is found."""
    own = await stage.worker("f", scopes=["own"], credit=1)
    general = await stage.worker("f")
    await stage.call("f", scopes=["own"])
    first = await own.expect("call")

    turn = await stage.call("f", scopes=["own"])
    await turn.waiting()
    await general.send(credit={"messages": 1})

    await general.nothing()
    await own.finish(first)
    await own.send(credit={"messages": 1})
    assert (await own.expect("call")).scope == "own"


# -- credit --------------------------------------------------------------------------------------


async def test_without_credit_a_worker_gets_no_call(stage: Stage) -> None:
    """Attached but idle; the call waits for it, and comes with its first credit."""
    worker = await stage.worker("f", credit=0)
    turn = await stage.call("f")
    await turn.waiting()
    await worker.nothing()

    await worker.send(credit={"messages": 1})

    await worker.finish(await worker.expect("call"))
    await turn.completed()


async def test_never_more_calls_than_credit(stage: Stage) -> None:
    """A worker that takes two gets two, and the next only for new credit; results alone are none."""
    worker = await stage.worker("f", credit=2)
    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(5)])
    first, _ = await worker.expect_all("call", 2)
    await turn.waiting()
    await worker.nothing()
    await worker.finish(first)
    await worker.nothing()

    await worker.send(credit={"messages": 2})

    assert [call.arguments_json for call in await worker.expect_all("call", 2)] == ['{"n":2}', '{"n":3}']
    await worker.nothing()


async def test_calls_that_waited_come_oldest_first(stage: Stage) -> None:
    """Whatever order the turns were in, and whether a call came by a credit or by an attachment."""
    turns = [await stage.call("f", f'{{"n":{n}}}') for n in range(6)]
    for turn in turns:
        await turn.waiting()

    first = await stage.worker("f", credit=2)
    got = await first.expect_all("call", 2)
    second = await stage.worker("f", credit=1)
    got += await second.expect_all("call", 1)
    await first.send(credit={"messages": 1})
    got += await first.expect_all("call", 1)
    await second.send(credit={"messages": 2})
    got += await second.expect_all("call", 2)

    assert [call.arguments_json for call in got] == [f'{{"n":{n}}}' for n in range(6)]


async def test_a_new_call_does_not_overtake_one_that_waits(stage: Stage) -> None:
    """Credit that arrives while calls wait is theirs, not that of the call which is just being made."""
    worker = await stage.worker("f", credit=0)
    old = await stage.call("f", '{"n":0}')
    await old.waiting()

    await worker.send(credit={"messages": 1})
    new = await stage.call("f", '{"n":1}')
    await new.waiting()

    assert (await worker.expect("call")).arguments_json == '{"n":0}'
    await worker.nothing()


async def test_one_queue_for_all_names_of_a_worker(stage: Stage) -> None:
    """A worker that serves two functions gets the oldest call of both."""
    turns = [await stage.call(name) for name in ("f", "g", "g", "f")]
    for turn in turns:
        await turn.waiting()
    worker = await stage.worker("g", "f", credit=1)

    got = [(await worker.expect("call")).name]
    for _ in range(3):
        await worker.send(credit={"messages": 1})
        got.append((await worker.expect("call")).name)

    assert got == ["f", "g", "g", "f"]


async def test_a_flood_of_credit_is_bounded(stage: Stage) -> None:
    """Credit adds up to 10,000 at most; more of it is no error and counts for nothing."""
    worker = await stage.worker("f", credit=10_000)
    for _ in range(5):
        await worker.send(credit={"messages": 10_000})
    await worker.nothing()
    await stage.call("f")

    call = await worker.expect("call")

    held_by = stage.lease(call.call_id).worker
    assert held_by is not None
    assert held_by.credit == 9_999


# -- many workers --------------------------------------------------------------------------------


async def test_workers_of_one_name_share_the_load(stage: Stage) -> None:
    """The one with the most credit left gets the next call, so that none stands idle beside a busy one."""
    workers = [await stage.worker("f", credit=3) for _ in range(3)]

    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(9)])

    got = [[call.arguments_json for call in await worker.expect_all("call", 3)] for worker in workers]
    await turn.waiting()
    for worker in workers:
        await worker.nothing()
    assert Counter(itertools.chain(*got)) == Counter(f'{{"n":{n}}}' for n in range(9))


async def test_a_worker_with_more_room_gets_more(stage: Stage) -> None:
    """Six calls over a worker that takes five and one that takes two."""
    small, large = await stage.worker("f", credit=2), await stage.worker("f", credit=5)

    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(6)])
    await turn.waiting()

    await large.expect_all("call", 4)
    await small.expect_all("call", 2)


async def test_hundreds_of_waiting_calls_all_come(stage: Stage) -> None:
    """A worker that settles one after the other gets through a backlog, each call once."""
    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(300)])
    await turn.waiting()

    done: Counter[str] = Counter()
    workers = [asyncio.ensure_future(_work(await stage.worker("f", credit=7), done)) for _ in range(3)]

    await turn.completed()
    for worker in workers:
        worker.cancel()
    assert set(done.values()) == {1}
    assert len(done) == 300


async def _work(worker: ScriptedWorker, done: Counter[str]) -> None:
    """Settle whatever comes, until cancelled."""
    while True:
        frame = await worker.frame()
        if frame.WhichOneof("frame") == "call":
            done[frame.call.arguments_json] += 1
            await worker.settle(frame.call)
            await worker.send(credit={"messages": 1})
