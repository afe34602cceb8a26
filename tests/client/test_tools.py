"""Functions of agents: how an agent has them, what is told of their failures, and what only an agent can say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

import baton
from baton import (
    Agent,
    Approval,
    DenyTerms,
    FunctionError,
    FunctionTool,
    HostedTool,
    RemoteFunction,
    RemoteHook,
    RunContext,
    ToolSearchTool,
    UserError,
    Worker,
    function_tool,
    handoff,
)
from baton.agents.agent import agent_to_pb
from baton.agents.handoffs import function_style
from baton.agents.tool_writing import tool_to_pb
from baton.testing import call_function
from baton.v1 import agent_pb2


def named(use: Any) -> agent_pb2.HookRef:
    """Name every hook by its name."""
    return agent_pb2.HookRef(name=use.name)


def tool(**options: Any) -> FunctionTool:
    """Make the function `pay` with some options."""
    made: FunctionTool = function_tool(name_override="pay", **options)(lambda: "")
    return made


def test_how_an_agent_has_a_function_is_written() -> None:
    """Of functions of this process and elsewhere alike."""
    options: dict[str, Any] = {
        "is_enabled": False,
        "needs_approval": Approval(RemoteHook("over_100"), expires=60),
        "tool_input_guardrails": [DenyTerms(["DROP"], message="Not that.")],
        "tool_output_guardrails": [RemoteHook("no_secret")],
        "failure_error_function": "The shop is closed.",
        "timeout_error_function": RemoteHook("late"),
        "defer_loading": True,
        "custom_data_extractor": RemoteHook("note"),
    }

    for made in (tool_to_pb(tool(**options)), tool_to_pb(RemoteFunction("pay", **options))):
        assert made.enabled == agent_pb2.Enabled(always=False)
        assert (made.needs_approval.hook.name, made.needs_approval.expires.seconds) == ("over_100", 60)
        assert list(made.input_guardrails) == [
            agent_pb2.ToolGuardrail(name="DenyTerms", deny=agent_pb2.Terms(terms=["DROP"]), message="Not that.")
        ]
        assert [one.hook.name for one in made.output_guardrails] == ["no_secret"]
        assert made.on_crash.text == "The shop is closed."
        assert (made.on_timeout.hook.name, made.custom_data.name, made.defer_loading) == ("late", "note", True)


def test_what_is_at_its_default_is_not_said() -> None:
    """So that a worker's own word counts, and graphs are equal that say the same."""
    made = tool_to_pb(RemoteFunction("pay"))

    assert made == agent_pb2.FunctionTool(name="pay")
    assert tool_to_pb(RemoteFunction("pay", needs_approval=True)).needs_approval.always
    assert tool_to_pb(RemoteFunction("pay", failure_error_function=None)).on_crash.fail_turn


async def test_a_functions_failure_is_told_in_its_own_words() -> None:
    """Where it ran, with the very exception; sync or async."""

    async def words(ctx: RunContext[Any], error: BaseException) -> str:
        return f"{ctx.tool_name}: {type(error).__name__} {error.args[0]}"

    @function_tool(failure_error_function=words)
    def pay() -> str:
        raise KeyError("no such order")

    outcome = await call_function(pay)
    assert (outcome.kind, outcome.text) == ("failure", "pay: KeyError no such order")
    assert not tool_to_pb(pay, named).HasField("on_crash")


async def test_words_of_a_functions_own_stay_what_they_are() -> None:
    """A FunctionError is for the model, whatever the failure function would say."""

    @function_tool(failure_error_function=lambda ctx, error: "hidden")
    async def pay() -> str:
        raise FunctionError("There is no such order.")

    outcome = await call_function(pay)
    assert (outcome.kind, outcome.text) == ("failure", "There is no such order.")


@pytest.mark.parametrize(
    ("words", "crash_type"),
    [
        (lambda ctx, error: 7, "TypeError"),
        (lambda ctx, error: 1 / 0, "ZeroDivisionError"),
        (None, "KeyError"),
        ("Closed.", "KeyError"),
    ],
)
async def test_without_words_a_failure_is_a_crash(words: Any, crash_type: str) -> None:
    """Of which the server tells the model what the agent says; a failure function that fails is one itself."""

    @function_tool(failure_error_function=words)
    async def pay() -> str:
        raise KeyError("x")

    outcome = await call_function(pay)
    assert (outcome.kind, outcome.crash_type) == ("crash", crash_type)


