"""Who is attached, what it serves, and how it is: told to whoever asks."""

from __future__ import annotations

from typing import Any

from tests.api.calling import refused, soon
from tests.support.scripted_watcher import Watcher
from tests.support.scripted_worker import ScriptedWorker, acked
from tests.support.stage import Stage

from baton.v1 import event_pb2, handler_pb2

STATE = handler_pb2.WorkerState.Value


async def page(stage: Stage, **fields: Any) -> handler_pb2.ListWorkersResponse:
    """Read a page."""
    return await soon(stage.client.handlers.ListWorkers(handler_pb2.ListWorkersRequest(**fields)))


async def workers(stage: Stage, **fields: Any) -> list[handler_pb2.Worker]:
    """Read the first page."""
    return list((await page(stage, **fields)).workers)


def ids(found: list[handler_pb2.Worker]) -> list[str]:
    """Name workers."""
    return [worker.worker_id for worker in found]


def names(*of: ScriptedWorker | Watcher) -> list[str]:
    """Name workers as they were welcomed."""
    return [worker.welcome.worker_id for worker in of]


async def test_a_worker_is_shown_as_it_introduced_itself(stage: Stage) -> None:
    """With what it serves, without schemas."""
    execution = {"timeout": {"seconds": 5}, "side_effects": handler_pb2.SIDE_EFFECTS_ONCE, "idempotency_fields": ["/a"]}
    function = {"name": "f", "version": "2", "description": "does", "execution": execution, "max_concurrency": 3}
    check = {"name": "f", "kind": event_pb2.HANDLER_KIND_EFFECT_CHECK}
    worker = await stage.worker(
        handlers=[{**function, "parameters_json": '{"type":"object"}'}, check],
        instance_id="pod-7",
        sdk={"name": "by hand", "version": "1", "language": "none"},
        scopes=["svc-7", "svc-8"],
        metadata={"zone": "a"},
        credit={"messages": 4, "bytes": 100},
    )
    await stage.call("f", "{}", scopes=["svc-7"])
    call = await acked(worker)
    stage.pass_time(3)

    (shown,) = await workers(stage)

    assert shown.handlers[0] == handler_pb2.HandlerSpec(kind=event_pb2.HANDLER_KIND_FUNCTION, **function)
    assert (shown.handlers[1].name, shown.handlers[1].kind) == ("f", event_pb2.HANDLER_KIND_EFFECT_CHECK)
    assert (shown.worker_id, shown.instance_id, shown.sdk.name) == (*names(worker), "pod-7", "by hand")
    assert (list(shown.scopes), dict(shown.metadata)) == (["svc-7", "svc-8"], {"zone": "a"})
    assert (shown.credit_messages, shown.credit_bytes, shown.half_duplex) == (3, 98, False)
    assert [(held.call_id, held.attempt) for held in shown.held] == [(call.call_id, 1)]
    assert shown.state == STATE("WORKER_STATE_ATTACHED")
    quiet_s = stage.clock.wall() - shown.last_heard_at.ToMicroseconds() / 1e6
    assert 2.9 < quiet_s < 3.1
    assert shown.attached_at == shown.last_heard_at


async def test_workers_that_watch_are_told_apart(stage: Stage) -> None:
    """Its credit is what it takes besides what is unsettled; what it says by other rpcs is heard of it."""
    watcher = await Watcher.watching(stage.client, "f", credit=3)
    await stage.call("f")
    call = await watcher.expect("call")
    stage.pass_time(5)
    (before,) = await workers(stage)
    await watcher.give_back(call, delay={"seconds": 60})

    (after,) = await workers(stage)

    assert (before.half_duplex, before.credit_messages, after.credit_messages) == (True, 2, 3)
    assert after.last_heard_at.ToMicroseconds() - before.last_heard_at.ToMicroseconds() == 5_000_000
    assert (len(before.held), len(after.held)) == (1, 0)


async def test_workers_that_leave_or_are_lost_are_shown_as_such(stage: Stage) -> None:
    """A lost one until its grace is over."""
    leaving, lost = await stage.worker("f"), await stage.worker("g")
    await stage.call("f")
    await stage.call("g")
    await acked(leaving)
    call = await acked(lost)
    await leaving.send(drain={})
    await leaving.nothing()
    await stage.break_off(lost, call.call_id)

    found = {worker.worker_id: worker.state for worker in await workers(stage)}

    states = [STATE("WORKER_STATE_DRAINING"), STATE("WORKER_STATE_LOST")]
    assert found == dict(zip(names(leaving, lost), states, strict=True))
    stage.pass_time(11)
    assert ids(await workers(stage)) == names(leaving)


async def test_workers_are_found_by_what_they_serve_and_where(stage: Stage) -> None:
    """Functions and hooks by one name; the empty scope is one, and not all."""
    scoped = await stage.worker("f", scopes=["svc-7"])
    hook = await stage.worker(handlers=[{"name": "f", "kind": event_pb2.HANDLER_KIND_EFFECT_CHECK}])
    other = await stage.worker("g")

    assert ids(await workers(stage)) == names(other, hook, scoped)
    assert ids(await workers(stage, name="f")) == names(hook, scoped)
    assert ids(await workers(stage, scope="svc-7")) == names(scoped)
    assert ids(await workers(stage, scope="")) == names(other, hook)
    assert ids(await workers(stage, name="g", scope="svc-7")) == []


async def test_pages_follow_one_another(stage: Stage) -> None:
    """Newest first; one that attaches meanwhile is on none of the later pages."""
    attached = [await stage.worker("f") for _ in range(5)]
    first = await page(stage, page_size=2)
    await stage.worker("f")
    second = await page(stage, page_size=2, page_token=first.next_page_token)
    last = await page(stage, page_size=2, page_token=second.next_page_token)

    found = [*first.workers, *second.workers, *last.workers]
    assert ids(found) == names(*reversed(attached))
    assert last.next_page_token == ""


async def test_a_token_is_of_its_list_and_filters(stage: Stage) -> None:
    """Any other is refused."""
    for _ in range(2):
        await stage.worker("f")
    token = (await page(stage, page_size=1)).next_page_token

    for fields in ({"name": "f", "page_token": token}, {"page_token": "x"}):
        said = await refused(page(stage, page_size=1, **fields))
        assert said.reason == "PAGE_TOKEN_INVALID"


async def test_workers_that_declare_much_fill_no_page_too_large(stage: Stage) -> None:
    """A client with gRPC's own limits can read each page; of one that is too large alone descriptions go."""
    for size in (14_000, 5_500, 5_500, 5_500):
        handlers = [{"name": f"f{index}", "description": "x" * size} for index in range(200)]
        await stage.worker(handlers=handlers, credit=0)

    first = await page(stage)
    second = await page(stage, page_token=first.next_page_token)

    sizes = [[len(worker.handlers[199].description) for worker in part.workers] for part in (first, second)]
    assert sizes == [[5_500, 5_500], [5_500, 0]]
    assert second.next_page_token == ""


async def test_a_wrong_request_is_refused(stage: Stage) -> None:
    """By its fields."""
    said = await refused(page(stage, page_size=101, name="get weather", scope="x" * 257))

    assert (said.reason, said.paths) == ("INVALID_REQUEST", ["page_size", "name", "scope"])
