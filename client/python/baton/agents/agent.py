"""Agents as data: what they are told, what they may call, whom they hand over to, what checks them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, Unpack

from baton.agents.agent_output import AgentOutputSchemaBase, output_schema_of, output_schema_to_pb
from baton.agents.agent_tool import AgentTool, AgentToolOptions
from baton.agents.graph import reachable
from baton.agents.guardrails import (
    AnyInputGuardrail,
    AnyOutputGuardrail,
    checked_guardrails,
    checked_output_guardrails,
    guardrails_to_pb,
    output_guardrails_to_pb,
)
from baton.agents.handoffs import Handoff
from baton.agents.lifecycle import AgentHooks, hooks_to_pb
from baton.agents.model_settings import ModelSettings, Reasoning, read_settings, settings_to_pb
from baton.agents.tool_use import ToolUseBehavior, check_tool_use, tool_use_to_pb
from baton.agents.tool_writing import Tool, tools_to_pb
from baton.checks import check_bool, check_list, check_text
from baton.hooks import RemoteHook
from baton.hooks.refs import RefOf, hook_use, only_remote
from baton.options import options, refusing_unknown
from baton.v1 import agent_pb2

__all__ = ["Agent", "ModelSettings", "Reasoning", "Tool", "agent_to_pb"]

TContext = TypeVar("TContext")

MOST_NAME = 128
"""Characters of an agent's name (agent.proto, Agent.name)."""

MODEL_OBJECT = (
    "is no name of a model: the server asks the model, so that it is named here and configured there; write the name, "
    'such as "gpt-5" or "openai/gpt-5"'
)


@options
@dataclass(eq=False, repr=False)
class Agent(Generic[TContext]):
    """An agent. It may be changed at any time; a run takes it as it is when it begins.

    `instructions`: a text; a function `(context, agent)`, sync or async, asked before each request of the model; a
    `RemoteHook`; None: none. `handoffs`: other agents, or what `handoff` makes; they may lead back here.
    `handoff_description`: told to agents that can hand over to this one. `tools` are functions of this process
    (`function_tool`) and of workers elsewhere (`RemoteFunction`), other agents (`as_tool`), and tools of the model's
    provider (`HostedTool`, `ToolSearchTool`). `model` None: the server's default. `model_settings`: a ModelSettings,
    or a dict of its fields.

    `input_guardrails` check what goes into a turn that starts with it, `output_guardrails` its final output: of this
    process (`input_guardrail`, `output_guardrail`), elsewhere (`RemoteHook`), or without a program (`DenyTerms`,
    `AllowTerms`). `output_type`: of the final output: a pydantic model, a dataclass, `list[str]` and so on, or an
    `AgentOutputSchema`; None: a text. `hooks`: an `AgentHooks`, told what happens with it.

    `tool_use_behavior`: what happens after functions ran: "run_llm_again"; "stop_on_first_tool": the output of the
    first call is the final one; {"stop_at_tool_names": [names]}; a function `(context, results)` that gives a
    ToolsToFinalOutputResult; or a `RemoteHook`. `reset_tool_choice`: drop `tool_choice` after the first call, so that a
    forced tool is not forced for ever.
    """

    name: str
    instructions: str | Callable[[Any, Agent[Any]], Any] | RemoteHook | None = None
    handoff_description: str | None = None
    handoffs: list[Agent[Any] | Handoff[Any]] = field(default_factory=list)
    model: str | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    tools: Sequence[Tool] = field(default_factory=list)
    input_guardrails: Sequence[AnyInputGuardrail] = field(default_factory=list)
    output_guardrails: Sequence[AnyOutputGuardrail] = field(default_factory=list)
    output_type: Any = None
    hooks: AgentHooks[Any] | None = None
    tool_use_behavior: ToolUseBehavior = "run_llm_again"
    reset_tool_choice: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.model_settings, Mapping):
            self.model_settings = read_settings(f"Agent {self.name!r}", self.model_settings) or ModelSettings()
        self._schema: tuple[Any, AgentOutputSchemaBase | None] = (None, None)
        check_agent(self)

    def __repr__(self) -> str:
        """Show its name: all that it leads to would be shown as well, over and over."""
        return f"Agent(name={self.name!r})"

    @property
    def output_schema(self) -> AgentOutputSchemaBase | None:
        """The shape of its final output; None: a text. Raises UserError for an output type without a schema."""
        if self._schema[0] is not self.output_type:
            self._schema = (self.output_type, output_schema_of(self.output_type))
        return self._schema[1]

    def ways_out(self) -> list[Handoff[Any]]:
        """List its handoffs, each as one."""
        return [way if isinstance(way, Handoff) else Handoff(way) for way in self.handoffs]

    def find_tool(self, name: str) -> Tool | None:
        """Find what the model calls by a name: the last tool of it; None: none."""
        return next((tool for tool in reversed(self.tools) if tool.name == name), None)

    def clone(self, **changes: Any) -> Agent[TContext]:
        """Copy the agent with some fields changed. Lists that are not changed are shared with it."""
        return dataclasses.replace(self, **changes)

    @refusing_unknown("Agent.as_tool", AgentToolOptions.__annotations__)
    def as_tool(
        self,
        tool_name: str | None = None,
        tool_description: str | None = None,
        **options: Unpack[AgentToolOptions],
    ) -> AgentTool:
        """Make a tool of this agent for others: its run is nested, and only its output is told to them.

        `tool_name` None: its name in function style. `options`: `AgentToolOptions`.
        """
        return AgentTool(agent=self, tool_name=tool_name, tool_description=tool_description, **options)