def test_a_function_by_the_agents_sdks_fields() -> None:
    """`FunctionTool` by hand, in its order."""

    async def invoke(ctx: Any, arguments: str) -> str:
        return arguments

    made = FunctionTool(
        "echo",
        "Echoes.",
        {"type": "object", "properties": {}},
        invoke,
        True,
        True,
        None,
        None,
        True,
        timeout_seconds=2,
        timeout_behavior="raise_exception",
    )

    written = tool_to_pb(made)
    assert (written.description, written.needs_approval.always, made.timeout) == ("Echoes.", True, 2)
    assert written.execution.timeout.seconds == 2 and written.on_timeout.fail_turn


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"needs_approval": "always"}, UserError, "pay: needs_approval must be True, False, a function"),
        ({"needs_approval": None}, UserError, "not None"),
        ({"is_enabled": 1}, UserError, "pay: is_enabled must be True, False, a function or a RemoteHook, not 1"),
        ({"tool_input_guardrails": [len]}, TypeError, "no tool input guardrail; decorate the function with"),
        ({"failure_error_function": 7}, UserError, "must be a function, a text or a RemoteHook, not 7"),
        ({"failure_error_function": ""}, UserError, "a text has 1 to 4096 characters, not 0"),
        ({"defer_loading": "yes"}, TypeError, "pay: defer_loading must be True or False, not 'yes'"),
        ({"custom_data_extractor": "x"}, TypeError, "custom_data_extractor must be a function"),
        (
            {"timeout_behavior": "raise_exception", "timeout_error_function": "late"},
            UserError,
            "tells the model nothing; leave out one of both",
        ),
    ],
)
def test_mistakes_in_functions_are_named(options: dict[str, Any], error: type[Exception], says: str) -> None:
    """With the function's name, the value, and what would be right; elsewhere too."""
    for make in (tool, lambda **given: RemoteFunction("pay", **given)):
        with pytest.raises(error) as caught:
            make(**options)
        assert says in str(caught.value)


def test_an_approval_expires_within_bounds() -> None:
    """A second to thirty days."""
    with pytest.raises(ValueError, match="expires must be 1 to"):
        Approval(expires=0.5)
    with pytest.raises(UserError, match="needs_approval must be"):
        Approval("yes")  # type: ignore[arg-type]


def test_what_only_an_agent_can_say_a_worker_does_not_host() -> None:
    """Else it would be passed over in silence."""
    worker = Worker()
    with pytest.raises(UserError, match="a worker cannot say needs_approval, failure_error_function: the agent does"):
        worker.add(tool(needs_approval=True, failure_error_function=None))
    worker.add(tool(failure_error_function=lambda ctx, error: "x", timeout=1, tool_input_guardrails=[]))
    with pytest.raises(TypeError, match=r"Worker.function does not support is_enabled"):
        worker.function(is_enabled=False)  # type: ignore[call-overload]


def test_deferred_functions_need_something_that_finds_them() -> None:
    """One search at most."""
    deferred = RemoteFunction("pay", defer_loading=True)
    with pytest.raises(UserError, match=r"pay: defer_loading needs a ToolSearchTool\(\)"):
        agent_to_pb(Agent(name="A", tools=[deferred]))
    with pytest.raises(UserError, match="at most one ToolSearchTool, not 2"):
        agent_to_pb(Agent(name="A", tools=[ToolSearchTool(), ToolSearchTool()]))
    assert agent_to_pb(Agent(name="A", tools=[deferred, ToolSearchTool()])).tools[0].function.defer_loading


@pytest.mark.parametrize("wrong", [{"name": "x"}, "web_search", {"type": 1}, {"type": "x", "n": float("nan")}])
def test_a_hosted_tool_is_an_object_with_a_type(wrong: Any) -> None:
    """As the model's API writes it."""
    with pytest.raises(UserError, match="HostedTool"):
        HostedTool(wrong)


# --- agents as tools, and handoffs --------------------------------------------------------------------------


class Order(BaseModel):
    """Arguments."""

    number: int


