"""What the server says of a request, in the words of the program that wrote it."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import pytest
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import calls

from baton import (
    Agent,
    AgentTool,
    Client,
    FunctionTool,
    Handoff,
    InvalidRequestError,
    MaxTurnsExceeded,
    ModelRetryBackoffSettings,
    ModelRetrySettings,
    ModelSettings,
    RemoteFunction,
    RunConfig,
    Runner,
    SQLiteSession,
    StateError,
    ToolExecutionConfig,
    UserError,
    function_tool,
    set_conversation_history_wrappers,
)
from baton.own_words import own_path
from baton.runs.run_arguments import RunArguments
from baton.v1 import agent_pb2, run_config_pb2

__all__ = ["serve"]

AGENTS = ("Desk", "Billing")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("items_json[2].content", "input[2].content"),
        ("text", "input"),
        ("inputs[1].items_json[0].role", "input[0].role"),
        ("run_config.max_turns", "max_turns"),
        ("run_config.unlimited_turns", "max_turns"),
        ("continues.max_turns", "max_turns"),
        ("run_config.history.conversation.id", "conversation_id"),
        ("run_config.model_input_filters[0].keep_last.items", "run_config.call_model_input_filter[0].keep_last.items"),
        ("run_config.tracing.metadata['a']", "run_config.trace_metadata['a']"),
        ("run_config.model_settings.extra_body_json", "run_config.model_settings.extra_body"),
        ("agent", "Agent 'Desk'"),
        ("agent.name", "Agent 'Desk': name"),
        ("agent.agents[0].tools[3].function.parameters_json", "Agent 'Billing': tools[3].params_json_schema"),
        ("agent.tools[0].function.execution.timeout", "Agent 'Desk': tools[0].timeout"),
        ("agent.agents[7].name", "agent.agents[7]: name"),
        ("nothing.known", "nothing.known"),
    ],
)
def test_a_path_is_said_by_the_names_of_arguments(theirs: str, ours: str) -> None:
    """Agents by their names; what has no other name stays."""
    assert own_path(theirs, AGENTS) == ours


def test_every_field_of_a_runs_configuration_has_a_name_that_a_program_can_write() -> None:
    """One that the contract gains is missed here."""
    mine = {"unserved_grace", "start_agent"}  # which this library never sends
    parts = {"tracing", "handoff_history", "tool_execution", "history"}  # whose fields have names of their own
    names = {one.name for one in fields(RunConfig)} | {one.name for one in fields(ToolExecutionConfig)}
    names |= {*RunArguments.__annotations__, *inspect.signature(set_conversation_history_wrappers).parameters}
    paths = {field.name for field in run_config_pb2.RunConfig.DESCRIPTOR.fields} - mine - parts
    for part in parts - {"history"}:
        message = run_config_pb2.RunConfig.DESCRIPTOR.fields_by_name[part].message_type
        paths |= {f"{part}.{field.name}" for field in message.fields}

    said = {path: re.split(r"\.|: ", own_path(f"run_config.{path}"))[-1].partition("[")[0] for path in paths}

    assert {path: name for path, name in said.items() if name not in names} == {}


@pytest.mark.parametrize(
    ("message", "path", "classes"),
    [
        (agent_pb2.Agent, "agent.", (Agent,)),
        (agent_pb2.FunctionTool, "agent.tools[0].function.", (FunctionTool, RemoteFunction)),
        (agent_pb2.AgentTool, "agent.tools[0].agent.", (AgentTool,)),
        (agent_pb2.Handoff, "agent.handoffs[0].", (Handoff,)),
        (agent_pb2.ModelSettings, "agent.model_settings.", (ModelSettings,)),
        (agent_pb2.RetrySettings, "agent.model_settings.retry.", (ModelRetrySettings, ModelRetryBackoffSettings)),
    ],
)
def test_every_field_of_an_agent_has_a_name_that_a_program_can_write(message: Any, path: str, classes: Any) -> None:
    """One that the contract gains is missed here."""
    other = {"agents", "tools[0]", "input_type"}  # the graph; a part of a function; an argument of `handoff`
    names = {one.name for cls in classes for one in fields(cls)} | other

    said = {one.name: own_path(f"{path}{one.name}", AGENTS) for one in message.DESCRIPTOR.fields}

    assert {name: path for name, path in said.items() if re.split(r"\.|: ", path)[-1] not in names} == {}


async def test_a_wrong_request_is_told_by_its_arguments(serve: Serve) -> None:
    """In the message and in the violations, whichever way it is run."""
    config = RunConfig(workflow_name="x" * 300)
    bad: list[Any] = [{"role": "userr", "content": "Hi"}]
    async with serve():
        with pytest.raises(InvalidRequestError, match=r"wrong: input\[0\]\.role: 'userr' is none of") as raised:
            await Runner.run(Agent(name="A"), bad, run_config=config, max_turns=-1)
        stream = Runner.run_streamed(Agent(name="A"), bad)
        with pytest.raises(InvalidRequestError, match=r"input\[0\]\.role: 'userr'"):
            async for _ in stream.stream_events():
                pass
        with pytest.raises(InvalidRequestError, match=r" items\[0\]\.role: 'userr'"):
            await SQLiteSession("s").add_items(bad)

    assert {one.field for one in raised.value.violations} == {"input[0].role", "max_turns", "run_config.workflow_name"}


async def test_advice_is_given_by_the_names_of_arguments(serve: Serve) -> None:
    """Of a limit that was reached, of two tools of one name, and of a function without parameters."""

    @function_tool
    def work() -> None:
        """Work."""

    async with serve(calls(("work", "{}"))):
        with pytest.raises(MaxTurnsExceeded, match=r"Raise max_turns, or pass max_turns=None\."):
            await Runner.run(Agent(name="A", tools=[work]), "Hi", max_turns=1)
        config = RunConfig(tool_name_collision_policy="error")
        with pytest.raises(UserError, match="tool_name_collision_policy"):
            await Runner.run(Agent(name="A", tools=[work, work]), "Hi", run_config=config)
        with pytest.raises(Exception, match=r"has no params_json_schema.*Give the RemoteFunction its"):
            await Runner.run(Agent(name="A", tools=[RemoteFunction("elsewhere")]), "Hi")
        config = RunConfig(scopes=["office"])
        with pytest.raises(StateError, match=r"\(looked in the scopes .*, 'office' and the empty one\)"):
            await Runner.run(Agent(name="A", tools=[work, RemoteFunction("elsewhere")]), "Hi", run_config=config)


async def test_a_client_is_told_of_its_agents_by_their_names(serve: Serve) -> None:
    """Of those that it wrote itself; one in the contract's words is told in those. Nothing else is in the way."""
    chosen = ModelSettings(tool_choice="nobody")
    desk = Agent(name="Desk", handoffs=[Agent(name="Billing", model_settings=chosen)])
    bare = agent_pb2.Agent(name="Bare", model_settings={"tool_choice": "nobody"})
    client = Client()
    async with serve():
        for kept in (client.create_session(agent=desk), client.create_agent(desk), client.update_agent("x", desk)):
            with pytest.raises(InvalidRequestError, match=r"Agent 'Billing': model_settings\.tool_choice") as raised:
                await kept
            assert raised.value.__cause__ is None and raised.value.__suppress_context__
        with pytest.raises(InvalidRequestError, match=r"wrong: agent\.model_settings\.tool_choice"):
            await client.create_agent(bare)


