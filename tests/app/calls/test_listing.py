"""Listing workers: who is there, what it serves, what it has, and how it is."""

from __future__ import annotations

from tests.support.hand import held
from tests.support.room import Room

from baton_server.app.calls.frames import Credit, Deliver, Handler, Held
from baton_server.app.calls.listing import Listing
from baton_server.core.events import HookKind
from baton_server.ports.workers import WorkerState


def listing(room: Room) -> Listing:
    """Look at a room's workers."""
    return Listing(room.runtime, room.registry, room.dispatcher.leases)


async def test_a_worker_is_shown_as_it_introduced_itself_and_as_it_stands(room: Room) -> None:
    """With what it has left, and what it holds."""
    handler = Handler(name="f", version="2", max_concurrency=3)
    worker = await room.worker(
        handler,
        instance_id="pod-7",
        scopes=("own",),
        credit=Credit(messages=5, bytes=100),
        metadata={"zone": "a"},
        sdk=("baton-python", "1", "python 3.13"),
    )
    attached_at = room.clock.wall()
    opened = await room.open(scopes=("own", ""))
    worker.expect(Deliver)
    await room.pass_time(4)

    (view,) = listing(room).workers()

    assert (view.worker_id, view.instance_id, view.scopes) == (worker.id, "pod-7", ("own",))
    assert (view.handlers, view.sdk, view.metadata) == ((handler,), ("baton-python", "1", "python 3.13"), {"zone": "a"})
    assert (view.credit, view.half_duplex, view.state) == (Credit(messages=4, bytes=98), False, WorkerState.ATTACHED)
    assert (view.attached_at, round(view.last_heard_at - attached_at, 3)) == (attached_at, 0)
    assert view.held == (Held(call_id=opened.call_id, attempt=1),)


async def test_what_a_worker_said_of_its_calls_is_shown(room: Room) -> None:
    """What is given back meanwhile is not its own any more."""
    worker = await room.worker("f")
    for _ in range(3):
        await room.open()
    calls = [worker.expect(Deliver) for _ in range(3)]
    await worker.breaks()
    finished, begun = held(calls[0], finished=True), held(calls[1])

    await worker.back("f", held=(*finished, *begun), credit=0)

    (view,) = listing(room).workers()
    assert view.held == (*finished, *begun)


async def test_workers_are_found_by_name_and_scope_the_last_one_first(room: Room) -> None:
    """Hooks by their names as well."""
    first = await room.worker("f", scopes=("a", "b"))
    second = await room.worker(Handler(name="f", kind=HookKind.EFFECT_CHECK))
    third = await room.worker("g", scopes=("b",))

    def ids(name: str = "", scope: str | None = None) -> list[str]:
        return [view.worker_id for view in listing(room).workers(name, scope)]

    assert ids() == [third.id, second.id, first.id]
    assert ids("f") == [second.id, first.id]
    assert ids(scope="b") == [third.id, first.id]
    assert ids(scope="") == [second.id]
    assert ids("g", "a") == []


async def test_a_worker_that_leaves_or_is_lost_is_shown_as_such(room: Room) -> None:
    """Until its grace is over."""
    leaving, lost = await room.worker("f"), await room.worker("g")
    await room.open()
    leaving.expect(Deliver)
    room.workers.drain(leaving.worker)
    await lost.breaks()

    assert [view.state for view in listing(room).workers()] == [WorkerState.LOST, WorkerState.DRAINING]
    await room.pass_time(11)
    assert [view.worker_id for view in listing(room).workers()] == [leaving.id]
