"""Agents as the contract carries them: what each option becomes, and what is refused where it is written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.own_hooks import hooks_of
from typing_extensions import TypedDict

from baton import (
    Agent,
    AgentHooks,
    AgentOutputSchema,
    AgentOutputSchemaBase,
    AllowTerms,
    DenyTerms,
    HostedTool,
    ModelBehaviorError,
    ModelSettings,
    RemoteFunction,
    RemoteHook,
    StopAtTools,
    ToolSearchTool,
    ToolsToFinalOutputResult,
    UserError,
    function_tool,
    output_guardrail,
)
from baton.agents.agent import agent_to_pb
from baton.agents.agent_output import read_output
from baton.v1 import agent_pb2


class Recipe(BaseModel):
    """An output type."""

    ingredients: list[str]
    servings: int = 2


@dataclass
class Point:
    """Another."""

    x: int


class Named(TypedDict):
    """And another."""

    name: str


def test_an_agent_that_says_nothing_is_its_name() -> None:
    """Defaults are the contract's, so that they are not said."""
    assert agent_to_pb(Agent(name="Plain")) == agent_pb2.Agent(name="Plain")


def test_each_option_has_its_field() -> None:
    """Those without a program."""
    agent: Agent[None] = Agent(
        name="Support",
        instructions="Be brief.",
        handoff_description="Knows invoices.",
        model="openai/gpt-5",
        model_settings={"temperature": 0.5},  # type: ignore[arg-type]
        tools=[RemoteFunction("pay"), HostedTool({"type": "web_search"}), ToolSearchTool()],
        input_guardrails=[DenyTerms(["password"], name="No secrets", run_in_parallel=False)],
        output_guardrails=[AllowTerms(["Regards"], case_sensitive=True), RemoteHook("polite")],
        tool_use_behavior=StopAtTools(stop_at_tool_names=["pay"]),
        reset_tool_choice=False,
    )

    made = agent_to_pb(agent)

    assert (made.instructions, made.handoff_description, made.model) == ("Be brief.", "Knows invoices.", "openai/gpt-5")
    assert made.model_settings.temperature == 0.5
    assert [tool.WhichOneof("tool") for tool in made.tools] == ["function", "hosted", "tool_search"]
    assert json.loads(made.tools[1].hosted.tool_json) == {"type": "web_search"}
    assert list(made.input_guardrails) == [
        agent_pb2.Guardrail(name="No secrets", deny=agent_pb2.Terms(terms=["password"]), blocking=True)
    ]
    assert list(made.output_guardrails) == [
        agent_pb2.Guardrail(name="AllowTerms", allow=agent_pb2.Terms(terms=["Regards"], case_sensitive=True)),
        agent_pb2.Guardrail(name="polite", hook=agent_pb2.HookRef(name="polite")),
    ]
    assert list(made.tool_use_behavior.stop_at_tools.names) == ["pay"]
    assert made.keep_tool_choice


def test_a_graph_is_written_whole_from_the_agent_that_starts() -> None:
    """Handoffs may lead back, and agents are found through tools as well; each stands there once."""
    triage: Agent[None] = Agent(name="Triage")
    billing: Agent[None] = Agent(name="Billing", handoffs=[triage])
    writer: Agent[None] = Agent(name="Writer")
    triage.handoffs += [billing]
    billing.tools = [writer.as_tool("write", "Writes letters.")]

    made = agent_to_pb(triage)

    assert (made.name, [one.name for one in made.agents]) == ("Triage", ["Billing", "Writer"])
    assert [way.agent for way in made.handoffs] == ["Billing"]
    assert [way.agent for way in made.agents[0].handoffs] == ["Triage"]
    assert made.agents[0].tools[0].agent == agent_pb2.AgentTool(
        agent="Writer", tool_name="write", description="Writes letters."
    )
    assert repr(billing) == "Agent(name='Billing')" and triage != billing


def test_two_agents_of_one_name_cannot_be_in_one_run() -> None:
    """A name says which agent it is; the same object twice is one."""
    same: Agent[None] = Agent(name="Same")
    both: Agent[None] = Agent(name="A", handoffs=[same, same.clone()])

    with pytest.raises(UserError, match="two agents are named 'Same'"):
        agent_to_pb(both)
    assert len(agent_to_pb(both.clone(handoffs=[same, same])).agents) == 1


