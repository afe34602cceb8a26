"""Run: one call, one turn, whatever becomes of the connection meanwhile."""

import asyncio
import json

import grpc
import pytest
from tests.api.calling import (
    attach,
    events_in,
    everything,
    frame,
    frames,
    helper,
    kinds,
    refused,
    result_for,
    run_request,
    soon,
    streamed_request,
    text_of,
    told,
    until,
)
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import event_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')


async def test_a_text_gives_an_answer(serve: Serve) -> None:
    """An agent and a text are enough; the answer says how the turn stands, and the session keeps both."""
    served = await serve(say("Hello, ", "you."))

    answer = await served.client.run(text="hi", agent=helper(instructions="Greet."))

    assert answer.turn.status == event_pb2.TURN_STATUS_COMPLETED
    assert answer.turn.output == "Hello, you."
    assert (answer.turn.agent, answer.turn.last_agent, answer.turn.rounds) == ("Helper", "Helper", 1)
    assert answer.turn.max_turns == 10
    assert [text_of(item) for item in answer.new_items] == ["Hello, you."]
    assert (len(answer.required_actions), answer.items_left_out, answer.next_items_json) == (0, False, "")
    (usage,) = answer.round_usage
    assert (usage.round, usage.model, usage.response_id, usage.usage.total_tokens) == (1, "scripted", "resp_1", 10)
    assert answer.turn.usage == usage.usage == (await served.client.get(answer.session_id)).usage
    assert answer.turn == await served.client.turn(answer.session_id, answer.turn.turn_id)
    assert served.model.input_of(0) == [{"content": "hi", "role": "user"}]
    assert served.model.requests[0].instructions == "Greet."


async def test_the_events_of_a_turn_come_in_their_order(serve: Serve) -> None:
    """A turn with one call is told event by event, as gateways rely on."""
    served = await serve(calls(KYOTO), say("18 degrees."))
    client = served.client
    made = await client.session(agent=helper("get_weather"))
    first = await client.run(session_id=made.session_id, request_id="x")
    await client.submit(made.session_id, result_for(first.required_actions[0], output="18"))
    await client.run(session_id=made.session_id, request_id="x")

    events = await client.events(made.session_id)

    assert kinds(events) == [
        "session_created",
        *("session_in_progress", "turn_created", "turn_in_progress", "agent_changed", "item_added"),
        *("item_added", "round_completed", "session_requires_action"),
        *("item_added", "session_in_progress"),
        *("item_done", "round_completed", "turn_completed", "session_idle"),
    ]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert {event.session_id for event in events} == {made.session_id}
    assert {
        event.turn_id for event in events if event.WhichOneof("event") not in ("session_created", "session_idle")
    } == {first.turn.turn_id}
    assert [event.round for event in events] == [0] * 6 + [1] * 5 + [2] * 3 + [0]
    times = [event.created_at.ToNanoseconds() for event in events]
    assert times == sorted(times)


async def test_an_unserved_call_is_settled_from_outside(serve: Serve) -> None:
    """Run rests on a call that nobody serves; a result is put in, and the same Run waits for the answer."""
    served = await serve(calls(KYOTO), say("18 degrees in Kyoto."))
    client = served.client
    request = run_request(agent=helper("get_weather"), text="Weather?")

    first = await soon(client.runner.Run(request))
    (action,) = first.required_actions
    await client.submit(first.session_id, result_for(action, output="18"))
    second = await soon(client.runner.Run(request))

    assert first.turn.status == event_pb2.TURN_STATUS_WAITING
    assert (action.name, action.arguments_json, action.agent) == ("get_weather", '{"city":"Kyoto"}', "Helper")
    assert action.state == event_pb2.REQUIRED_ACTION_STATE_UNSERVED
    assert (action.kind, action.attempt) == (event_pb2.REQUIRED_ACTION_KIND_FUNCTION_CALL, 0)
    assert (action.session_id, action.turn_id) == (first.session_id, first.turn.turn_id)
    assert second.turn.turn_id == first.turn.turn_id
    assert second.turn.output == "18 degrees in Kyoto."
    assert [item.WhichOneof("item") for item in second.new_items] == [
        "function_call",
        "function_call_output",
        "message",
    ]
    assert served.model.input_of(1)[1:] == [
        {"type": "function_call", "call_id": "model_call_0_1", "name": "get_weather", "arguments": '{"city":"Kyoto"}'},
        {"call_id": "model_call_0_1", "output": "18", "type": "function_call_output"},
    ]


