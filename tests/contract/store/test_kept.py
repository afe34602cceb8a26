"""What is kept beside sessions: agents by revision, documents and contents by digest, timers by name."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from tests.contract.store.builders import SESSION, TURN, WallClock, call, new_session, opened, running, said

from baton_server.ports.store import AgentRow, Batch, Conflict, ConflictKind, Page, Store, TimerRow


def agent(agent_id: str, revision: int = 1, **fields: object) -> Batch:
    """A batch that keeps a revision of an agent."""
    row = AgentRow(agent_id=agent_id, revision=revision, digest=f"{agent_id}@{revision}")
    return Batch(agent=replace(row, **fields))  # type: ignore[arg-type] # by name


async def test_agents_are_read_by_revision_or_as_the_newest(store: Store, clock: WallClock) -> None:
    """Each revision stays as it was written."""
    await store.commit(agent("agent_1", metadata={"a": "1"}, created_at=5.0))
    await store.commit(agent("agent_1", 2))

    assert await store.agents.get("agent_1", 1) == AgentRow(
        agent_id="agent_1",
        revision=1,
        digest="agent_1@1",
        metadata={"a": "1"},
        created_at=clock.time,
    )
    newest = await store.agents.get("agent_1")
    assert newest is not None
    assert newest.revision == 2
    assert await store.agents.get("agent_1", 3) is None
    assert await store.agents.get("agent_unknown") is None


@pytest.mark.parametrize(
    ("agent_id", "revision", "kind"),
    [
        ("agent_1", 1, ConflictKind.VERSION),
        ("agent_1", 2, ConflictKind.VERSION),
        ("agent_1", 4, ConflictKind.VERSION),
        ("agent_2", 2, ConflictKind.GONE),
    ],
)
async def test_revision_follows_the_newest(store: Store, agent_id: str, revision: int, kind: ConflictKind) -> None:
    """A writer that missed one is refused, and so is one whose agent is gone."""
    await store.commit(agent("agent_1"))
    await store.commit(agent("agent_1", 2))

    with pytest.raises(Conflict) as conflict:
        await store.commit(replace(agent(agent_id, revision, metadata={"x": "y"}), documents={"d": b""}))

    assert conflict.value.kind is kind
    assert await store.documents.document("d") is None
    kept = await store.agents.revisions("agent_1", Page(size=9))
    assert [(row.revision, row.metadata) for row in kept] == [(2, {}), (1, {})]


async def test_deleted_agent_is_gone_with_all_revisions(store: Store) -> None:
    """Its documents stay for the turns that pinned them; a second deletion finds nothing."""
    await store.commit(replace(agent("agent_1"), documents={"agent_1@1": b"agent"}))
    await store.commit(agent("agent_1", 2))

    await store.commit(Batch(agent_deleted="agent_1"))

    assert await store.agents.get("agent_1") is None
    assert await store.agents.revisions("agent_1", Page(size=9)) == []
    assert await store.agents.newest(Page(size=9)) == []
    assert await store.documents.document("agent_1@1") == b"agent"
    with pytest.raises(Conflict) as conflict:
        await store.commit(Batch(agent_deleted="agent_1"))
    assert conflict.value.kind is ConflictKind.GONE


@pytest.mark.parametrize("size", range(1, 6))
async def test_agents_and_revisions_are_listed_newest_first_to_the_end(store: Store, size: int) -> None:
    """Pages of every size show each agent, and each revision of one, once."""
    for n in (2, 1, 4, 3):
        await store.commit(agent(f"agent_{n}"))
    for revision in range(2, 13):
        await store.commit(agent("agent_2", revision))

    agents: list[tuple[str, int]] = []
    while page := await store.agents.newest(Page(size=size, after=agents[-1][0] if agents else "")):
        assert len(page) <= size
        agents += [(row.agent_id, row.revision) for row in page]
    revisions: list[int] = []
    while page := await store.agents.revisions(
        "agent_2", Page(size=size, after=str(revisions[-1]) if revisions else "")
    ):
        assert len(page) <= size
        revisions += [row.revision for row in page]

    assert agents == [("agent_4", 1), ("agent_3", 1), ("agent_2", 12), ("agent_1", 1)]
    assert revisions == list(range(12, 0, -1))


async def test_document_that_is_there_stays(store: Store) -> None:
    """A digest names one document for ever."""
    await store.commit(Batch(documents={"d": b"first", "e": b""}))
    await store.commit(Batch(documents={"d": b"second"}))

    assert await store.documents.document("d") == b"first"
    assert await store.documents.document("e") == b""
    assert await store.documents.document("unknown") is None


async def test_contents_belong_to_their_session(store: Store) -> None:
    """The same digest in two sessions is two contents; one that is there stays."""
    await store.commit(new_session("sess_1"))
    await store.commit(new_session("sess_2"))
    await store.commit(Batch(session_id="sess_1", contents={"d": b"one"}))
    await store.commit(Batch(session_id="sess_1", contents={"d": b"other"}))
    await store.commit(Batch(session_id="sess_2", contents={"d": b"two"}))

    assert await store.documents.content("sess_1", "d") == b"one"
    assert await store.documents.content("sess_2", "d") == b"two"
    assert await store.documents.content("sess_1", "unknown") is None
    assert await store.documents.document("d") is None


async def test_largest_texts_are_kept_to_the_byte(store: Store) -> None:
    """4 MiB, with NUL, with what lies beyond the basic plane, with every byte there is."""
    await running(store)
    text = ("\x00𝄞é\\u0000" * 400_000)[: 4 * 1024 * 1024 // 4]
    data = (bytes(range(256)) * 16384)[: 4 * 1024 * 1024]
    digest = hashlib.sha256(data).hexdigest()

    await store.commit(
        Batch(
            session_id=SESSION,
            events=(said("item_1", TURN, json=text, data=data),),
            contents={digest: data},
            calls_opened=(call("call_1", arguments=text),),
        )
    )

    (row,) = await store.items.page(SESSION, Page(size=1))
    kept = await store.calls.get("call_1")
    assert kept is not None
    assert (row.json, row.data, kept.arguments) == (text, data, text)
    assert list(await store.items.history(SESSION, 100)) == [text]
    assert await store.documents.content(SESSION, digest) == data


async def test_timers_are_listed_soonest_first(store: Store) -> None:
    """Each by its turn and name; one that is set again has its new time."""
    await running(store)
    await store.commit(
        Batch(
            session_id=SESSION,
            timers_set=(
                TimerRow(turn_id=TURN, name="b", at=2.5),
                TimerRow(turn_id=TURN, name="a", at=2.5),
                TimerRow(turn_id=TURN, name="c", at=9.0),
            ),
        )
    )

    await store.commit(Batch(session_id=SESSION, timers_set=(TimerRow(turn_id=TURN, name="c", at=1.0),)))

    assert [(row.name, row.at) for row in await store.timers.all()] == [("c", 1.0), ("a", 2.5), ("b", 2.5)]


async def test_cleared_timer_is_gone_unless_the_batch_sets_it(store: Store) -> None:
    """Clearing what is not set is no mistake."""
    await running(store)
    timers = tuple(TimerRow(turn_id=TURN, name=name, at=1.0) for name in ("a", "b"))
    await store.commit(Batch(session_id=SESSION, timers_set=timers))

    await store.commit(
        Batch(
            session_id=SESSION,
            timers_cleared=((TURN, "a"), (TURN, "b"), (TURN, "never")),
            timers_set=(TimerRow(turn_id=TURN, name="b", at=2.0),),
        )
    )

    assert await store.timers.all() == [TimerRow(turn_id=TURN, name="b", at=2.0)]


async def test_calls_of_unusual_names_are_found(store: Store) -> None:
    """Names and scopes are any text."""
    await running(store)
    odd = "a\"b\\c'd é𝄞\n"

    await store.commit(opened(call("call_1", odd, (odd,))))

    (row,) = await store.calls.open_everywhere(Page(size=9), [odd], [odd])
    assert (row.name, row.scopes) == (odd, (odd,))
