"""Items: where they stand in a history, when they join it and when they leave."""

from __future__ import annotations

import pytest
from tests.contract.store.builders import (
    SESSION,
    TURN,
    WallClock,
    ended,
    event,
    item,
    new_session,
    running,
    said,
    started,
    turn_write,
)

from baton_server.core.events import TurnStatus
from baton_server.ports.store import Batch, ItemRow, NewEvent, Page, Store

EVERYTHING = Page(size=1000)


async def add(store: Store, *events: NewEvent, withdrawn: tuple[str, ...] = ()) -> int:
    """Append events to the session; returns the sequence of the first."""
    done = await store.commit(Batch(session_id=SESSION, events=events, withdrawn=withdrawn))
    return done.events[0].sequence


async def listed(store: Store) -> list[str]:
    """List all items of the session, in their order."""
    return [row.item_id for row in await store.items.page(SESSION, EVERYTHING)]


async def test_item_is_kept_whole_with_its_place(store: Store, clock: WallClock) -> None:
    """Sequence, anchor, added and time are the store's, whatever the row says."""
    await running(store)
    row = item("item_1", TURN, rank=3, sequence=9, anchor=9, added=9, withdrawn=9, created_at=9.0)

    await add(store, event(TURN), event(TURN, item=row))

    assert await store.items.page(SESSION, EVERYTHING) == [
        ItemRow(
            item_id="item_1",
            turn_id=TURN,
            rank=3,
            data=b"<item_1>",
            json="item_1",
            in_history=True,
            sequence=4,
            anchor=2,
            added=4,
            withdrawn=0,
            created_at=clock.time,
        )
    ]


async def test_items_of_the_batch_that_starts_a_turn_stand_at_its_start(store: Store) -> None:
    """Their anchor is a sequence that is given in that very batch."""
    await store.commit(new_session())

    await store.commit(started(events=(event(TURN), said("item_1", TURN), said("item_2", TURN, 1))))

    rows = await store.items.page(SESSION, EVERYTHING)
    assert [(row.anchor, row.sequence) for row in rows] == [(2, 3), (2, 4)]


async def test_items_of_a_turn_are_ordered_by_rank_not_by_time(store: Store) -> None:
    """Outputs stand in the order of their calls, whichever came first."""
    await running(store)

    await add(store, said("item_late", TURN, rank=2))
    await add(store, said("item_early", TURN, rank=1))

    assert await listed(store) == ["item_early", "item_late"]
    assert list(await store.items.history(SESSION, 100)) == ["item_early", "item_late"]


async def test_added_item_stands_behind_the_turn_that_runs_meanwhile(store: Store) -> None:
    """By its own sequence: behind the whole running turn, before the next one."""
    await store.commit(new_session())
    await add(store, said("item_before"))
    await store.commit(started(events=(said("item_input", TURN, 0),)))
    await add(store, said("item_meanwhile"))
    await store.commit(ended(events=(said("item_output", TURN, 1),)))
    await store.commit(started("turn_2", events=(said("item_next", "turn_2", 0),)))

    assert await listed(store) == ["item_before", "item_input", "item_output", "item_meanwhile", "item_next"]


async def test_history_is_read_as_it_was_when_a_turn_started(store: Store) -> None:
    """Items added while the turn runs, and its own, are for later turns; a replay reads the same again."""
    await store.commit(new_session())
    await add(store, said("item_before"))
    await store.commit(started(events=(said("item_input", TURN, 0),)))
    first = (await store.turns.get(TURN)) or pytest.fail("no turn")

    await add(store, said("item_meanwhile"))
    replayed = list(await store.items.history(SESSION, first.started_sequence))
    await store.commit(ended(events=(said("item_output", TURN, 1),)))
    await store.commit(started("turn_2"))
    second = (await store.turns.get("turn_2")) or pytest.fail("no turn")

    assert replayed == ["item_before"]
    assert list(await store.items.history(SESSION, second.started_sequence)) == [
        "item_before",
        "item_input",
        "item_output",
        "item_meanwhile",
    ]


async def test_removal_while_a_turn_runs_is_seen_by_later_turns_alone(store: Store) -> None:
    """The running turn replays with what it started from."""
    await store.commit(new_session())
    await add(store, said("item_1"), said("item_2"))
    await store.commit(started())
    first = (await store.turns.get(TURN)) or pytest.fail("no turn")

    removed_at = await add(store, event(), withdrawn=("item_1",))

    assert list(await store.items.history(SESSION, first.started_sequence)) == ["item_1", "item_2"]
    assert list(await store.items.history(SESSION, removed_at)) == ["item_1", "item_2"]
    assert list(await store.items.history(SESSION, removed_at + 1)) == ["item_2"]


