"""A worker says who it is, and is told what holds between the two."""

import asyncio
from typing import Any

import grpc
import pytest
from tests.support.scripted_worker import held
from tests.support.stage import Stage

from baton.v1 import error_pb2, event_pb2, handler_pb2, session_pb2

CITY = '{"type": "object", "properties": {"city": {"type": "string"}, "days": {"maximum": 1.0}}}'
SAME_CITY = '{"properties":{"days":{"maximum":1},"city":{"type":"string"}},"type":"object"}'
OTHER_CITY = '{"properties":{"days":{"maximum":2},"city":{"type":"string"}},"type":"object"}'


async def attach_with(stage: Stage, parameters_json: str, **hello: Any) -> handler_pb2.HandlerVerdict:
    """Attach a worker that serves f with these parameters; returns what is said about it."""
    handlers = [{"name": "f", "parameters_json": parameters_json}]
    worker = await stage.worker(handlers=handlers, **hello)
    (verdict,) = worker.welcome.handlers
    return verdict


# -- Welcome -------------------------------------------------------------------------------------


async def test_welcome_tells_limits_and_clocks(empty_stage: Stage) -> None:
    """All that a library needs to know about the server is in the first frame that it gets."""
    await empty_stage.start(lease_s=31.5, heartbeat_s=11.0, registration_grace_s=12.0)

    welcome = (await empty_stage.worker("f", "g")).welcome

    assert welcome.protocol_version == 1
    assert welcome.server_version
    assert welcome.lease.ToTimedelta().total_seconds() == 31.5
    assert welcome.heartbeat_interval.ToTimedelta().total_seconds() == 11.0
    assert welcome.registration_grace.ToTimedelta().total_seconds() == 12.0
    assert welcome.max_message_bytes == 16 * 1024 * 1024
    assert welcome.max_result_bytes == 4_194_304
    assert [(verdict.name, verdict.HasField("error")) for verdict in welcome.handlers] == [("f", False), ("g", False)]


async def test_every_instance_gets_a_worker_id_of_its_own(stage: Stage) -> None:
    """Two processes that say no instance_id are two workers."""
    first, second = await stage.worker("f"), await stage.worker("f")

    assert first.welcome.worker_id.startswith("worker_")
    assert first.welcome.worker_id != second.welcome.worker_id


async def test_a_name_is_enough(stage: Stage) -> None:
    """A worker that says nothing but the name of its handler is taken, and gets no calls without credit."""
    worker = stage.stream()
    await worker.send(hello={"handlers": [{"name": "f"}]})
    await worker.expect("welcome")

    turn = await stage.call("f")
    await turn.waiting()

    await worker.nothing()
    assert await turn.state() == "QUEUED"


# -- no Hello ------------------------------------------------------------------------------------


async def test_a_first_frame_that_is_no_hello_ends_the_stream(stage: Stage) -> None:
    """The server names the frame that came instead."""
    worker = stage.stream()
    await worker.send(credit={"messages": 1})

    ending = await worker.ended()

    assert (ending.code, ending.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "HELLO_EXPECTED")
    assert ending.metadata == {"frame": "credit"}


async def test_a_first_frame_that_cannot_be_read_ends_the_stream(stage: Stage) -> None:
    """Whoever speaks another protocol by mistake learns it at once."""
    worker = stage.stream()
    await worker.send_bytes(b"GET / HTTP/1.1")

    ending = await worker.ended()

    assert (ending.code, ending.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "HELLO_EXPECTED")
    assert "cannot be read" in ending.message


async def test_a_stream_that_says_nothing_is_ended(empty_stage: Stage) -> None:
    """Half-open connections do not pile up."""
    await empty_stage.start(hello_timeout_s=0.01)

    ending = await empty_stage.stream().ended()

    assert (ending.code, ending.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "HELLO_EXPECTED")
    assert "within 0.01 s" in ending.message


async def test_a_stream_that_leaves_before_its_hello_leaves_nothing_behind(stage: Stage) -> None:
    """A peer that goes at once is no error of anybody."""
    worker = stage.stream()
    await worker.half_close()

    assert (await worker.ended()).reason == "HELLO_EXPECTED"


# -- a wrong Hello -------------------------------------------------------------------------------


