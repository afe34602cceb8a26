"""Turns and what is open in them: read, listed, and found again by programs that hold no stream."""

from typing import Any

import grpc
from tests.api.calling import (
    Client,
    attach,
    helper,
    kinds,
    refused,
    result_for,
    run_request,
    soon,
)
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import event_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')
UNSERVED, LEASED, QUEUED = (
    event_pb2.REQUIRED_ACTION_STATE_UNSERVED,
    event_pb2.REQUIRED_ACTION_STATE_LEASED,
    event_pb2.REQUIRED_ACTION_STATE_QUEUED,
)


async def test_turns_are_listed_newest_first_to_the_end(serve: Serve) -> None:
    """Pages follow one another without a gap or a repeat, queued turns included."""
    gate = Gate()
    served = await serve(say("1"), say("2"), say(gate, "3"))
    client = served.client
    made = await client.session()
    for _ in range(2):
        await client.run(session_id=made.session_id)
    await client.submit(made.session_id, "a")
    await gate.reached()
    for _ in range(2):
        await client.submit(made.session_id, "b", if_busy=pb.IF_BUSY_QUEUE)

    turns: list[event_pb2.Turn] = []
    request = pb.ListTurnsRequest(session_id=made.session_id, page_size=2)
    while True:
        answer = await client.sessions.ListTurns(request)
        turns.extend(answer.turns)
        if not answer.next_page_token:
            break
        request.page_token = answer.next_page_token

    assert [turn.status for turn in turns] == [
        event_pb2.TURN_STATUS_QUEUED,
        event_pb2.TURN_STATUS_QUEUED,
        event_pb2.TURN_STATUS_IN_PROGRESS,
        event_pb2.TURN_STATUS_COMPLETED,
        event_pb2.TURN_STATUS_COMPLETED,
    ]
    assert turns == [await client.turn(made.session_id, turn.turn_id) for turn in turns]
    assert [turn.HasField("started_at") for turn in turns] == [False, False, True, True, True]
    assert [turn.HasField("ended_at") for turn in turns] == [False, False, False, True, True]
    assert all(turn.created_at.ToNanoseconds() > 0 for turn in turns)
    gate.open()


async def test_a_turn_is_read_with_what_it_pinned(serve: Serve) -> None:
    """The agent comes with the parameters that the handler gave, the options with the session's laid under."""
    served = await serve(calls(KYOTO))
    client = served.client
    await attach(client, "get_weather", credit=0)
    bare = {"name": "Helper", "tools": [{"function": {"name": "get_weather"}}]}
    made = await client.session(agent=bare, run_config={"max_turns": 3}, scopes=[""])
    running = client.runner.Run(_run(made.session_id))
    await served.model.asked(1)
    turn_id = (await client.get(made.session_id)).active_turn_id

    plain = await client.sessions.GetTurn(pb.GetTurnRequest(session_id=made.session_id, turn_id=turn_id))
    pinned = await client.sessions.GetTurn(
        pb.GetTurnRequest(session_id=made.session_id, turn_id=turn_id, with_pinned=True)
    )

    assert not plain.HasField("agent")
    assert not plain.HasField("run_config")
    function = pinned.agent.tools[0].function
    assert '"city"' in function.parameters_json
    assert function.strict
    assert (pinned.run_config.max_turns, pinned.run_config.model) == (3, "gpt-5")
    assert (plain.turn.max_turns, len(plain.turn.agent_digest), len(plain.turn.run_config_digest)) == (3, 64, 64)
    running.cancel()


async def test_a_turn_tells_what_is_open_in_it(serve: Serve) -> None:
    """Only this turn's calls, in call order, each with where it is now."""
    served = await serve(calls(KYOTO, ("other", '{"city":"Nara"}')))
    client = served.client
    made = await client.session(agent=helper("get_weather", "other"), run_config={"unserved_grace": {"seconds": 0}})
    turn_id = (await client.submit(made.session_id, "hi")).turn_id
    await client.rest(made.session_id)
    await attach(client, "other", credit=0)

    answer = await client.sessions.GetTurn(pb.GetTurnRequest(session_id=made.session_id, turn_id=turn_id))

    assert answer.turn.status == event_pb2.TURN_STATUS_WAITING
    assert [(action.name, action.state) for action in answer.required_actions] == [
        ("get_weather", UNSERVED),
        ("other", QUEUED),
    ]
    assert list(answer.required_actions) == list((await client.get(made.session_id)).required_actions)