@pytest.mark.slow
async def test_a_run_waits_for_the_grace_of_what_is_unserved(serve: Serve) -> None:
    """Without a grace of its own a run gives workers 2 s to come before it rests."""
    client = (await serve(calls(KYOTO), say("late"))).client
    request = run_request(agent=helper("get_weather"), run_config={})
    began = asyncio.get_running_loop().time()

    answer = await soon(client.runner.Run(request))

    assert answer.turn.status == event_pb2.TURN_STATUS_WAITING
    assert asyncio.get_running_loop().time() - began >= 2.0


async def test_a_run_rests_once_only_unserved_calls_are_left(serve: Serve) -> None:
    """As long as one of two calls is with a worker the run waits; when that one is settled, it rests."""
    served = await serve(calls(KYOTO, ("other", '{"city":"Kyoto"}')), say("never"))
    client = served.client
    worker = await attach(client, "get_weather")
    running = asyncio.ensure_future(soon(client.runner.Run(run_request(agent=helper("get_weather", "other")))))
    call = (await soon(worker.read())).call

    assert not running.done()
    await worker.write(frame(result={"call_id": call.call_id, "attempt": 1, "output": "18"}))
    answer = await running

    assert [(a.name, a.state) for a in answer.required_actions] == [("other", event_pb2.REQUIRED_ACTION_STATE_UNSERVED)]


async def test_a_watch_rests_once_only_unserved_calls_are_left(serve: Serve) -> None:
    """Watch ends where Run ends, on the session and on the turn alike."""
    served = await serve(calls(KYOTO, ("other", '{"city":"Kyoto"}')), say("never"))
    client = served.client
    worker = await attach(client, "get_weather")
    made = await client.session(agent=helper("get_weather", "other"), run_config={"unserved_grace": {"seconds": 0}})
    turn_id = (await client.submit(made.session_id, "hi")).turn_id
    call = (await soon(worker.read())).call
    requests = [pb.WatchRequest(session_id=made.session_id, turn_id=given) for given in ("", turn_id)]
    watches = [client.sessions.Watch(request) for request in requests]
    for watch in watches:
        await until(watch, "session_requires_action")

    await worker.write(frame(result={"call_id": call.call_id, "attempt": 1, "output": "18"}))

    for watch in watches:
        assert kinds(events_in(await everything(watch))) == ["item_added"]


async def test_a_run_that_is_sent_again_attaches(serve: Serve) -> None:
    """Several callers of one request wait for one turn and get the same answer."""
    gate = Gate()
    served = await serve(say("one ", gate, "answer"))
    request = run_request()
    waiting = [asyncio.ensure_future(soon(served.client.runner.Run(request))) for _ in range(3)]
    await gate.reached()
    gate.open()

    answers = [await one for one in waiting]

    assert answers[0] == answers[1] == answers[2]
    assert len(served.model.requests) == 1


async def test_a_turn_goes_on_when_its_caller_goes_away(serve: Serve) -> None:
    """A broken connection ends no turn; whoever looks later finds the answer."""
    gate = Gate()
    served = await serve(say("still ", gate, "here"))
    made = await served.client.session()
    call = served.client.runner.Run(run_request(session_id=made.session_id))
    await gate.reached()
    call.cancel()
    gate.open()

    events = await served.client.rest(made.session_id)

    assert told(events, "turn_completed")[0].turn.output == "still here"


async def test_a_caller_may_ask_that_its_leaving_cancels(serve: Serve) -> None:
    """With cancel_on_disconnect the turn is cancelled when the caller goes away, and says so."""
    gate = Gate()
    served = await serve(say("half ", gate, "done"))
    made = await served.client.session()
    call = served.client.runner.Run(run_request(session_id=made.session_id, cancel_on_disconnect=True))
    await gate.reached()
    call.cancel()

    events = await served.client.rest(made.session_id)

    assert told(events, "cancel_requested")[0].reason == "the caller went away"
    assert kinds(events)[-2:] == ["turn_cancelled", "session_idle"]
    assert (await served.client.get(made.session_id)).status == pb.SESSION_STATUS_IDLE


