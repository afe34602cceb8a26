"""Agents and run configurations come back as they were said, new fields and old ones alike."""

import pytest
from google.protobuf import json_format
from tests.wire.good_requests import AGENT, RUN_CONFIG

from baton.v1 import agent_pb2, run_config_pb2
from baton_server.core.agents import (
    Agent,
    Execution,
    FunctionTool,
    Guardrail,
    HookRef,
    LifecycleHook,
    LostWorker,
    Moment,
)
from baton_server.wire.agents import read_agent, read_config, write_agent, write_config


def test_an_agent_that_says_everything_comes_back_as_it_was_sent() -> None:
    """GetAgent shows what CreateAgent was given."""
    sent = json_format.ParseDict(AGENT, agent_pb2.Agent())

    assert write_agent(read_agent(sent)) == sent


def test_options_that_say_everything_come_back_as_they_were_sent() -> None:
    """GetTurn shows what the run was given."""
    sent = json_format.ParseDict(RUN_CONFIG, run_config_pb2.RunConfig())

    assert write_config(read_config(sent)) == sent


def test_a_function_is_read_with_how_it_is_executed() -> None:
    """Times in seconds; what is not said is left to the handler."""
    weather, time, elsewhere = read_agent(json_format.ParseDict(AGENT, agent_pb2.Agent())).functions

    assert weather.execution == Execution(
        timeout_s=0.001,
        expires_s=1.0,
        lost_worker=LostWorker.ASK,
        max_attempts=1,
        idempotency_fields=("/order/id", "/", "/a~1b~0c/0", *(f"/f{n}" for n in range(13))),
    )
    assert (weather.timeout_fails_turn, weather.timeout_text, weather.handler_version) == (True, "", "v" * 64)
    assert (time.timeout_fails_turn, time.timeout_text) == (False, "x" * 4096)
    assert (elsewhere.execution, elsewhere.timeout_fails_turn, elsewhere.timeout_text) == (Execution(), False, "")


def test_hooks_are_read_in_their_order() -> None:
    """Guardrails with how they are asked, filters as a chain, and who is told of what."""
    guardrails = read_agent(json_format.ParseDict(AGENT, agent_pb2.Agent())).input_guardrails
    config = read_config(json_format.ParseDict(RUN_CONFIG, run_config_pb2.RunConfig()))

    assert guardrails[0] == Guardrail(name="no pii", hook=HookRef(name="check", timeout_s=0.001), blocking=True)
    assert guardrails[1] == Guardrail(name="10" * 64, hook=HookRef(name="check", timeout_s=600.0))
    assert config.input_guardrails == (Guardrail(name="no pii", hook=HookRef(name="check")),)
    assert config.model_input_filters == (HookRef(name="trim"),) * 8
    assert config.lifecycle_hooks[-1] == LifecycleHook(
        hook=HookRef(name="audit"), moments=(Moment.AGENT_START, Moment.FUNCTION_END)
    )


@pytest.mark.parametrize("said", [{}, {"timeout": "30s"}])
def test_a_hook_that_says_no_timeout_has_the_contracts(said: dict[str, str]) -> None:
    """Whether the default is said or not makes no other agent: the digests are equal."""
    sent = json_format.ParseDict({"input_guardrails": [{"hook": {"name": "check", **said}}]}, agent_pb2.Agent())

    read = read_agent(sent)

    assert read.input_guardrails[0].hook.timeout_s == 30.0
    assert not write_agent(read).input_guardrails[0].hook.HasField("timeout")


def test_an_agent_without_the_newer_fields_has_the_bytes_that_it_always_had() -> None:
    """Its digest, which turns have pinned, stays the same over releases."""
    agent = Agent(name="Helper", functions=(FunctionTool(name="f", description="d", strict=True),))
    plain = agent_pb2.Agent(name="Helper", tools=[{"function": {"name": "f", "description": "d", "strict": True}}])

    assert write_agent(agent).SerializeToString(deterministic=True) == plain.SerializeToString(deterministic=True)