async def test_a_batch_is_told_by_its_numbers(serve: Serve) -> None:
    """Which of its inputs is wrong; and where a function was looked for."""
    client = Client()
    async with serve():
        session = await client.create_session(agent=Agent(name="Desk", tools=[RemoteFunction("elsewhere")]))
        with pytest.raises(InvalidRequestError, match=r"wrong: inputs\[1\]\[0\]\.role: 'userr'"):
            await client.submit(session.session_id, "Hi", [{"role": "userr", "content": "Hi"}])
        with pytest.raises(StateError, match=r"looked in the empty scope\)\. Give the RemoteFunction its params_json"):
            await client.submit(session.session_id, "Hi")


async def test_words_that_a_function_raised_stay_as_they_are(serve: Serve) -> None:
    """Though they are such as the server advises."""
    words = "Raise run_config.max_turns, or set unlimited_turns"

    @function_tool(failure_error_function=None)
    def work() -> None:
        """Work."""
        raise ValueError(words)

    async with serve(calls(("work", "{}"))):
        with pytest.raises(UserError, match=words):
            await Runner.run(Agent(name="A", tools=[work]), "Hi")


@pytest.mark.parametrize("name", ["conversation_id", "previous_response_id"])
async def test_an_id_at_the_models_api_is_no_empty_text(name: str) -> None:
    """It is told before anything is asked of the server."""
    given: Any = {name: ""}
    with pytest.raises(UserError, match=f"{name} must be a text of 1 to 256 characters"):
        await Runner.run(Agent(name="A"), "Hi", **given)