async def test_a_run_queues_behind_the_turn_that_runs(serve: Serve) -> None:
    """Runs of one session are turns one after another, in the order in which they came."""
    gate = Gate()
    served = await serve(say(gate, "one"), say("two"), say("three"))
    client = served.client
    made = await client.session()
    first = asyncio.ensure_future(client.run(session_id=made.session_id, text="a"))
    await gate.reached()
    second = client.runner.RunStreamed(streamed_request(session_id=made.session_id, text="b"))
    await soon(second.read())
    await client.submit(made.session_id, "c", if_busy=pb.IF_BUSY_QUEUE)
    session = await client.get(made.session_id)
    gate.open()

    answers = [await first, (await everything(frames(second)))[-1].result]
    events = await client.rest(made.session_id)

    assert [answer.turn.output for answer in answers] == ["one", "two"]
    assert len(session.queued_turn_ids) == 2
    ended = [one.turn.turn_id for one in told(events, "turn_completed")]
    assert ended == [answers[0].turn.turn_id, *session.queued_turn_ids]
    assert kinds(events).count("session_idle") == 1
    assert [len(served.model.input_of(n)) for n in range(3)] == [1, 3, 5]


async def test_a_run_can_refuse_to_wait(serve: Serve) -> None:
    """With REJECT a busy session is told at once, with the turn that runs; nothing of the run stays."""
    gate = Gate()
    client = (await serve(say(gate, "one"))).client
    made = await client.session()
    turn_id = (await client.submit(made.session_id, "a")).turn_id
    await gate.reached()

    told_ = await refused(client.run(session_id=made.session_id, if_busy=pb.IF_BUSY_REJECT))

    assert (told_.code, told_.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_BUSY")
    assert told_.metadata == {"turn_id": turn_id}
    assert len((await client.sessions.ListTurns(pb.ListTurnsRequest(session_id=made.session_id))).turns) == 1


async def test_a_second_turn_remembers_the_first(serve: Serve) -> None:
    """With the session's history the model is asked with all that came before."""
    served = await serve(say("one"), say("two"))
    made = await served.client.session()
    await served.client.run(session_id=made.session_id, text="a")
    answer = await served.client.run(session_id=made.session_id, text="b", with_next_items=True)

    said = [(item["role"], item["content"]) for item in served.model.input_of(1)]
    assert [role for role, _ in said] == ["user", "assistant", "user"]
    assert (said[0][1], said[2][1]) == ("a", "b")
    assert len(json.loads(answer.next_items_json)) == 4
    assert [text_of(item) for item in answer.new_items] == ["two"]


async def test_a_callers_history_is_all_there_is(serve: Serve) -> None:
    """With history CALLER the model sees the given items alone, and the turn stays out of the history."""
    served = await serve(say("one"), say("two"), say("three"))
    client = served.client
    made = await client.session()
    await client.run(session_id=made.session_id, text="before")

    mine = await client.run(session_id=made.session_id, text="mine", run_config={"history": {"caller": {}}})
    items = json.loads(mine.next_items_json)
    following = json.dumps([*items, {"role": "user", "content": "more"}])
    await client.run(session_id=made.session_id, items_json=following, run_config={"history": {"caller": {}}})

    assert served.model.input_of(1) == [{"content": "mine", "role": "user"}]
    assert [item["role"] for item in items] == ["user", "assistant"]
    assert served.model.input_of(2) == json.loads(following)
    history = await client.items(made.session_id, history_only=True)
    assert [text_of(item) for item in history] == ["before", "one"]
    assert len(await client.items(made.session_id)) == 2 + 2 + 4


async def test_a_run_by_key_makes_its_session_on_demand(serve: Serve) -> None:
    """Two first runs with one key get one session, in which they are two turns."""
    served = await serve(lambda _: say("hello"))
    client = served.client

    one, two = await asyncio.gather(*(client.run(session_key="user-7") for _ in range(2)))
    session = (await client.sessions.GetSession(pb.GetSessionRequest(key="user-7"))).session

    assert one.session_id == two.session_id == session.session_id
    assert one.turn.turn_id != two.turn.turn_id
    assert not session.HasField("agent"), "the agent of a run is its own"
    assert not session.HasField("expires_at"), "who names a session means to come back"