async def test_turn_that_starts_where_another_ends_sees_what_that_one_left(store: Store) -> None:
    """One batch: the last words of the first turn join, a withdrawn item leaves, and the next turn knows."""
    await running(store)
    await add(store, said("item_kept", TURN, 0), said("item_tripped", TURN, 1))

    await store.commit(
        Batch(
            session_id=SESSION,
            turn=turn_write(status=TurnStatus.COMPLETED, expected=1),
            next_turn=turn_write("turn_2", starts=True),
            events=(said("item_last", TURN, 2), event(TURN), event("turn_2"), said("item_next", "turn_2", 0)),
            withdrawn=("item_tripped",),
        )
    )

    second = (await store.turns.get("turn_2")) or pytest.fail("no turn")
    assert list(await store.items.history(SESSION, second.started_sequence)) == ["item_kept", "item_last"]
    assert await listed(store) == ["item_kept", "item_tripped", "item_last", "item_next"]


async def test_items_of_a_queued_turn_move_to_where_it_starts(store: Store) -> None:
    """They were recorded early, but the turn stands behind those that ran meanwhile."""
    await running(store)
    queued = turn_write("turn_2", TurnStatus.QUEUED)
    await store.commit(
        Batch(session_id=SESSION, turn=queued, events=(said("item_queued", "turn_2", 0, in_history=False),))
    )
    await store.commit(ended(events=(said("item_first", TURN, 0),)))

    await store.commit(
        Batch(
            session_id=SESSION,
            turn=turn_write("turn_2", expected=1, starts=True),
            events=(event("turn_2"), said("item_more", "turn_2", 1)),
        )
    )

    assert await listed(store) == ["item_first", "item_queued", "item_more"]
    assert dict(await store.items.texts("turn_2")) == {"item_queued": "item_queued", "item_more": "item_more"}


async def test_item_outside_the_history_is_in_the_log_alone(store: Store) -> None:
    """A rejected reply, or a turn that the caller remembers."""
    await running(store)

    await add(store, said("item_in", TURN, 0), said("item_out", TURN, 1, in_history=False))

    rows = await store.items.page(SESSION, EVERYTHING)
    assert [(row.item_id, row.in_history, row.added) for row in rows] == [
        ("item_in", True, 3),
        ("item_out", False, 0),
    ]
    assert list(await store.items.history(SESSION, 100)) == ["item_in"]


async def test_item_without_text_never_goes_to_the_model(store: Store) -> None:
    """It may be in the history by name, but it has nothing to say there."""
    await running(store)

    await add(store, said("item_silent", TURN, 0, json=""), said("item_loud", TURN, 1))

    assert list(await store.items.history(SESSION, 100)) == ["item_loud"]
    assert dict(await store.items.texts(TURN)) == {"item_silent": "", "item_loud": "item_loud"}


async def test_withdrawn_item_leaves_once_and_stays_in_the_log(store: Store) -> None:
    """With the first event of the batch; a second removal does not move it, nor does one that never joined."""
    await store.commit(new_session())
    await add(store, said("item_1"), said("item_2", in_history=False))

    first = await add(store, event(), event(), withdrawn=("item_1", "item_2", "item_unknown"))
    await add(store, event(), withdrawn=("item_1",))

    rows = await store.items.page(SESSION, EVERYTHING)
    assert [(row.item_id, row.in_history, row.withdrawn) for row in rows] == [
        ("item_1", False, first),
        ("item_2", False, 0),
    ]


async def test_item_that_its_own_batch_withdraws_is_in_no_history(store: Store) -> None:
    """It joins and leaves at its own event, the others at the first one: no turn, then or later, is told of it."""
    await running(store)
    await add(store, said("item_old", TURN, 0), said("item_kept", TURN, 1))

    done = await store.commit(
        Batch(
            session_id=SESSION,
            turn=turn_write(status=TurnStatus.COMPLETED, expected=1),
            next_turn=turn_write("turn_2", starts=True),
            events=(event(TURN), said("item_new", TURN, 2), said("item_last", TURN, 3), event("turn_2")),
            withdrawn=("item_new", "item_old"),
        )
    )

    first = done.events[0].sequence
    rows = {row.item_id: row for row in await store.items.page(SESSION, EVERYTHING)}
    assert {name: (row.added, row.withdrawn, row.in_history) for name, row in rows.items()} == {
        "item_old": (3, first, False),
        "item_kept": (4, 0, True),
        "item_new": (first + 1, first + 1, False),
        "item_last": (first + 2, 0, True),
    }
    histories = [await store.items.history(SESSION, before) for before in range(done.last_sequence + 2)]
    assert not [history for history in histories if "item_new" in history]
    second = (await store.turns.get("turn_2")) or pytest.fail("no turn")
    assert list(await store.items.history(SESSION, second.started_sequence)) == ["item_kept", "item_last"]
    assert [row.item_id for row in await store.items.newest_in_history(SESSION, None)] == ["item_last", "item_kept"]


