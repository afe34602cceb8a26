"""Notifications: sent in order to one who listens, and lost where that is not possible."""

from __future__ import annotations

from typing import Any

from tests.app.calls.hooking import ask, asked, hosts, occasion
from tests.support.room import Room

from baton_server.app.calls.frames import Ask, Handler
from baton_server.core.events import HookKind


def told(name: str, number: int = 0) -> Any:
    """Make a notification."""
    return asked(name, f"hook_l{number}", kind=HookKind.LIFECYCLE)


def listening(*names: str) -> tuple[Handler, ...]:
    """Declare who listens."""
    return hosts(*names, kind=HookKind.LIFECYCLE)


async def test_a_notification_is_sent_and_forgotten(room: Room) -> None:
    """Nothing is owed, so it takes no place in the window, which is full here."""
    worker = await room.worker(*listening("audit"), *hosts("a"), max_hook_batches=1)
    ask(room, "a")
    worker.expect(Ask)

    room.hooks.tell(occasion(), [told("audit", 1), told("audit", 2)])

    batch = worker.expect(Ask)
    assert [(one.hook_id, one.attempt, one.deadline) for one in batch.questions] == [
        ("hook_l1", 1, None),
        ("hook_l2", 1, None),
    ]
    await worker.breaks()
    other = await room.worker(*listening("audit"))
    other.nothing()


async def test_a_notification_is_lost_where_nobody_listens_or_a_stream_is_full(room: Room) -> None:
    """It does not wait, and fails nobody."""
    room.hooks.tell(occasion(), [told("audit")])
    worker = await room.worker(*listening("audit"))
    worker.nothing()

    worker.takes = False
    room.hooks.tell(occasion(), [told("audit")])
    worker.takes = True

    worker.nothing()


async def test_one_listener_hears_all_of_a_turn(room: Room) -> None:
    """In order; turns are spread over those who listen."""
    workers = [await room.worker(*listening("audit")) for _ in range(3)]

    for number in range(60):
        room.hooks.tell(occasion(turn_id=f"turn_{number % 20}"), [told("audit", number)])

    heard = [[(frame.turn_id, frame.questions[0].hook_id) for frame in worker.frames] for worker in workers]
    turns = [{turn for turn, _ in one} for one in heard]
    assert all(turns)
    assert sum(len(one) for one in turns) == 20
    assert all([int(hook.removeprefix("hook_l")) for _, hook in one] == sorted(
        int(hook.removeprefix("hook_l")) for _, hook in one) for one in heard)  # fmt: skip
