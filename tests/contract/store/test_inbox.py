"""The inbox of a turn: what reached it is there until it was fed, and no turn ends over it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.contract.store.builders import SESSION, TURN, ended, event, reached, running, turn_write

from baton_server.core.events import TurnStatus
from baton_server.ports.store import Batch, Conflict, ConflictKind, InboxRow, Store, Waiting


async def sources(store: Store, turn_id: str = TURN) -> list[str]:
    """List the sources that wait, in order."""
    return [row.source for row in await store.inbox.rows(turn_id)]


async def test_rows_wait_in_the_order_in_which_they_came(store: Store) -> None:
    """Each with a growing number, by which it is consumed."""
    await running(store)
    await store.commit(reached("b", data=b"\x00first"))
    await store.commit(reached("a", data=b"second"))

    rows = await store.inbox.rows(TURN)

    assert [(row.turn_id, row.source, row.data) for row in rows] == [
        (TURN, "b", b"\x00first"),
        (TURN, "a", b"second"),
    ]
    assert rows[0].n < rows[1].n
    assert await store.inbox.rows("turn_unknown") == []


async def test_source_that_waits_already_is_passed_over(store: Store) -> None:
    """A retried activity writes its row once; the first data stays, and the batch goes on."""
    await running(store)
    await store.commit(reached("a", data=b"first"))
    row = InboxRow(turn_id=TURN, source="a", data=b"second")

    await store.commit(Batch(session_id=SESSION, inbox_added=(row,), events=(event(),)))

    assert [row.data for row in await store.inbox.rows(TURN)] == [b"first"]
    assert len(await store.events.after(SESSION, 0, 10)) == 3


async def test_sources_of_two_turns_do_not_meet(store: Store) -> None:
    """A source is unique in its turn."""
    await running(store)
    await running(store, "turn_2", "sess_2")

    await store.commit(reached("a"))
    await store.commit(replace(reached("a", "turn_2"), session_id="sess_2"))

    assert (await sources(store), await sources(store, "turn_2")) == (["a"], ["a"])


async def test_turn_may_be_made_with_something_in_its_inbox(store: Store) -> None:
    """The turn of the same batch is there for its rows."""
    await running(store)

    await store.commit(
        Batch(
            session_id=SESSION,
            turn=turn_write("turn_2", TurnStatus.QUEUED),
            events=(event("turn_2"),),
            inbox_added=reached("a", "turn_2").inbox_added,
        )
    )

    assert await sources(store, "turn_2") == ["a"]


@pytest.mark.parametrize("turn_id", [TURN, "turn_unknown"])
async def test_nothing_enters_once_the_turn_has_ended(store: Store, turn_id: str) -> None:
    """Neither an ended turn nor one that is not there takes a row; the batch leaves nothing."""
    await running(store)
    await store.commit(ended())

    with pytest.raises(Conflict) as conflict:
        await store.commit(replace(reached("a", turn_id), events=(event(),)))

    assert conflict.value.kind is ConflictKind.ENDED
    assert await sources(store, turn_id) == []
    assert len(await store.events.after(SESSION, 0, 10)) == 3


async def test_nothing_enters_with_the_batch_that_ends_the_turn(store: Store) -> None:
    """Nobody would ever feed it."""
    await running(store)

    with pytest.raises(Conflict) as conflict:
        await store.commit(ended(inbox_added=reached("a").inbox_added))

    assert conflict.value.kind is ConflictKind.ENDED


async def test_consumed_are_exactly_the_rows_that_were_fed(store: Store) -> None:
    """What came in between, by number or by time, waits on; the commit tells how much."""
    await running(store)
    for source in ("a", "b", "c"):
        await store.commit(reached(source))
    rows = await store.inbox.rows(TURN)

    done = await store.commit(
        Batch(
            session_id=SESSION,
            turn=turn_write(expected=1),
            inbox_consumed=((TURN, rows[0].n), (TURN, rows[2].n)),
        )
    )

    assert await sources(store) == ["b"]
    assert done.inbox_left == 1


async def test_numbers_are_not_used_again(store: Store) -> None:
    """A driver that fed a row long ago cannot consume a newer one by its number."""
    await running(store)
    await store.commit(reached("a"))
    (first,) = await store.inbox.rows(TURN)
    await store.commit(Batch(session_id=SESSION, inbox_consumed=((TURN, first.n),)))
    await store.commit(reached("b"))
    (second,) = await store.inbox.rows(TURN)

    with pytest.raises(Conflict) as conflict:
        await store.commit(Batch(session_id=SESSION, inbox_consumed=((TURN, first.n),), events=(event(),)))

    assert second.n > first.n
    assert conflict.value.kind is ConflictKind.INBOX
    assert await sources(store) == ["b"]
    assert len(await store.events.after(SESSION, 0, 10)) == 2


async def test_turn_does_not_end_over_its_inbox(store: Store) -> None:
    """The driver is told to look again; nothing of its batch is written."""
    await running(store)
    await store.commit(reached("fed"))
    (fed,) = await store.inbox.rows(TURN)
    await store.commit(reached("unfed"))

    with pytest.raises(Conflict) as conflict:
        await store.commit(replace(ended(), inbox_consumed=((TURN, fed.n),)))

    assert conflict.value.kind is ConflictKind.INBOX
    assert await sources(store) == ["fed", "unfed"]
    turn = await store.turns.get(TURN)
    assert turn is not None
    assert (turn.status, turn.version) == (TurnStatus.IN_PROGRESS, 1)


async def test_turn_ends_with_all_of_its_inbox_fed(store: Store) -> None:
    """What is consumed in the same batch does not stand in its way."""
    await running(store)
    await store.commit(reached("fed"))
    (fed,) = await store.inbox.rows(TURN)

    done = await store.commit(replace(ended(), inbox_consumed=((TURN, fed.n),)))

    assert (done.inbox_left, done.turn_version) == (0, 2)
    assert await sources(store) == []


async def test_turn_goes_on_over_its_inbox_and_is_told_so(store: Store) -> None:
    """No driver needs to ask whether more has come."""
    await running(store)
    await store.commit(reached("a"))
    await store.commit(reached("b"))

    done = await store.commit(Batch(session_id=SESSION, turn=turn_write(expected=1)))

    assert done.inbox_left == 2


async def test_next_turns_inbox_is_its_own_matter(store: Store) -> None:
    """`inbox_left` counts the first turn's rows; a second turn that only queues keeps its own."""
    await running(store)

    done = await store.commit(
        ended(
            next_turn=turn_write("turn_2", TurnStatus.QUEUED),
            events=(event(TURN), event("turn_2")),
            inbox_added=reached("a", "turn_2").inbox_added,
        )
    )

    assert done.inbox_left == 0
    assert await sources(store, "turn_2") == ["a"]


