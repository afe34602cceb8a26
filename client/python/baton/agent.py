"""Agents as data: what they are told and what they may call."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from baton.hook_refs import RefOf, checked_guardrails, guardrails_to_pb, only_remote
from baton.hooks import InputGuardrail, RemoteHook
from baton.options import options
from baton.tools import FunctionTool, RemoteFunction, tool_to_pb
from baton.v1 import agent_pb2

TContext = TypeVar("TContext")
Tool = FunctionTool | RemoteFunction


@options
@dataclass(frozen=True)
class Reasoning:
    """How hard a model thinks, and whether it tells. Names are the provider's; None: the model's default."""

    effort: str | None = None
    summary: str | None = None


@options
@dataclass(frozen=True)
class ModelSettings:
    """How a model is asked. None leaves it to the layer below: the agent's settings, then the model's own.

    `tool_choice` is "auto", "required", "none" or a function's name. `reasoning` is a `Reasoning`, or anything
    with its two attributes or keys.
    """

    temperature: float | None = None
    top_p: float | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    truncation: str | None = None
    max_tokens: int | None = None
    reasoning: Reasoning | Mapping[str, str] | None = None
    verbosity: str | None = None
    metadata: Mapping[str, str] | None = None
    store: bool | None = None


@options
@dataclass
class Agent(Generic[TContext]):
    """An agent. `instructions` None: none. `model` None: the server's default.

    `tools` are functions of this process (`function_tool`) and of workers elsewhere (`RemoteFunction`).
    `input_guardrails` check what goes into a turn: of this process (`input_guardrail`) or elsewhere (`RemoteHook`).
    """

    name: str
    instructions: str | None = None
    model: str | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    tools: Sequence[Tool] = field(default_factory=list)
    input_guardrails: Sequence[InputGuardrail | RemoteHook] = field(default_factory=list)

    def __post_init__(self) -> None:
        checked_guardrails(f"Agent {self.name!r}", self.input_guardrails)
        for option, value in (("instructions", self.instructions), ("model", self.model)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"Agent {self.name!r}: {option} must be a text, not {type(value).__name__}")
        for tool in self.tools:
            if not isinstance(tool, Tool):
                raise TypeError(f"Agent {self.name!r}: {tool!r} is no tool; decorate the function with function_tool")

    def clone(self, **changes: Any) -> Agent[TContext]:
        """Copy the agent with some fields changed."""
        return dataclasses.replace(self, **changes)


def agent_to_pb(agent: Agent[Any], ref_of: RefOf = only_remote) -> agent_pb2.Agent:
    """Write `baton.v1.Agent`. `ref_of`: how its hooks are named; without it, UserError for those of this process."""
    made = agent_pb2.Agent(
        name=agent.name,
        model=agent.model or "",
        tools=[agent_pb2.Tool(function=tool_to_pb(tool)) for tool in agent.tools],
        input_guardrails=guardrails_to_pb(agent.input_guardrails, ref_of),
    )
    if agent.instructions is not None:
        made.instructions = agent.instructions
    if agent.model_settings != ModelSettings():
        made.model_settings.CopyFrom(settings_to_pb(agent.model_settings))
    return made


def settings_to_pb(settings: ModelSettings) -> agent_pb2.ModelSettings:
    """Write `baton.v1.ModelSettings`."""
    made = agent_pb2.ModelSettings(
        temperature=settings.temperature,
        top_p=settings.top_p,
        tool_choice=settings.tool_choice or "",
        parallel_tool_calls=settings.parallel_tool_calls,
        truncation=settings.truncation or "",
        max_tokens=settings.max_tokens,
        verbosity=settings.verbosity or "",
        metadata=settings.metadata,
        store=settings.store,
    )
    if settings.reasoning is not None:
        made.reasoning.effort = _either(settings.reasoning, "effort")
        made.reasoning.summary = _either(settings.reasoning, "summary")
    return made


def _either(value: Reasoning | Mapping[str, str], name: str) -> str:
    found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return found or ""