@pytest.mark.parametrize(
    ("behaviour", "written"),
    [
        ("run_llm_again", None),
        ("stop_on_first_tool", agent_pb2.ToolUseBehavior(stop_on_first_tool=True)),
        (RemoteHook("judge"), agent_pb2.ToolUseBehavior(hook=agent_pb2.HookRef(name="judge"))),
    ],
)
def test_what_follows_from_functions_is_written(behaviour: Any, written: agent_pb2.ToolUseBehavior | None) -> None:
    """The default is not said."""
    made = agent_to_pb(Agent(name="A", tool_use_behavior=behaviour))

    assert made == agent_pb2.Agent(name="A", tool_use_behavior=written)


@pytest.mark.parametrize(
    ("output_type", "schema"),
    [
        (
            Recipe,
            {
                "type": "object",
                "title": "Recipe",
                "description": "An output type.",
                "properties": {
                    "ingredients": {"type": "array", "items": {"type": "string"}, "title": "Ingredients"},
                    "servings": {"type": "integer", "default": 2, "title": "Servings"},
                },
                "required": ["ingredients", "servings"],
                "additionalProperties": False,
            },
        ),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    ],
)
def test_an_output_type_is_a_strict_schema(output_type: Any, schema: dict[str, Any]) -> None:
    """Of any root: the server wraps what a model's API does not take."""
    written = agent_to_pb(Agent(name="A", output_type=output_type)).output_schema

    assert json.loads(written.schema_json) == schema
    assert not written.HasField("strict")


def test_a_list_of_models_keeps_its_definitions() -> None:
    """At the root, where references look for them, each closed."""
    schema = json.loads(agent_to_pb(Agent(name="A", output_type=list[Recipe])).output_schema.schema_json)

    assert (schema["type"], schema["items"]) == ("array", {"$ref": "#/$defs/Recipe"})
    assert schema["$defs"]["Recipe"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("output_type", "output_json", "value"),
    [
        (None, '"Hello"', "Hello"),
        (str, '"Hello"', "Hello"),
        (Recipe, '{"ingredients":["egg"],"servings":1}', Recipe(ingredients=["egg"], servings=1)),
        (Point, '{"x":3}', Point(3)),
        (Named, '{"name":"Ann"}', {"name": "Ann"}),
        (list[int], "[1,2]", [1, 2]),
        (AgentOutputSchema(dict[str, int], strict_json_schema=False), '{"a":1}', {"a": 1}),
    ],
)
def test_a_final_output_is_a_value_of_the_type(output_type: Any, output_json: str, value: Any) -> None:
    """Of its JSON, as a turn carries it."""
    agent: Agent[None] = Agent(name="A", output_type=output_type)

    assert read_output(agent, output_json) == value


def test_an_output_that_does_not_fit_is_the_models_fault() -> None:
    """With the place, as validators beyond a schema may find it."""
    with pytest.raises(ModelBehaviorError, match=r"no Recipe: servings: .*integer"):
        read_output(Agent(name="A", output_type=Recipe), '{"ingredients":[],"servings":"two"}')


def test_an_output_type_of_ones_own_gives_schema_and_values() -> None:
    """Whatever it makes of the JSON."""

    class Shout(AgentOutputSchemaBase):
        def is_plain_text(self) -> bool:
            return False

        def name(self) -> str:
            return "Shout"

        def json_schema(self) -> dict[str, Any]:
            return {"type": "object"}

        def is_strict_json_schema(self) -> bool:
            return False

        def validate_json(self, json_str: str) -> Any:
            return json_str.upper()

    agent: Agent[None] = Agent(name="A", output_type=Shout())

    written = agent_to_pb(agent).output_schema
    assert (written.schema_json, written.strict) == ('{"type":"object"}', False)
    assert read_output(agent, '{"a":"b"}') == '{"A":"B"}'


