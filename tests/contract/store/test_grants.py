"""Grants: what was decided for all later calls of a session."""

from __future__ import annotations

import pytest
from tests.contract.store.builders import SESSION, WallClock, event, grant, granted, new_session

from baton_server.ports.store import Batch, Conflict, ConflictKind, GrantRow, Store


async def test_grant_is_kept_whole_with_the_time_of_its_commit(store: Store, clock: WallClock) -> None:
    """What people wrote comes back letter by letter; the time is the store's."""
    await store.commit(new_session())
    row = GrantRow(
        session_id=SESSION,
        agent="Anna ☃",
        tool="pay",
        definition_digest="d",
        approve=False,
        message="never on a Friday \x00 𝄞",
        decided_by="Bo \x00 (finance)",
        created_at=1.0,
    )
    clock.time += 5

    await store.commit(granted(row))

    assert await store.sessions.grants(SESSION) == (
        GrantRow(
            session_id=SESSION,
            agent="Anna ☃",
            tool="pay",
            definition_digest="d",
            approve=False,
            message="never on a Friday \x00 𝄞",
            decided_by="Bo \x00 (finance)",
            created_at=clock.time,
        ),
    )


async def test_later_decision_replaces_the_one_before(store: Store, clock: WallClock) -> None:
    """All of it: verdict, function, who and when; in the same batch the last one stands."""
    await store.commit(new_session())
    await store.commit(granted(grant("pay", decided_by="Bo", message="no", approve=False)))
    clock.time += 5

    await store.commit(granted(grant("pay", definition_digest="d2"), grant("pay", definition_digest="d3")))

    (row,) = await store.sessions.grants(SESSION)
    assert row == grant("pay", definition_digest="d3", created_at=clock.time)


async def test_each_agent_and_each_tool_has_its_own(store: Store) -> None:
    """Allowing one function, or one agent, allows no other; they are listed by agent and tool."""
    await store.commit(new_session())

    await store.commit(granted(grant("pay", "B"), grant("read", "A", approve=False), grant("pay", "A")))

    found = [(row.agent, row.tool, row.approve) for row in await store.sessions.grants(SESSION)]
    assert found == [("A", "pay", True), ("A", "read", False), ("B", "pay", True)]


async def test_grants_are_of_one_session(store: Store) -> None:
    """Another conversation, of the same agent even, asks again; one without grants has none."""
    await store.commit(new_session())
    await store.commit(new_session("sess_2"))

    await store.commit(granted(grant("pay")))

    assert await store.sessions.grants("sess_2") == ()
    assert await store.sessions.grants("sess_unknown") == ()


async def test_grants_go_with_their_session(store: Store) -> None:
    """A session that is made again under the same id begins without them; others keep theirs."""
    await store.commit(new_session())
    await store.commit(new_session("sess_2"))
    await store.commit(granted(grant("pay")))
    await store.commit(granted(grant("pay", session_id="sess_2"), session_id="sess_2"))

    await store.commit(Batch(session_id=SESSION, session_deleted=True))
    await store.commit(new_session())

    assert await store.sessions.grants(SESSION) == ()
    assert len(await store.sessions.grants("sess_2")) == 1


async def test_grant_needs_its_session(store: Store) -> None:
    """A decision about a conversation that is gone is told so, and leaves nothing behind."""
    with pytest.raises(Conflict) as conflict:
        await store.commit(granted(grant("pay")))

    assert conflict.value.kind is ConflictKind.GONE
    assert await store.sessions.grants(SESSION) == ()


async def test_failed_batch_grants_nothing(store: Store) -> None:
    """Not even where it replaces something: the decision before holds."""
    await store.commit(new_session())
    await store.commit(granted(grant("pay", decided_by="Bo")))
    before = await store.sessions.grants(SESSION)

    batch = Batch(
        session_id=SESSION,
        grants=(grant("pay", approve=False), grant("read")),
        events=(event(),),
        agent_deleted="agent_unknown",
    )
    with pytest.raises(Conflict):
        await store.commit(batch)

    assert await store.sessions.grants(SESSION) == before