async def test_item_outside_the_history_cannot_leave_it(store: Store) -> None:
    """Recorded and withdrawn by one batch: it is in the log, and joined nothing."""
    await store.commit(new_session())

    await add(store, event(), said("item_1", in_history=False), withdrawn=("item_1",))

    (row,) = await store.items.page(SESSION, EVERYTHING)
    assert (row.added, row.withdrawn, row.in_history) == (0, 0, False)


async def test_item_of_another_session_is_not_withdrawn(store: Store) -> None:
    """A batch touches its own session alone."""
    await store.commit(new_session())
    await add(store, said("item_1"))
    await store.commit(new_session("sess_2"))

    await store.commit(Batch(session_id="sess_2", events=(event(),), withdrawn=("item_1",)))

    assert list(await store.items.history(SESSION, 100)) == ["item_1"]


async def test_item_is_not_recorded_twice(store: Store) -> None:
    """A repeated id is a mistake of the writer: refused, with all of its batch."""
    await store.commit(new_session())
    await add(store, said("item_1"))

    with pytest.raises(ValueError, match="already"):
        await add(store, event(), said("item_1"))

    assert len(await store.events.after(SESSION, 0, 10)) == 2


async def test_texts_of_a_turn_are_its_own(store: Store) -> None:
    """Neither another turn's nor the session's."""
    await running(store)
    await add(store, said("item_1", TURN), said("item_session"))
    await store.commit(ended())
    await store.commit(started("turn_2", events=(said("item_2", "turn_2"),)))

    assert dict(await store.items.texts(TURN)) == {"item_1": "item_1"}
    assert dict(await store.items.texts("turn_2")) == {"item_2": "item_2"}
    assert dict(await store.items.texts("turn_unknown")) == {}


async def filled(store: Store) -> list[str]:
    """Make items of two turns and of none, some outside the history; lists them in order."""
    await store.commit(new_session())
    await add(store, said("item_a"), said("item_b", in_history=False))
    await store.commit(started(events=(said("item_d", TURN, 1), said("item_c", TURN, 0))))
    await store.commit(ended())
    await store.commit(started("turn_2", events=(said("item_e", "turn_2", 0),)))
    await add(store, said("item_f"), withdrawn=("item_c",))
    return ["item_a", "item_b", "item_c", "item_d", "item_e", "item_f"]


async def walked(store: Store, size: int, **filters: object) -> list[str]:
    """Walk all pages of a list of items."""
    seen: list[str] = []
    after = ""
    while page := await store.items.page(SESSION, Page(size=size, after=after), **filters):  # type: ignore[arg-type] # by name
        assert len(page) <= size
        seen += [row.item_id for row in page]
        after = seen[-1]
    return seen


@pytest.mark.parametrize("size", range(1, 8))
async def test_items_are_listed_both_ways_to_the_end(store: Store, size: int) -> None:
    """Pages of every size show each item once, with every filter."""
    order = await filled(store)
    in_history = ["item_a", "item_d", "item_e", "item_f"]

    assert await walked(store, size) == order
    assert await walked(store, size, newest_first=True) == order[::-1]
    assert await walked(store, size, history_only=True) == in_history
    assert await walked(store, size, history_only=True, newest_first=True) == in_history[::-1]
    assert await walked(store, size, turn_id=TURN) == ["item_c", "item_d"]
    assert await walked(store, size, turn_id=TURN, history_only=True) == ["item_d"]


async def test_nothing_is_listed_behind_an_unknown_item(store: Store) -> None:
    """A page token of a deleted session shows an empty page, not the first one."""
    await filled(store)

    assert await store.items.page(SESSION, Page(size=5, after="item_unknown")) == []


async def test_newest_of_the_history_come_newest_first(store: Store) -> None:
    """As many as asked for; None: all."""
    await filled(store)

    async def newest(limit: int | None) -> list[str]:
        return [row.item_id for row in await store.items.newest_in_history(SESSION, limit)]

    assert await newest(2) == ["item_f", "item_e"]
    assert await newest(None) == ["item_f", "item_e", "item_d", "item_a"]


async def test_items_are_read_by_id_in_the_order_asked_for(store: Store) -> None:
    """What is not there, or is another session's, is left out."""
    await filled(store)
    await store.commit(new_session("sess_2"))
    await store.commit(Batch(session_id="sess_2", events=(said("item_other"),)))

    rows = await store.items.by_ids(SESSION, ["item_e", "item_unknown", "item_a", "item_other"])

    assert [row.item_id for row in rows] == ["item_e", "item_a"]
    assert await store.items.by_ids(SESSION, []) == []
