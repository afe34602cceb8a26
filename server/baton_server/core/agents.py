"""Agents as data: what they are told, what they may call, whom they hand over to. What a turn pins never changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from baton_server.core.settings import ModelSettings
from baton_server.core.tools import AgentTool, Check, Enabled, FunctionTool, HookRef, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail:
    """Checks what goes in or what comes out: `baton.v1.Guardrail`.

    `blocking`: of what goes in, before the model is asked; else beside it.
    """

    name: str
    check: Check
    blocking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLast:
    """Keeps the newest items: `baton.v1.KeepLast`."""

    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimOutputs:
    """Shortens old, long outputs: `baton.v1.TrimOutputs`. `functions` empty: all."""

    recent_messages: int = 2
    max_chars: int = 500
    preview_chars: int = 200
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveAllTools:
    """Leaves out every call and output of a tool, and every handoff: `baton.v1.RemoveAllTools`."""


InputFilter = HookRef | KeepLast | TrimOutputs | RemoveAllTools
"""Changes what a model request carries: `baton.v1.InputFilter`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """A way to hand over to another agent of the graph: `baton.v1.Handoff`. `name`: as the model calls it.

    `input_schema_json` empty: the model says nothing. `nest_history` None: as the run's configuration says.
    """

    name: str
    agent: str
    description: str = ""
    input_schema_json: str = ""
    on_handoff: HookRef | None = None
    input_filters: tuple[InputFilter, ...] = ()
    nest_history: bool | None = None
    enabled: Enabled = field(default_factory=Enabled)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSchema:
    """Shape of a structured final output: `baton.v1.OutputSchema`. `strict`: the model is asked for it."""

    name: str
    schema_json: str
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseBehavior:
    """What happens after functions ran: `baton.v1.ToolUseBehavior`. Nothing said: the model is asked again."""

    stop_on_first: bool = False
    stop_at: tuple[str, ...] = ()
    hook: HookRef | None = None


class Moment(StrEnum):
    """A moment of a turn: `baton.v1.LifecycleMoment`."""

    AGENT_START = "AGENT_START"
    AGENT_END = "AGENT_END"
    MODEL_START = "MODEL_START"
    MODEL_END = "MODEL_END"
    FUNCTION_START = "FUNCTION_START"
    FUNCTION_END = "FUNCTION_END"
    HANDOFF = "HANDOFF"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleHook:
    """A program that is told what happens: `baton.v1.LifecycleHook`. `moments` empty: all. `awaited`: waited for."""

    hook: HookRef
    moments: tuple[Moment, ...] = ()
    awaited: bool = False

    def hears(self, moment: Moment) -> bool:
        """Tell whether it is told of a moment."""
        return not self.moments or moment in self.moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent: `baton.v1.Agent`. `instructions` None: none. `model` empty: the server's default.

    `output_schema` None: plain text. `agents`: the others of the graph, of the one that starts alone.
    """

    name: str
    instructions: str | None = None
    instructions_hook: HookRef | None = None
    model: str = ""
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    tools: tuple[Tool, ...] = ()
    handoffs: tuple[Handoff, ...] = ()
    handoff_description: str = ""
    output_schema: OutputSchema | None = None
    input_guardrails: tuple[Guardrail, ...] = ()
    output_guardrails: tuple[Guardrail, ...] = ()
    tool_use: ToolUseBehavior = field(default_factory=ToolUseBehavior)
    keep_tool_choice: bool = False
    lifecycle_hooks: tuple[LifecycleHook, ...] = ()
    agents: tuple[Agent, ...] = ()

    @property
    def is_structured(self) -> bool:
        """Tell whether its final output is JSON."""
        return self.output_schema is not None

    @property
    def functions(self) -> tuple[FunctionTool, ...]:
        """List its functions, in order."""
        return tuple(tool for tool in self.tools if isinstance(tool, FunctionTool))

    def function(self, name: str) -> FunctionTool | None:
        """Find a function by its name, the last of that name; None: the agent does not have it."""
        found = self.callable(name)
        return found if isinstance(found, FunctionTool) else None

    def callable(self, name: str) -> FunctionTool | AgentTool | Handoff | None:
        """Find what the model means by a name: a handoff, else the last tool of that name; None: nothing."""
        named = (tool for tool in (*self.tools, *self.handoffs) if getattr(tool, "name", None) == name)
        return next(reversed([tool for tool in named if isinstance(tool, FunctionTool | AgentTool | Handoff)]), None)

    def everyone(self) -> Iterator[Agent]:
        """List the agents of the graph that it starts, itself first."""
        yield self
        yield from self.agents


def function_style(name: str) -> str:
    """Write an agent's name as that of a function: what is no letter, digit or underscore becomes one."""
    kept = (letter if letter.isascii() and (letter.isalnum() or letter == "_") else "_" for letter in name)
    return "".join(kept).lower()


def handoff_name(agent: str) -> str:
    """Name the tool by which the model hands over to an agent, where nobody says otherwise."""
    return f"transfer_to_{function_style(agent)}"
