"""Running an agent: what the server is asked, what the caller gets, and what a broken connection changes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import pytest
from tests.client.scripted import Failing, ScriptedServer, soon
from tests.client.turns import answer, call, message, output, rest, started, user

import baton
from baton import Agent, ItemHelpers, ModelSettings, RunConfig, RunContext, Runner, Session, function_tool, trace
from baton.v1 import error_pb2, event_pb2, item_pb2, runner_pb2, session_pb2

AGENT = Agent(name="Assistant", instructions="Be brief.")


@function_tool
def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


async def test_a_run_without_functions_asks_and_answers(server: ScriptedServer) -> None:
    """The final output, the items and the usage are what the server says; the input alone is what is sent."""
    server.runner.on_run = answering(answer(message("Hello."), text="Hello.", next_items_json='[{"role":"user"}]'))

    result = await Runner.run(AGENT, "Hi")

    assert result.final_output == "Hello."
    assert [ItemHelpers.text_message_output(item) for item in result.new_items] == ["Hello."]
    assert (result.usage.requests, result.context_wrapper.usage.input_tokens) == (2, 20)
    assert (result.last_agent, result.last_response_id) == (AGENT, "resp_2")
    assert result.to_input_list() == [{"role": "user"}]
    request = server.runner.requests[0]
    assert (request.text, request.agent.instructions, request.run_config.max_turns) == ("Hi", "Be brief.", 10)
    assert request.run_config.history.HasField("caller") and request.WhichOneof("session_source") is None


async def test_options_of_a_run_reach_the_server(server: ScriptedServer) -> None:
    """Model, settings, limits, session and tracing travel in their fields; a list of items as JSON."""
    server.runner.on_run = answering(answer())
    agent = AGENT.clone(model_settings=ModelSettings(temperature=0.5, reasoning={"effort": "low"}))
    config = RunConfig(model="gpt-x", workflow_name="Own", scopes=["svc"])

    with trace("Outer", group_id="g-1", metadata={"k": "v"}):
        await Runner.run(
            agent,
            [{"role": "user", "content": "é"}],
            max_turns=None,
            run_config=config,
            session=Session("user-7"),
        )

    request = server.runner.requests[0]
    assert request.items_json == '[{"role":"user","content":"é"}]'
    assert request.session_key == "user-7" and not request.run_config.HasField("history")
    assert request.run_config.unlimited_turns and not request.run_config.HasField("max_turns")
    assert request.agent.model_settings.temperature == 0.5
    assert request.agent.model_settings.reasoning.effort == "low"
    assert not request.agent.model_settings.HasField("store")
    assert request.run_config.model == "gpt-x" and request.run_config.scopes == ["svc"]
    tracing = request.run_config.tracing
    assert (tracing.workflow_name, tracing.group_id, dict(tracing.metadata)) == ("Own", "g-1", {"k": "v"})


async def test_a_function_runs_here_and_its_result_reaches_the_server(server: ScriptedServer) -> None:
    """The run looks into this process's own scope, in which the function is registered before it begins."""

    async def run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        scope = request.run_config.scopes[1]
        await peer.call("get_weather", {"city": "Kyoto"}, scope=scope)
        result = await peer.settle()
        return answer(call("get_weather"), output(result.output), message("It rains."), text="It rains.")

    server.runner.on_run = run
    running = asyncio.create_task(Runner.run(AGENT.clone(tools=[get_weather]), "Weather?"))
    peer = await server.attached()

    result = await soon(running)

    assert [item.type for item in result.new_items] == [
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]
    asked, told = result.new_items[0].raw_item, result.new_items[1].raw_item
    assert (asked.get("call_id"), asked.name, told["call_id"]) == ("fc_1", "get_weather", "fc_1")
    assert told["output"] == "rain in Kyoto"
    tool = server.runner.requests[0].agent.tools[0].function
    assert (tool.description, tool.strict) == ("Tell the weather.", True)
    own, shared = server.runner.requests[0].run_config.scopes
    assert list(peer.hello.scopes) == [shared] and own != shared


async def test_a_second_run_uses_the_stream_that_is_there(server: ScriptedServer) -> None:
    """A known function costs no frame, a new one a Register; nobody attaches twice."""

    @function_tool
    def other() -> None:
        """Do nothing."""

    server.runner.on_run = answering(answer())
    first = asyncio.create_task(Runner.run(AGENT.clone(tools=[get_weather]), "1"))
    peer = await server.attached()
    await soon(first)
    await soon(Runner.run(AGENT.clone(tools=[get_weather]), "2"))

    third = asyncio.create_task(Runner.run(AGENT.clone(tools=[get_weather, other]), "3"))
    register = await peer.receive("register")
    assert [spec.name for spec in register.handlers] == ["other"]
    assert not third.done()
    await peer.send(registered={"handlers": [{"name": "other"}]})
    await soon(third)

    assert server.handlers.peers.empty()


