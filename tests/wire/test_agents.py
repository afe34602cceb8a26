"""Agents and run configurations come back as they were said, new fields and old ones alike."""

from typing import Any

import pytest
from google.protobuf import json_format
from tests.wire.good_agents import AGENT, FILTERS, HISTORIES, RUN_CONFIG, Json

from baton.v1 import agent_pb2, run_config_pb2
from baton_server.core.agents import (
    Agent,
    Guardrail,
    KeepLast,
    LifecycleHook,
    Moment,
    RemoveAllTools,
    ToolUseBehavior,
    TrimOutputs,
)
from baton_server.core.run_config import ErrorHandler, ErrorHandlers, RunConfig, Tracing
from baton_server.core.settings import RetryKind
from baton_server.core.tools import (
    AgentTool,
    Approval,
    Enabled,
    Execution,
    FailureText,
    FunctionTool,
    HookRef,
    LostWorker,
    Terms,
    ToolGuardrail,
)
from baton_server.wire.agents import read_agent, write_agent
from baton_server.wire.run_config import read_config, write_config


def agent_of(said: Json) -> Agent:
    """Reads an agent."""
    return read_agent(json_format.ParseDict(said, agent_pb2.Agent()))


def config_of(said: Json) -> RunConfig:
    """Reads options of a run."""
    return read_config(json_format.ParseDict(said, run_config_pb2.RunConfig()))


def unsaid(message: Any, seen: set[str]) -> set[str]:
    """Names the fields of a message, and of the messages in it, that stand nowhere in it."""
    said: set[str] = set()

    def visit(inner: Any) -> None:
        seen.add(inner.DESCRIPTOR.full_name)
        for field, value in inner.ListFields():
            said.add(field.full_name)
            if field.message_type is not None and not field.message_type.GetOptions().map_entry:
                for one in value if field.is_repeated else (value,):
                    if one.DESCRIPTOR.full_name.startswith("baton."):
                        visit(one)
                    seen.add(one.DESCRIPTOR.full_name)

    visit(message)
    pool = message.DESCRIPTOR.file.pool
    kinds = [pool.FindMessageTypeByName(name) for name in seen if name.startswith("baton.")]
    return {field.full_name for kind in kinds for field in kind.fields} - said


def test_an_agent_that_says_everything_comes_back_as_it_was_sent() -> None:
    """GetAgent shows what CreateAgent was given, and nothing that an agent can say is left out of this test."""
    sent = json_format.ParseDict(AGENT, agent_pb2.Agent())

    assert write_agent(read_agent(sent)) == sent
    assert unsaid(sent, set()) == set()


def test_options_that_say_everything_come_back_as_they_were_sent() -> None:
    """GetTurn shows what the run was given; of what excludes one another the other tests say the rest."""
    sent = json_format.ParseDict(RUN_CONFIG, run_config_pb2.RunConfig())

    assert write_config(read_config(sent)) == sent
    assert {name.removeprefix("baton.v1.") for name in unsaid(sent, set())} - {
        f"ModelSettings.{field.name}" for field in agent_pb2.ModelSettings.DESCRIPTOR.fields
    } == {
        "RunConfig.unlimited_turns",
        "BlockedOutputText.hook",
        *(f"History.{mode}" for mode in ("session", "conversation", "response", "stored")),
    }


@pytest.mark.parametrize("history", HISTORIES)
def test_every_history_comes_back_as_it_was_sent(history: Json) -> None:
    """Limits, ids and the caller's store are pinned with the turn."""
    sent = json_format.ParseDict({"history": history}, run_config_pb2.RunConfig())

    assert write_config(read_config(sent)) == sent