def test_an_agent_as_a_tool_is_written() -> None:
    """With all that was said of it."""
    agent: Agent[None] = Agent(name="Letter Writer!")
    made = agent.as_tool(
        None,
        "Writes.",
        max_turns=3,
        needs_approval=True,
        is_enabled=False,
        failure_error_function=None,
        parameters=Order,
    )

    written = made.to_pb(named)
    assert (made.name, written.agent, written.tool_name) == ("letter_writer_", "Letter Writer!", "")
    assert (written.description, written.max_turns, written.needs_approval.always) == ("Writes.", 3, True)
    assert written.enabled == agent_pb2.Enabled(always=False) and written.on_crash.fail_turn
    assert json.loads(written.parameters_json)["required"] == ["number"]
    assert made.params_json_schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"max_turns": 0}, UserError, "the agent tool 'w': max_turns must be at least 1, not 0"),
        ({"parameters": {"n": int}}, UserError, "parameters must be a pydantic model or a dataclass"),
        ({"input_builder": "x"}, UserError, "input_builder must be a function or a RemoteHook, not 'x'"),
        ({"on_stream": print, "session": None}, TypeError, "Agent.as_tool does not support on_stream, session"),
    ],
)
def test_mistakes_in_agent_tools_are_named(options: dict[str, Any], error: type[Exception], says: str) -> None:
    """With the tool's name, the value, and what would be right."""
    with pytest.raises(error) as caught:
        Agent(name="W").as_tool("w", "", **options)
    assert says in str(caught.value)


def test_a_handoff_is_written() -> None:
    """With all that was said of it; an input schema is strict."""
    made = handoff(
        Agent(name="Billing"),
        tool_name_override="to_billing",
        tool_description_override="For invoices.",
        on_handoff=lambda ctx, order: None,
        input_type=Order,
        input_filter=RemoteHook("less"),
        nest_handoff_history=False,
        is_enabled=RemoteHook("open"),
    )

    written = made.to_pb(named)
    assert (written.agent, written.tool_name, written.tool_description) == ("Billing", "to_billing", "For invoices.")
    assert json.loads(written.input_schema_json)["additionalProperties"] is False
    assert (written.on_handoff.name, written.input_filters[0].hook.name) == ("<lambda>", "less")
    assert written.HasField("nest_history") and not written.nest_history
    assert written.enabled.hook.name == "open"


def test_a_handoff_names_itself() -> None:
    """As the model is told where nothing else is said."""
    made = handoff(Agent(name="Billing Agent!", handoff_description="Knows invoices."))

    assert made.get_tool_name() == "transfer_to_billing_agent_"
    assert made.default_tool_description(made.agent).endswith(
        "Billing Agent! agent to handle the request. Knows invoices."
    )
    assert made.get_transfer_message(made.agent) == '{"assistant": "Billing Agent!"}'
    assert function_style("Ünï 1") == "_n__1"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"input_type": Order}, UserError, "needs on_handoff, which gets the input"),
        ({"on_handoff": lambda ctx, given: None}, UserError, "must take one argument, the context"),
        ({"on_handoff": lambda ctx: None, "input_type": Order}, UserError, "must take two arguments"),
        ({"on_handoff": 7}, UserError, "on_handoff must be a function or a RemoteHook, not 7"),
        ({"on_handoff": lambda *given: None, "input_type": list[int]}, UserError, "of a handoff has no strict schema"),
        ({"is_enabled": None}, UserError, "the handoff to 'B': is_enabled must be True, False"),
        ({"nest_handoff_history": 1}, TypeError, "nest_handoff_history must be"),
        ({"input_filter": 7}, TypeError, "the handoff to 'B': input_filter must be a function or a RemoteHook, not 7"),
    ],
)
def test_mistakes_in_handoffs_are_named(options: dict[str, Any], error: type[Exception], says: str) -> None:
    """With the value, and what would be right."""
    with pytest.raises(error) as caught:
        handoff(Agent(name="B"), **options)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("terms", "says"),
    [([], "1 to 256 texts, not 0"), (["a" * 257], "1 to 256 characters, not 257"), ("password", "a list of texts")],
)
def test_terms_are_texts_within_bounds(terms: Any, says: str) -> None:
    """With the value."""
    with pytest.raises((TypeError, ValueError), match=says):
        baton.AllowTerms(terms)