def test_an_output_type_may_be_changed() -> None:
    """An agent is what it is when a run begins."""
    agent: Agent[None] = Agent(name="A", output_type=Recipe)
    agent.output_type = list[int]

    assert json.loads(agent_to_pb(agent).output_schema.schema_json)["type"] == "array"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"name": ""}, UserError, "an agent's name must be a text of 1 to 128 characters, not ''"),
        ({"instructions": 7}, TypeError, "Agent 'A': instructions must be a text, a function or a RemoteHook, not int"),
        ({"model": object()}, TypeError, "is no name of a model: the server asks the model"),
        ({"handoffs": ["B"]}, TypeError, "a handoff is an Agent, or what handoff() makes, not 'B'"),
        ({"tools": [len]}, TypeError, "is no tool; decorate the function with function_tool"),
        ({"output_guardrails": [len]}, TypeError, "no output guardrail; decorate the function with output_guardrail"),
        ({"output_type": dict[str, int]}, UserError, "the output type dict[str, int] has no strict schema"),
        ({"output_type": AgentHooks}, UserError, "the output type AgentHooks has no schema"),
        ({"hooks": object()}, TypeError, "hooks must be an AgentHooks"),
        ({"tool_use_behavior": "stop"}, UserError, "or a RemoteHook, not 'stop'"),
        ({"tool_use_behavior": {"stop_at_tool_names": []}}, UserError, "{'stop_at_tool_names': []}"),
        ({"reset_tool_choice": 1}, TypeError, "reset_tool_choice must be True or False, not 1"),
        ({"model_settings": {"heat": 1}}, TypeError, "ModelSettings does not support heat"),
        ({"model_settings": {"temperature": 3}}, UserError, "temperature must be 0 to 2, not 3"),
        ({"prompt": {"id": "p"}, "mcp_servers": []}, TypeError, "Agent does not support prompt, mcp_servers"),
    ],
)
def test_mistakes_are_named_where_they_are_written(options: dict[str, Any], error: type[Exception], says: str) -> None:
    """With the value, and what would be right."""
    with pytest.raises(error) as caught:
        Agent(**{"name": "A", **options})
    assert says in str(caught.value)


def test_what_was_changed_wrongly_is_found_when_a_run_begins() -> None:
    """Agents are checked again when they are written."""
    agent: Agent[None] = Agent(name="A")
    agent.handoffs.append("B")  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="an Agent, not to 'B'"):
        agent_to_pb(agent)


def test_functions_of_this_process_need_a_run_to_host_them() -> None:
    """A kept agent cannot have them, and the message names each."""

    @output_guardrail
    def polite(ctx: Any, agent: Any, output: Any) -> Any:
        return True

    for agent, name in (
        (Agent(name="A", output_guardrails=[polite]), "polite"),
        (Agent(name="A", tool_use_behavior=lambda c, r: ToolsToFinalOutputResult(False)), "<lambda>"),
        (Agent(name="A", hooks=Listening()), "Listening"),
    ):
        with pytest.raises(UserError, match=f"the hook '{name}' is a function of this process"):
            agent_to_pb(agent)


class Listening(AgentHooks[Any]):
    """Overrides one method."""

    async def on_start(self, context: Any, agent: Any) -> None:
        """Hear."""


def test_hooks_are_told_of_what_they_override_alone() -> None:
    """Each moment costs a round trip; hooks that override nothing are not named at all."""
    made = agent_to_pb(Agent(name="A", hooks=Listening()), lambda use: agent_pb2.HookRef(name=use.name))

    assert list(made.lifecycle_hooks) == [
        agent_pb2.LifecycleHook(
            hook=agent_pb2.HookRef(name="Listening"), moments=[agent_pb2.LIFECYCLE_MOMENT_AGENT_START], awaited=True
        )
    ]
    assert not agent_to_pb(Agent(name="A", hooks=AgentHooks())).lifecycle_hooks


def test_one_function_in_many_places_is_served_once_for_each_kind() -> None:
    """Names are told apart where different functions share one."""

    def allowed(*_: Any) -> bool:
        return True

    first, second = (lambda c, a: "one"), (lambda c, a: "two")
    agents = [
        Agent(name="A", instructions=first, tools=[tool(is_enabled=allowed), tool("g", needs_approval=allowed)]),
        Agent(name="B", instructions=second, tools=[tool("h", is_enabled=allowed)]),
    ]
    agents[0].handoffs.append(agents[1])

    names = [(hook.kind.number, hook.name) for hook in hooks_of(agents[0])]

    assert sorted(names) == [(14, "_lambda_"), (14, "_lambda__2"), (15, "allowed"), (17, "allowed")]


def test_settings_of_an_agent_may_be_a_copy_with_changes() -> None:
    """`clone` leaves the first as it was."""
    agent: Agent[None] = Agent(name="A", model_settings=ModelSettings(temperature=1))

    made = agent.clone(name="B", model="gpt-5")

    assert (made.name, made.model, made.model_settings.temperature, agent.model) == ("B", "gpt-5", 1, None)


def tool(name: str = "f", **options: Any) -> Any:
    """Make a function."""
    return function_tool(name_override=name, **options)(lambda: "")