def check_agent(agent: Agent[Any]) -> None:
    """Check what an agent says of itself. Raises TypeError or UserError, with its name and the value."""
    check_text("an agent's name", agent.name, most=MOST_NAME, none=False)
    owner = f"Agent {agent.name!r}"
    given = agent.instructions
    if given is not None and not isinstance(given, str | RemoteHook) and not callable(given):
        raise TypeError(f"{owner}: instructions must be a text, a function or a RemoteHook, not {type(given).__name__}")
    check_model(owner, agent.model)
    if not isinstance(agent.model_settings, ModelSettings):
        raise TypeError(f"{owner}: model_settings must be a ModelSettings or a dict, not {agent.model_settings!r}")
    check_text(f"{owner}: handoff_description", agent.handoff_description)
    for field_name in ("tools", "handoffs", "input_guardrails", "output_guardrails"):
        check_list(f"{owner}: {field_name}", getattr(agent, field_name))
    for tool in agent.tools:
        if not isinstance(tool, Tool):
            raise TypeError(f"{owner}: {tool!r} is no tool; decorate the function with function_tool")
    for way in agent.handoffs:
        if not isinstance(way, Agent | Handoff):
            raise TypeError(f"{owner}: a handoff is an Agent, or what handoff() makes, not {way!r}")
    checked_guardrails(owner, agent.input_guardrails)
    checked_output_guardrails(owner, agent.output_guardrails)
    check_tool_use(owner, agent.tool_use_behavior)
    if agent.hooks is not None and not isinstance(agent.hooks, AgentHooks):
        raise TypeError(f"{owner}: hooks must be an AgentHooks, not {agent.hooks!r}")
    check_bool(f"{owner}: reset_tool_choice", agent.reset_tool_choice)
    _ = agent.output_schema  # raises for what has none


def check_model(owner: str, model: object) -> None:
    """Check what stands for a model. Raises TypeError for an object of a model."""
    if model is not None and not isinstance(model, str):
        raise TypeError(f"{owner}: model: {model!r} {MODEL_OBJECT}"[:800])


# -- for the wire --------------------------------------------------------------------------------


def agent_to_pb(agent: Agent[Any], ref_of: RefOf = only_remote) -> agent_pb2.Agent:
    """Write `baton.v1.Agent`, and all agents that it leads to.

    `ref_of`: how hooks are named; without it, UserError for those of this process. Raises UserError for two agents of
    one name.
    """
    first, *others = reachable(agent).values()
    made = _one_to_pb(first, ref_of)
    made.agents.extend(_one_to_pb(one, ref_of) for one in others)
    return made


def _one_to_pb(agent: Agent[Any], ref_of: RefOf) -> agent_pb2.Agent:
    check_agent(agent)
    made = agent_pb2.Agent(
        name=agent.name,
        model=agent.model or "",
        tools=tools_to_pb(agent.tools, ref_of),
        handoffs=[way.to_pb(ref_of) for way in agent.ways_out()],
        handoff_description=agent.handoff_description or "",
        input_guardrails=guardrails_to_pb(agent.input_guardrails, ref_of),
        output_guardrails=output_guardrails_to_pb(agent.output_guardrails, ref_of),
        tool_use_behavior=tool_use_to_pb(agent, ref_of),
        keep_tool_choice=not agent.reset_tool_choice,
        lifecycle_hooks=hooks_to_pb(agent.hooks, ref_of),
    )
    if isinstance(agent.instructions, str):
        made.instructions = agent.instructions
    elif agent.instructions is not None:
        made.instructions_hook.CopyFrom(ref_of(hook_use("instructions", agent.instructions, _instructions_arguments)))
    if agent.model_settings != ModelSettings():
        made.model_settings.CopyFrom(settings_to_pb(agent.model_settings, ref_of))
    if agent.output_schema is not None:
        made.output_schema.CopyFrom(output_schema_to_pb(agent.output_schema))
    return made


def _instructions_arguments(data: Any) -> tuple[Any, ...]:
    return data, data.agent
