"""Sessions: made, found, listed, changed, removed, and gone when their life is over."""

import asyncio

import grpc
import pytest
from tests.api.calling import Client, everything, frames, fresh, helper, kinds, refused, soon, sweeper_at, told, until
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import agent_pb2
from baton.v1 import session_pb2 as pb


async def test_a_session_is_read_by_id_and_by_key(serve: Serve) -> None:
    """What was given at the start is what a caller finds later, by either name."""
    client = (await serve()).client
    made = await client.session(
        key="user-7",
        agent=helper("get_weather", instructions="Help."),
        run_config={"max_turns": 3},
        scopes=["svc-7", ""],
        metadata={"team": "a"},
        expires_after={"seconds": 3600},
    )

    by_id = await client.get(made.session_id)
    by_key = await client.sessions.GetSession(pb.GetSessionRequest(key="user-7"))

    assert by_id == by_key.session == made
    assert made.session_id.startswith("sess_")
    assert made.status == pb.SESSION_STATUS_IDLE
    assert made.agent.agent == helper("get_weather", instructions="Help.")
    assert (made.agent.agent_id, made.agent.revision, len(made.agent.digest)) == ("", 0, 64)
    assert made.run_config.max_turns == 3
    assert list(made.scopes) == ["svc-7", ""]
    assert dict(made.metadata) == {"team": "a"}
    assert made.expires_at.seconds - made.last_active_at.seconds == 3600
    assert made.last_sequence == 1


async def test_the_log_begins_with_the_session(serve: Serve) -> None:
    """The first event of every log says what the session was made with."""
    client = (await serve()).client
    made = await client.session(key="user-7", metadata={"team": "a"})

    events = await client.events(made.session_id)

    assert kinds(events) == ["session_created"]
    (created,) = told(events, "session_created")
    assert (created.key, created.agent_digest, dict(created.metadata)) == (
        "user-7",
        made.agent.digest,
        {"team": "a"},
    )


async def test_a_key_is_unique(serve: Serve) -> None:
    """A second session with the key is refused, and the refusal names the one that has it."""
    client = (await serve()).client
    first = await client.session(key="user-7")

    told_ = await refused(client.session(key="user-7"))

    assert (told_.code, told_.reason) == (grpc.StatusCode.ALREADY_EXISTS, "SESSION_KEY_TAKEN")
    assert told_.metadata == {"key": "user-7", "session_id": first.session_id}


async def test_first_writers_of_a_key_get_one_session(serve: Serve) -> None:
    """Any number of first writers at once get one session, and one of them made it."""
    client = (await serve()).client

    answers = await asyncio.gather(
        *(
            client.sessions.CreateSession(
                pb.CreateSessionRequest(request_id=fresh(), key="user-7", get_or_create=True, metadata={"by": str(n)})
            )
            for n in range(8)
        )
    )

    assert len({answer.session.session_id for answer in answers}) == 1
    assert [answer.created for answer in answers].count(True) == 1
    assert len({answer.session.metadata["by"] for answer in answers}) == 1, "the others left it unchanged"


async def test_sessions_are_listed_newest_first_to_the_end(serve: Serve) -> None:
    """Pages follow one another without a gap or a repeat, and the last one has no token."""
    client = (await serve()).client
    made = [(await client.session(key=f"user-{n}")).session_id for n in range(7)]

    pages = await _pages(client, pb.ListSessionsRequest(page_size=3))

    assert [len(page) for page in pages] == [3, 3, 1]
    listed = [session for page in pages for session in page]
    assert [session.session_id for session in listed] == made[::-1]
    assert not any(session.HasField("agent") or session.HasField("run_config") for session in listed)


async def test_sessions_are_listed_by_label_and_status(serve: Serve) -> None:
    """A session is listed if it has all of the labels and one of the statuses."""
    served = await serve(calls(("get_weather", '{"city":"Kyoto"}')))
    client = served.client
    labels = [{"team": "a", "tier": "1"}, {"team": "a", "tier": "2"}, {"team": "b", "tier": "1"}, {}]
    made = [(await client.session(metadata=given, agent=helper("get_weather"))).session_id for given in labels]
    await client.run(session_id=made[1])

    async def found(**filters: object) -> list[str]:
        pages = await _pages(client, pb.ListSessionsRequest(page_size=1, **filters))
        return [session.session_id for page in pages for session in page]

    assert await found(metadata={"team": "a"}) == [made[1], made[0]]
    assert await found(metadata={"team": "a", "tier": "1"}) == [made[0]]
    assert await found(metadata={"team": "c"}) == []
    assert await found(statuses=["SESSION_STATUS_REQUIRES_ACTION"]) == [made[1]]
    assert await found(statuses=[pb.SESSION_STATUS_IDLE], metadata={"team": "a"}) == [made[0]]
    assert await found(statuses=[1, 3]) == made[::-1]