def test_a_history_that_says_nothing_is_the_sessions() -> None:
    """As the contract has it."""
    assert config_of({"history": {}}) == config_of({"history": {"session": {}}})


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"output_schema": {"name": "final_output", "schema_json": "{}", "strict": True}},
         {"output_schema": {"schema_json": "{}"}}),
        ({"tools": [{"agent": {"agent": "Say It!", "tool_name": "say_it_"}}]},
         {"tools": [{"agent": {"agent": "Say It!"}}]}),
        ({"handoffs": [{"agent": "B", "tool_name": "transfer_to_b"}]}, {"handoffs": [{"agent": "B"}]}),
        ({"tools": [{"function": {"name": "f", "enabled": {"always": True}, "needs_approval": {"always": False}}}]},
         {"tools": [{"function": {"name": "f"}}]}),
        ({"input_guardrails": [{"hook": {"name": "c", "timeout": "30s"}}]},
         {"input_guardrails": [{"hook": {"name": "c"}}]}),
        ({"model_settings": {}}, {}),
        ({"model_settings": {"retry": {}, "reasoning": {}}}, {}),
        ({"handoffs": [{"agent": "B", "input_filters": [{"trim_outputs": {"max_chars": 500, "recent_messages": 2}}]}]},
         {"handoffs": [{"agent": "B", "input_filters": [{"trim_outputs": {}}]}]}),
    ],
)  # fmt: skip
def test_a_default_that_is_said_makes_no_other_agent(said: Json, meant: Json) -> None:
    """Defaults are part of the contract: the digests are equal."""
    assert write_agent(agent_of(said)) == json_format.ParseDict(meant, agent_pb2.Agent())
    assert agent_of(said) == agent_of(meant)


@pytest.mark.parametrize(
    "said",
    [
        {"tracing": {"include_turn_spans": True}},
        {"error_handlers": {"max_turns": {"output": "Enough.", "include_in_history": True}}},
    ],
)
def test_a_default_that_is_said_makes_no_other_options(said: Json) -> None:
    """Nor of a run; that something was said at all is kept, since it wins over the session's."""
    config = config_of(said)

    assert config in (
        RunConfig(tracing=Tracing()),
        RunConfig(error_handlers=ErrorHandlers(max_turns=ErrorHandler(output="Enough."))),
    )
    assert read_config(write_config(config)) == config


def test_a_function_is_read_with_all_that_is_asked_about_it() -> None:
    """Times in seconds; what is not said is left to the handler, or to nobody."""
    weather, time, elsewhere, _ = agent_of(AGENT).functions
    ref = HookRef(name="check", timeout_s=0.001)

    assert weather.execution == Execution(
        timeout_s=0.001,
        expires_s=1.0,
        lost_worker=LostWorker.ASK,
        max_attempts=1,
        idempotency_fields=("/order/id", "/", "/a~1b~0c/0", *(f"/f{n}" for n in range(13))),
    )
    assert (weather.approval, weather.enabled) == (Approval(always=True, expires_s=1.0), Enabled(always=False))
    assert (weather.on_crash, weather.on_timeout) == (FailureText(text="It failed."), FailureText(fail_turn=True))
    assert (weather.custom_data, weather.defer_loading, weather.handler_version) == (ref, True, "v" * 64)
    assert weather.input_guardrails == (
        ToolGuardrail(name="asks", check=HookRef(name="check", timeout_s=600.0)),
        ToolGuardrail(name="denies", check=Terms(terms=("drop", "x" * 256), case_sensitive=True), message="m" * 4096),
        ToolGuardrail(name="allows", check=Terms(terms=("select",), allow=True)),
    )
    assert (time.approval, time.enabled) == (Approval(hook=ref, expires_s=2_592_000.0), Enabled(hook=ref))
    assert time.on_crash == FailureText(hook=ref)
    assert elsewhere == FunctionTool(name="served_elsewhere", approval=Approval(expires_s=60.0))


def test_an_agent_has_names_by_which_others_are_called() -> None:
    """What is not said is made of the agent's name, as the Agents SDK makes it."""
    agent = agent_of({"tools": [{"agent": {"agent": "Billing Agent!"}}], "handoffs": [{"agent": "Billing Agent!"}]})

    assert agent.tools == (AgentTool(name="billing_agent_", agent="Billing Agent!"),)
    assert agent.handoffs[0].name == "transfer_to_billing_agent_"