async def test_another_protocol_version_is_refused(stage: Stage) -> None:
    """A library that is too new is told which version there is."""
    worker = stage.stream()
    await worker.send(hello={"protocol_version": 9})

    ending = await worker.ended()

    assert (ending.code, ending.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PROTOCOL_VERSION")
    assert ending.metadata == {"version": "9", "supported": "1"}


async def test_a_hello_with_wrong_fields_is_refused_with_their_names(stage: Stage) -> None:
    """Nothing can go on without a Hello, so what is wrong with it is the caller's status, all of it at once."""
    worker = stage.stream()
    await worker.send(hello={"max_message_bytes": 1, "scopes": ["x"] * 9, "credit": {"messages": -1}})

    ending = await worker.ended()

    assert (ending.code, ending.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert ending.paths == ("hello.scopes", "hello.max_message_bytes", "hello.credit.messages")


# -- handlers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ({"name": "get weather"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "good"}, "name"),  # the second of the name
        ({"name": "bad", "parameters_json": "{"}, "parameters_json"),
        ({"name": "bad", "parameters_json": '{"type":"string"}'}, "parameters_json"),
        ({"name": "bad", "description": "a\0b"}, "description"),
    ],
)
async def test_a_bad_handler_is_refused_alone(stage: Stage, handler: dict[str, str], problem: str) -> None:
    """The others are registered, and their calls come."""
    worker = await stage.worker(handlers=[{"name": "good"}, handler, {"name": "fine"}])

    good, bad, fine = worker.welcome.handlers
    assert not good.HasField("error")
    assert not fine.HasField("error")
    assert (bad.name, bad.error.reason) == (handler["name"], error_pb2.ERROR_REASON_HANDLER_INVALID)
    assert bad.error.metadata["problem"] == problem
    await stage.turn([("good", "{}"), ("fine", "{}")])
    assert {call.name for call in await worker.expect_all("call", 2)} == {"good", "fine"}


async def test_other_parameters_in_one_scope_are_a_conflict(stage: Stage) -> None:
    """The later worker is told which name and scope; its other handlers are registered."""
    await attach_with(stage, CITY, scopes=["a", "b"])

    later = await stage.worker(handlers=[{"name": "f", "parameters_json": OTHER_CITY}, {"name": "g"}], scopes=["b"])

    conflict, fine = later.welcome.handlers
    assert conflict.error.reason == error_pb2.ERROR_REASON_HANDLER_CONFLICT
    assert conflict.error.metadata == {"name": "f", "scope": "b"}
    assert not fine.HasField("error")


async def test_other_parameters_in_another_scope_are_no_conflict(stage: Stage) -> None:
    """Two processes may mean different things by one name, each in its own scope."""
    await attach_with(stage, CITY, scopes=["a"])

    assert not (await attach_with(stage, OTHER_CITY, scopes=["b"])).HasField("error")


async def test_the_same_parameters_written_differently_are_no_conflict(stage: Stage) -> None:
    """Two languages write one schema with other spaces, keys in another order, and 1 as 1.0."""
    await attach_with(stage, CITY)

    assert not (await attach_with(stage, SAME_CITY)).HasField("error")


async def test_numbers_that_differ_beyond_two_to_the_53_are_a_conflict(stage: Stage) -> None:
    """Schemas are compared by their text, not by what a float makes of it."""
    await attach_with(stage, '{"type":"object","maxProperties":9007199254740992}')

    verdict = await attach_with(stage, '{"type":"object","maxProperties":9007199254740993}')

    assert verdict.error.reason == error_pb2.ERROR_REASON_HANDLER_CONFLICT


async def test_a_worker_without_parameters_conflicts_with_nobody(stage: Stage) -> None:
    """Who says nothing about the arguments says nothing different."""
    await attach_with(stage, CITY)

    assert not (await attach_with(stage, "")).HasField("error")
    assert (await attach_with(stage, OTHER_CITY)).HasField("error")


async def test_an_instance_may_change_its_own_parameters(stage: Stage) -> None:
    """A process that attaches again is not in conflict with its former stream."""
    await attach_with(stage, CITY, instance_id="pod")

    assert not (await attach_with(stage, OTHER_CITY, instance_id="pod")).HasField("error")


async def test_a_lost_worker_yields_to_one_that_is_there(stage: Stage) -> None:
    """A process that was killed and started again with new code is served, not told to wait for its own grace."""
    handlers = [{"name": "f", "parameters_json": CITY}]
    old = await stage.worker(handlers=handlers, instance_id="old")
    await stage.call("f")
    call = await old.expect("call")
    await stage.break_off(old, call.call_id)

    assert not (await attach_with(stage, OTHER_CITY)).HasField("error")

    again = await stage.worker(handlers=handlers, instance_id="old", held=held(call))
    assert again.welcome.handlers[0].error.reason == error_pb2.ERROR_REASON_HANDLER_CONFLICT