async def test_an_update_changes_what_its_mask_names(serve: Serve) -> None:
    """Named paths take their new values, and an event tells watchers which."""
    client = (await serve()).client
    made = await client.session(scopes=["svc-7"], metadata={"team": "a"}, run_config={"max_turns": 3})
    request = pb.UpdateSessionRequest(
        request_id=fresh(), session_id=made.session_id, agent=helper(model="gpt-5"), metadata={"team": "b"}
    )
    request.update_mask.paths.extend(["agent", "metadata"])

    answer = await client.sessions.UpdateSession(request)

    assert answer.session.agent.agent.model == "gpt-5"
    assert dict(answer.session.metadata) == {"team": "b"}
    assert (list(answer.session.scopes), answer.session.run_config.max_turns) == (["svc-7"], 3)
    (updated,) = told(await client.events(made.session_id), "session_updated")
    assert list(updated.paths) == ["agent", "metadata"]
    assert updated.agent_digest == answer.session.agent.digest != made.agent.digest


async def test_a_path_that_is_named_and_absent_is_cleared(serve: Serve) -> None:
    """An update can take every default away."""
    client = (await serve()).client
    made = await client.session(
        scopes=["svc-7"], metadata={"team": "a"}, run_config={"max_turns": 3}, expires_after={"seconds": 60}
    )
    request = pb.UpdateSessionRequest(request_id=fresh(), session_id=made.session_id)
    request.update_mask.paths.extend(["agent", "run_config", "scopes", "metadata", "expires_after"])

    session = (await client.sessions.UpdateSession(request)).session

    assert not any(session.HasField(name) for name in ("agent", "run_config", "expires_at"))
    assert (list(session.scopes), dict(session.metadata)) == ([], {})
    assert (await refused(client.submit(made.session_id, "hello"))).reason == "AGENT_MISSING"


async def test_an_update_takes_a_kept_agent_as_it_is_now(serve: Serve) -> None:
    """A kept agent is pinned by the update; a later revision of it changes nothing here."""
    client = (await serve()).client
    from_agents = await _kept(client, "v1")
    made = await client.session()
    request = pb.UpdateSessionRequest(request_id=fresh(), session_id=made.session_id)
    request.agent_ref.agent_id = from_agents
    request.update_mask.paths.append("agent")
    await client.sessions.UpdateSession(request)
    await _revise(client, from_agents, "v2")

    session = await client.get(made.session_id)

    assert (session.agent.agent_id, session.agent.revision) == (from_agents, 1)
    assert session.agent.agent.instructions == "v1"


async def test_a_running_turn_keeps_the_defaults_that_it_began_with(serve: Serve) -> None:
    """An update while a turn runs is seen by the next turn alone."""
    gate = Gate()
    served = await serve(say(gate, "one"), say("two"))
    client, made = served.client, await served.client.session(agent=helper(instructions="old"))
    await client.submit(made.session_id, "a")
    await gate.reached()
    request = pb.UpdateSessionRequest(request_id=fresh(), session_id=made.session_id, agent=helper(instructions="new"))
    request.update_mask.paths.append("agent")
    await client.sessions.UpdateSession(request)
    gate.open()
    await client.rest(made.session_id)
    await client.submit(made.session_id, "b")
    await client.rest(made.session_id)

    assert [asked.instructions for asked in served.model.requests] == ["old", "new"]


async def test_a_session_is_not_deleted_under_a_turn(serve: Serve) -> None:
    """While a turn runs the delete is refused; once it was cancelled, the session goes with all it held."""
    gate = Gate()
    client = (await serve(say(gate, "never"))).client
    made = await client.session()
    turn_id = (await client.submit(made.session_id, "hello")).turn_id
    await gate.reached()

    told_ = await refused(_delete(client, made.session_id))
    assert (told_.code, told_.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TURN_RUNNING")
    assert told_.metadata == {"turn_id": turn_id}

    await client.cancel(made.session_id, turn_id)
    await client.rest(made.session_id)
    await _delete(client, made.session_id)
    assert (await refused(client.get(made.session_id))).reason == "SESSION_NOT_FOUND"
    assert (await refused(client.events(made.session_id))).reason == "SESSION_NOT_FOUND"
    assert (await refused(client.submit(made.session_id, "hello"))).reason == "SESSION_NOT_FOUND"


async def test_watchers_of_a_deleted_session_are_told(serve: Serve) -> None:
    """A stream that would go on for ever ends with the reason at once."""
    client = (await serve()).client
    made = await client.session()
    watching = client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER))
    await until(watching, "session_created")
    conversing = client.sessions.Converse()
    await conversing.write(pb.ConverseRequest(watch=pb.WatchRequest(session_id=made.session_id)))
    await soon(conversing.read())

    await _delete(client, made.session_id)

    assert (await refused(everything(watching))).reason == "SESSION_NOT_FOUND"
    assert (await refused(everything(frames(conversing)))).reason == "SESSION_NOT_FOUND"