async def test_functions_of_one_name_do_not_collide(server: ScriptedServer) -> None:
    """Two runs at once, each with its own function of that name and its own context, each get their own."""

    def agent_of(word: str) -> Agent[Any]:
        @function_tool
        def say(ctx: RunContext[Any]) -> str:
            """Say it."""
            return f"{word} {ctx.context}"

        return AGENT.clone(tools=[say])

    both = asyncio.Barrier(2)
    peers: dict[str, Any] = {}

    async def run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        await both.wait()
        scope = request.run_config.scopes[1]
        peer = next(peer for peer in peers.values() if scope in peer.hello.scopes)
        await peer.call("say", scope=scope, call_id=f"call_{request.text}")
        return answer(text=(await peer.settle()).output)

    server.runner.on_run = run
    one = asyncio.create_task(Runner.run(agent_of("A"), "1", context="x"))
    peers["1"] = await server.attached()
    two = asyncio.create_task(Runner.run(agent_of("B"), "2", context="y"))
    peers["2"] = await server.attached()

    outputs = {(await soon(one)).final_output, (await soon(two)).final_output}

    assert outputs == {"A x", "B y"}
    with pytest.raises(EOFError):  # the second stream is not needed any more
        while True:
            await peers["2"].next_frame()


async def test_a_break_sends_the_same_request_again(server: ScriptedServer) -> None:
    """A server that goes away in the middle is invisible: same request_id, same body."""
    failures = iter([Failing(grpc.StatusCode.UNAVAILABLE), Failing(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")])

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        for failure in failures:
            raise failure
        return answer(text="There.")

    server.runner.on_run = run

    result = await soon(Runner.run(AGENT, "Hi"))

    assert result.final_output == "There."
    assert len(server.runner.requests) == 3
    assert all(request == server.runner.requests[0] for request in server.runner.requests)


async def test_a_turn_that_failed_raises_what_users_know(server: ScriptedServer) -> None:
    """The exception carries the reason, its facts, and what the run had made."""
    failed = answer(call("get_weather"), output("rain"))
    failed.turn.status = event_pb2.TURN_STATUS_FAILED
    failed.turn.error.CopyFrom(
        error_pb2.Error(reason=error_pb2.ERROR_REASON_MAX_TURNS_EXCEEDED, message="limit", metadata={"max_turns": "1"})
    )
    server.runner.on_run = answering(failed)

    with pytest.raises(baton.MaxTurnsExceeded) as caught:
        await Runner.run(AGENT, "Hi", max_turns=1)

    assert (caught.value.reason, caught.value.metadata) == ("MAX_TURNS_EXCEEDED", {"max_turns": "1"})
    assert caught.value.run_data is not None
    assert [item.type for item in caught.value.run_data.new_items] == ["tool_call_item", "tool_call_output_item"]


async def test_rejected_items_are_no_run_items(server: ScriptedServer) -> None:
    """What the log alone has, because the turn failed over it, is not shown as made."""
    failed = answer(message("half", status=item_pb2.ITEM_STATUS_REJECTED))
    failed.turn.status = event_pb2.TURN_STATUS_FAILED
    failed.turn.error.reason = error_pb2.ERROR_REASON_MODEL_BEHAVIOR_ERROR
    server.runner.on_run = answering(failed)

    with pytest.raises(baton.ModelBehaviorError) as caught:
        await Runner.run(AGENT, "Hi")

    assert caught.value.run_data is not None and caught.value.run_data.new_items == []


async def test_unserved_functions_are_named(server: ScriptedServer) -> None:
    """A run that rests on functions that nobody serves says which, and how to go on."""
    server.runner.on_run = answering(rest("far_away"))
    agent = AGENT.clone(tools=[baton.RemoteFunction("far_away")])

    with pytest.raises(baton.UnservedError, match="far_away") as caught:
        await Runner.run(agent, "Hi")

    assert [action.call_id for action in caught.value.required_actions] == ["call_1"]


async def test_a_rest_on_functions_of_this_process_is_waited_out(server: ScriptedServer) -> None:
    """They are unserved only while this process's own stream is broken: the run waits again."""
    answers = iter([rest("get_weather"), answer(text="There.")])

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        return next(answers)

    server.runner.on_run = run
    running = asyncio.create_task(Runner.run(AGENT.clone(tools=[get_weather]), "Hi"))
    await server.attached()

    assert (await soon(running)).final_output == "There."


async def test_what_was_left_out_is_completed(server: ScriptedServer) -> None:
    """Items that did not fit are listed, texts that did not fit are read, in the order users know."""
    digest = "9" * 64
    long = message("", 2)
    long.message.content[0].omitted_text.sha256 = digest
    short = answer(message("newest", 2), items_left_out=True)
    short.turn.output_omitted.sha256 = digest
    short.ClearField("next_items_json")
    short.next_items_omitted.sha256 = digest

    async def content(request: session_pb2.ReadContentRequest) -> Any:
        whole = b'["omitted"]'
        yield session_pb2.ReadContentResponse(offset=request.offset, data=whole[request.offset : 4])
        if request.offset == 0:
            raise Failing(grpc.StatusCode.UNAVAILABLE)
        yield session_pb2.ReadContentResponse(offset=4, data=whole[4:])

    pages = iter(
        [
            session_pb2.ListItemsResponse(
                items=[user("Hi"), call("a", 1), call("b", 2), output("late", 2)], next_page_token="more"
            ),
            session_pb2.ListItemsResponse(items=[output("early", 1), long]),
        ]
    )
    server.runner.on_run = answering(short)
    server.sessions.answers = {"ListItems": lambda _request: next(pages), "ReadContent": content}

    result = await soon(Runner.run(AGENT, "Hi"))

    shown = [(item.type, item.raw_item.get("output")) for item in result.new_items]
    assert shown == [
        ("tool_call_item", None),
        ("tool_call_item", None),
        ("tool_call_output_item", "early"),
        ("tool_call_output_item", "late"),
        ("message_output_item", None),
    ]
    assert ItemHelpers.text_message_outputs(result.new_items) == '["omitted"]'
    assert (result.final_output, result.to_input_list()) == ('["omitted"]', ["omitted"])


async def test_a_cancelled_caller_cancels_the_turn(server: ScriptedServer) -> None:
    """The turn's ids are learned by attaching to it with the same request, then it is cancelled."""
    asked = asyncio.Event()

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def attach(_request: runner_pb2.RunStreamedRequest) -> Any:
        yield started(created=False)
        await asyncio.Event().wait()

    server.runner.on_run, server.runner.on_stream = run, attach
    server.sessions.answers = {"SubmitInput": lambda _request: session_pb2.SubmitInputResponse()}
    running = asyncio.create_task(Runner.run(AGENT, "Hi"))
    await soon(asked.wait())

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(running)

    ran, attached = server.runner.requests
    assert ran.request_id == attached.request_id
    (submitted,) = server.sessions.requests
    assert submitted.session_id == "sess_1"
    assert submitted.inputs[0].cancel.turn_id == "turn_1"
    assert submitted.inputs[0].cancel.mode == event_pb2.CANCEL_MODE_NOW


async def test_what_no_run_takes_is_refused_by_name(server: ScriptedServer) -> None:
    """Options of other versions and foreign memories never pass silently."""
    with pytest.raises(TypeError, match="model, tools"):
        await Runner.run(AGENT, "Hi", model="x", tools=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="sandbox"):
        await Runner.run(AGENT, "Hi", run_config={"sandbox": None})
    with pytest.raises(TypeError, match="it has no get_items"):
        await Runner.run(AGENT, "Hi", session=object())
    with pytest.raises(TypeError, match="AgentHooks belong on an agent"):
        await Runner.run(AGENT, "Hi", hooks=baton.AgentHooks())  # type: ignore[typeddict-item]
    with pytest.raises(TypeError, match="max_turns must be a whole number or None, not '3'"):
        await Runner.run(AGENT, "Hi", max_turns="3")  # type: ignore[typeddict-item]
    with pytest.raises(TypeError, match="input must be a text, a list of items or a RunState, not int"):
        await Runner.run(AGENT, 3)  # type: ignore[arg-type]
    assert server.runner.requests == []


async def test_items_of_the_openai_package_are_taken_as_input(server: ScriptedServer) -> None:
    """Objects that dump themselves travel as what they dump to; lone surrogates stay escaped."""

    class Model:
        def model_dump(self, **_options: Any) -> dict[str, Any]:
            return {"role": "user", "content": "\ud800"}

    server.runner.on_run = answering(answer())

    await Runner.run(AGENT, [Model()])

    assert json.loads(server.runner.requests[0].items_json) == [{"role": "user", "content": "\ud800"}]


def answering(response: runner_pb2.RunResponse) -> Any:
    """Make a Run that gives this answer."""

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        return response

    return run