# -- parameters for agents -----------------------------------------------------------------------


async def test_a_function_without_parameters_takes_those_of_its_handler(stage: Stage) -> None:
    """An agent that only names its function gets schema and description from who serves it."""
    handler = {"name": "f", "description": "Does f.", "parameters_json": CITY}
    await stage.worker(handlers=[handler])

    turn = await stage.turn([("f", "{}")], tools=[{"function": {"name": "f"}}])

    asked = session_pb2.GetTurnRequest(session_id=turn.session_id, turn_id=turn.turn_id, with_pinned=True)
    (tool,) = (await stage.client.sessions.GetTurn(asked)).agent.tools
    assert (tool.function.description, tool.function.parameters_json) == ("Does f.", CITY)


async def test_a_function_that_nobody_declares_is_refused(stage: Stage) -> None:
    """Not even by a worker in a scope that the session does not look into."""
    await stage.worker(handlers=[{"name": "f", "parameters_json": CITY}], scopes=["other"])

    with pytest.raises(grpc.aio.AioRpcError, match="no attached worker declares any"):
        await stage.turn([("f", "{}")], tools=[{"function": {"name": "f"}}])


# -- later registrations -------------------------------------------------------------------------


async def test_a_later_register_serves_calls_that_wait(stage: Stage) -> None:
    """A name that is registered after its calls were made gets them, in their order."""
    worker = await stage.worker("other")
    turns = [await stage.call("f", f'{{"n":{n}}}') for n in range(3)]
    for turn in turns:
        await turn.waiting()
    await worker.nothing()

    await worker.send(register={"handlers": [{"name": "f"}]})

    assert not (await worker.expect("registered")).handlers[0].HasField("error")
    got = await worker.expect_all("call", 3)
    assert [call.arguments_json for call in got] == ['{"n":0}', '{"n":1}', '{"n":2}']


async def test_register_refuses_bad_handlers_alone(stage: Stage) -> None:
    """As in Welcome, in order."""
    worker = await stage.worker("f")

    await worker.send(register={"handlers": [{"name": "a b"}, {"name": "g"}]})

    bad, good = (await worker.expect("registered")).handlers
    assert (bad.name, bad.error.reason) == ("a b", error_pb2.ERROR_REASON_HANDLER_INVALID)
    assert (good.name, good.HasField("error")) == ("g", False)


async def test_an_unregistered_name_gets_no_calls(stage: Stage) -> None:
    """What is held goes on; what comes later waits for somebody else; unknown names are passed over."""
    worker = await stage.worker("f", "g")
    await stage.call("f")
    call = await worker.expect("call")

    await worker.send(unregister={"handlers": [{"name": "f"}, {"name": "never"}]})
    await worker.nothing()
    turn = await stage.call("f")
    await turn.waiting()

    await worker.nothing()
    assert await turn.state() == "UNSERVED"
    await worker.finish(call)
    await stage.call("g")
    assert (await worker.expect("call")).name == "g"


async def test_a_call_whose_name_was_unregistered_is_still_the_workers(stage: Stage) -> None:
    """Whoever runs the agent until it rests waits for it, since a worker executes it, though nobody serves it."""
    worker = await stage.worker("f")
    text, agent = stage.script([("f", "{}")])
    running = asyncio.ensure_future(stage.client.run(agent=agent, text=text))
    call = await worker.expect("call")
    await worker.send(unregister={"handlers": [{"name": "f"}]})
    await worker.nothing()

    await worker.finish(call)

    assert (await running).turn.status == event_pb2.TURN_STATUS_COMPLETED


async def test_a_call_that_comes_back_from_a_worker_that_unregistered_rests(stage: Stage) -> None:
    """Once nobody works on it and nobody serves its name, whoever runs the agent gets it as required action."""
    worker = await stage.worker("f")
    text, agent = stage.script([("f", "{}")])
    running = asyncio.ensure_future(stage.client.run(agent=agent, text=text))
    call = await worker.expect("call")
    await worker.send(unregister={"handlers": [{"name": "f"}]})

    await worker.send(nack={"call_id": call.call_id, "attempt": 1})

    (action,) = (await running).required_actions
    assert (action.call_id, action.state) == (call.call_id, event_pb2.REQUIRED_ACTION_STATE_UNSERVED)