async def test_the_session_of_a_run_ends_with_its_life(serve: Serve) -> None:
    """A session made for a run is removed a day after its last event, others stay."""
    served = await serve(say("one"), say("two"))
    client = served.client
    run = await client.run(text="hi")
    short = await client.run(text="hi", expires_after={"seconds": 60}, metadata={"team": "a"})
    kept = await client.session()
    seen = [await client.get(answer.session_id) for answer in (run, short)]
    watching = client.sessions.Watch(pb.WatchRequest(session_id=short.session_id, follow=pb.FOLLOW_FOREVER))
    await until(watching, "session_idle")

    assert [s.expires_at.seconds - s.last_active_at.seconds for s in seen] == [24 * 3600, 60]
    assert dict(seen[1].metadata) == {"team": "a"}
    for later, left in ((59.0, 3), (61.0, 2), (24 * 3600 + 1.0, 1)):
        await sweeper_at(served.baton, later).sweep()
        listed = (await client.sessions.ListSessions(pb.ListSessionsRequest())).sessions
        assert len(listed) == left, later
    assert listed[0].session_id == kept.session_id
    assert (await refused(everything(watching))).reason == "SESSION_NOT_FOUND"


async def test_a_session_does_not_expire_under_a_turn(serve: Serve) -> None:
    """While a turn runs or waits the session stays, however long; its life is counted from its last event."""
    gate = Gate()
    served = await serve(calls(("get_weather", '{"city":"Kyoto"}')), say(gate, "hello"))
    client = served.client
    waiting = await client.run(agent=helper("get_weather"))
    made = await client.session(expires_after={"seconds": 60})
    turn_id = (await client.submit(made.session_id, "hi")).turn_id
    await gate.reached()

    await sweeper_at(served.baton, 10 * 24 * 3600.0).sweep()
    found = [(await client.get(session_id)).active_turn_id for session_id in (waiting.session_id, made.session_id)]
    gate.open()
    await client.rest(made.session_id)
    await sweeper_at(served.baton, 61.0).sweep()

    assert found == [waiting.turn.turn_id, turn_id]
    assert (await refused(client.get(made.session_id))).reason == "SESSION_NOT_FOUND"
    assert (await client.get(waiting.session_id)).active_turn_id == waiting.turn.turn_id


@pytest.mark.parametrize("which", [{"session_id": "sess_none"}, {"key": "nobody"}])
async def test_a_session_that_is_not_there_is_told(serve: Serve, which: dict[str, str]) -> None:
    """By id and by key alike, a caller learns that there is none."""
    client = (await serve()).client

    told_ = await refused(client.sessions.GetSession(pb.GetSessionRequest(**which)))

    assert (told_.code, told_.reason) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")


async def _pages(client: Client, request: pb.ListSessionsRequest) -> list[list[pb.Session]]:
    pages = []
    while True:
        answer = await soon(client.sessions.ListSessions(request))
        pages.append(list(answer.sessions))
        if not answer.next_page_token:
            return pages
        request.page_token = answer.next_page_token


async def _delete(client: Client, session_id: str) -> None:
    await client.sessions.DeleteSession(pb.DeleteSessionRequest(request_id=fresh(), session_id=session_id))


async def _kept(client: Client, words: str) -> str:
    request = agent_pb2.CreateAgentRequest(request_id=fresh(), agent=helper(instructions=words))
    return (await client.agents.CreateAgent(request)).revision.agent_id


async def _revise(client: Client, agent_id: str, words: str) -> None:
    request = agent_pb2.UpdateAgentRequest(request_id=fresh(), agent_id=agent_id, agent=helper(instructions=words))
    await client.agents.UpdateAgent(request)


async def test_changes_at_once_with_a_turns_end_are_all_kept(serve: Serve) -> None:
    """A turn that ends while its session is being changed ends once, and no change is lost."""
    gate = Gate()
    served = await serve(say("one ", gate, "two"))
    client, made = served.client, await served.client.session()
    await client.submit(made.session_id, "hi")
    await gate.reached()

    async def change(number: int) -> None:
        request = pb.UpdateSessionRequest(request_id=fresh(), session_id=made.session_id, metadata={"n": str(number)})
        request.update_mask.paths.append("metadata")
        await soon(client.sessions.UpdateSession(request))

    changes = [asyncio.ensure_future(change(number)) for number in range(20)]
    gate.open()
    await asyncio.gather(*changes)
    events = await client.rest(made.session_id)

    assert kinds(events).count("session_updated") == 20
    assert [kind for kind in kinds(events) if kind in ("turn_completed", "session_idle")] == [
        "turn_completed",
        "session_idle",
    ]
    assert (await client.get(made.session_id)).usage.requests == 1