async def test_input_and_end_of_a_turn_race_without_loss(store: Store) -> None:
    """Whoever comes second is refused: no row is left in the inbox of an ended turn."""
    for n in range(20):
        session_id, turn_id = f"sess_{n}", f"turn_{n}"
        await running(store, turn_id, session_id)
        late = replace(reached("late", turn_id), session_id=session_id)

        outcomes = await asyncio.gather(
            store.commit(late),
            store.commit(ended(turn_id, session_id=session_id)),
            return_exceptions=True,
        )

        refused = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        turn = await store.turns.get(turn_id)
        assert turn is not None
        assert len(refused) == 1
        over = turn.status is TurnStatus.COMPLETED
        assert await sources(store, turn_id) == ([] if over else ["late"])


async def test_rows_are_read_behind_the_last_one_that_is_known(store: Store) -> None:
    """Whoever has read some reads only what is new, also where some of the old ones are gone."""
    await running(store)
    await store.commit(reached("a"))
    await store.commit(reached("b"))
    a, b = await store.inbox.rows(TURN)
    await store.commit(Batch(session_id=SESSION, turn=turn_write(expected=1), inbox_consumed=((TURN, a.n),)))
    await store.commit(reached("c"))

    assert [row.source for row in await store.inbox.rows(TURN, b.n)] == ["c"]
    assert [row.source for row in await store.inbox.rows(TURN, a.n)] == ["b", "c"]


async def test_what_waits_is_counted(store: Store) -> None:
    """Rows and the bytes of their data, of this turn alone."""
    await running(store)
    assert await store.inbox.waiting(TURN) == Waiting(0, 0)
    await store.commit(reached("a", data=b"\x00four"))
    await store.commit(reached("b", data=b""))

    assert await store.inbox.waiting(TURN) == Waiting(2, 5)
    assert await store.inbox.waiting("turn_unknown") == Waiting(0, 0)