async def test_a_turn_that_is_not_there_is_told(serve: Serve) -> None:
    """By an unknown id, and by one of another session."""
    served = await serve(say("one"))
    made, other = await served.client.session(), await served.client.run()

    for turn_id in ("turn_none", other.turn.turn_id):
        told = await refused(served.client.turn(made.session_id, turn_id))

        assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "TURN_NOT_FOUND")
        assert told.metadata == {"turn_id": turn_id}


async def test_what_is_open_anywhere_is_listed_oldest_first(serve: Serve) -> None:
    """Programs without a stream find every open call, by function, scope and state, page by page."""
    served = await serve(lambda asked: calls(KYOTO, ("other", '{"city":"Nara"}')) if asked.round == 1 else say("ok"))
    client = served.client
    sessions = []
    for scope in ("svc-1", "svc-2", "svc-1"):
        made = await client.session(
            agent=helper("get_weather", "other"), scopes=[scope], run_config={"unserved_grace": {"seconds": 0}}
        )
        await client.submit(made.session_id, "hi")
        await client.rest(made.session_id)
        sessions.append(made.session_id)
    worker = await attach(client, "other", scopes=["svc-2"], credit=0)
    holder = await attach(client, "get_weather", scopes=["svc-2"], credit=1)
    call = (await soon(holder.read())).call

    async def found(page_size: int = 1, **filters: Any) -> list[tuple[int, str]]:
        actions = await _open(client, page_size=page_size, **filters)
        return [(sessions.index(action.session_id), action.name) for action in actions]

    everything = [(n, name) for n in range(3) for name in ("get_weather", "other")]
    assert await found() == everything
    assert await found(page_size=0) == everything
    assert await found(names=["other"]) == [(0, "other"), (1, "other"), (2, "other")]
    assert await found(scopes=["svc-2"]) == [(1, "get_weather"), (1, "other")]
    assert await found(names=["other"], scopes=["svc-1"]) == [(0, "other"), (2, "other")]
    assert await found(scopes=[""]) == everything, "every turn looks into the empty scope"
    assert await found(states=[UNSERVED]) == [everything[0], everything[1], everything[4], everything[5]]
    assert await found(states=[LEASED]) == [(1, "get_weather")]
    assert await found(states=[QUEUED]) == [(1, "other")]
    assert await found(states=[QUEUED, LEASED], page_size=100) == [(1, "get_weather"), (1, "other")]
    (leased,) = await _open(client, states=[LEASED])
    assert leased.call_id == call.call_id
    assert (leased.attempt, leased.lease.acked) == (1, False)
    assert leased.lease.until.seconds > leased.created_at.seconds

    first = (await _open(client))[0]
    await client.submit(first.session_id, result_for(first, output="18"))
    assert await found() == everything[1:]
    worker.cancel()


async def test_an_open_call_is_found_after_a_restart(serve: Serve) -> None:
    """What is open is in the store: another process tells it as the first one did, and takes its result."""
    served = await serve(calls(KYOTO))
    made = await served.client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    await served.client.submit(made.session_id, "hi")
    await served.client.rest(made.session_id)
    before = await served.client.get(made.session_id)

    served = await serve(say("18 degrees"))
    after = await served.client.get(made.session_id)
    await served.client.submit(made.session_id, result_for(after.required_actions[0], output="18"))
    events = await served.client.rest(made.session_id)

    assert after == before
    assert kinds(events)[-2:] == ["turn_completed", "session_idle"]
    assert [item.get("output", item.get("content")) for item in served.model.input_of(0)][::2] == ["hi", "18"]


async def _open(client: Client, **fields: Any) -> list[event_pb2.RequiredAction]:
    found: list[event_pb2.RequiredAction] = []
    request = pb.ListRequiredActionsRequest(**fields)
    while True:
        answer = await soon(client.sessions.ListRequiredActions(request))
        found.extend(answer.required_actions)
        if not answer.next_page_token:
            return found
        request.page_token = answer.next_page_token


def _run(session_id: str) -> Any:
    return run_request(session_id=session_id, run_config={"model": "gpt-5"})