def test_hooks_are_read_in_their_order() -> None:
    """Guardrails with how they are asked, filters as a chain, and who is told of what."""
    agent, config = agent_of(AGENT), config_of(RUN_CONFIG)
    ref = HookRef(name="check", timeout_s=0.001)

    assert agent.input_guardrails[0] == Guardrail(name="first", check=ref, blocking=True)
    assert agent.output_guardrails[1:] == (
        Guardrail(name="no prices", check=Terms(terms=("€",) * 256)),
        Guardrail(name="politeness", check=Terms(terms=("please",), case_sensitive=True, allow=True)),
    )
    assert config.input_guardrails == (Guardrail(name="no pii", check=HookRef(name="check"), blocking=True),)
    assert config.model_input_filters == (HookRef(name="trim"),) * 8
    assert config.handoff_input_filters == (
        ref,
        KeepLast(items=1),
        RemoveAllTools(),
        TrimOutputs(recent_messages=0, max_chars=1, preview_chars=0, functions=("a.b", "f" * 128)),
    )
    assert config.lifecycle_hooks[-1] == LifecycleHook(
        hook=HookRef(name="audit"),
        moments=(Moment.AGENT_START, Moment.FUNCTION_END, Moment.HANDOFF),
        awaited=True,
    )


def test_what_ends_a_turn_after_functions_is_read() -> None:
    """By the first output, by a name, by a hook, or not at all."""
    helper, billing, translator, other = agent_of(AGENT).everyone()

    assert helper.tool_use == ToolUseBehavior(stop_at=("get_time", "ns.get_weather"))
    assert billing.tool_use == ToolUseBehavior(stop_on_first=True)
    assert translator.tool_use == ToolUseBehavior(hook=HookRef(name="check", timeout_s=0.001))
    assert other.tool_use == ToolUseBehavior()


def test_rules_for_retries_are_read_as_deep_as_they_are() -> None:
    """Each with what it is about."""
    retry = agent_of(AGENT).model_settings.retry

    assert (retry.max_retries, retry.initial_delay_s, retry.max_delay_s, retry.jitter) == (20, 0.0, 3600.0, False)
    assert retry.rule is not None
    assert [rule.kind for rule in retry.rule.rules] == [
        RetryKind.PROVIDER_SUGGESTED, RetryKind.NETWORK_ERROR, RetryKind.RETRY_AFTER, RetryKind.HOOK, RetryKind.ALL,
    ]  # fmt: skip
    assert retry.rule.rules[3].hook == HookRef(name="again")
    assert retry.rule.rules[4].rules[0].rules[0].statuses == (400, 599)


@pytest.mark.parametrize(
    "later",
    [
        agent_pb2.Agent(tools=[{}]),
        agent_pb2.Agent(output_guardrails=[{"name": "by a model"}]),
        agent_pb2.Agent(handoffs=[{"agent": "B", "input_filters": [{}]}]),
        agent_pb2.Agent(tool_use_behavior={}),
        agent_pb2.Agent(model_settings={"retry": {"rule": {}}}),
    ],
    ids=["tool", "check", "filter", "behavior", "rule"],
)
def test_what_a_later_release_said_is_refused(later: agent_pb2.Agent) -> None:
    """An agent without one of its tools or guardrails would be another agent."""
    with pytest.raises(ValueError, match="later release"):
        read_agent(later)


def test_an_agent_without_the_newer_fields_has_the_bytes_that_it_always_had() -> None:
    """Its digest, which turns have pinned, stays the same over releases."""
    function = FunctionTool(name="f", description="d", strict=True, on_timeout=FailureText(text="late"))
    agent = Agent(name="Helper", tools=(function,))
    first_release = b"\n\x06Helper" + b":\x12\n\x10" + b"\n\x01f" + b"\x12\x01d" + b" \x01" + b"b\x06\n\x04late"

    assert write_agent(agent).SerializeToString(deterministic=True) == first_release


def test_filters_come_back_in_their_order() -> None:
    """A chain is applied from its first to its last."""
    said = {"model_input_filters": [*reversed(FILTERS)]}

    assert [type(one) for one in config_of(said).model_input_filters] == [
        TrimOutputs,
        RemoveAllTools,
        KeepLast,
        HookRef,
    ]
