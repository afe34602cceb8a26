"""Agents and run configurations as data: what a turn pins when it is accepted, and never changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

DEFAULT_MAX_TURNS = 10
"""Rounds of a turn where nobody says otherwise: the Agents SDK's default."""

DEFAULT_HOOK_TIMEOUT_S = 30.0
"""How long a hook may take where nobody says otherwise (agent.proto, `HookRef.timeout`)."""

DEFAULT_UNSERVED_GRACE_S = 2.0
"""How long a name may be unserved before a run rests (run_config.proto, `unserved_grace`)."""


class History(StrEnum):
    """What the model remembers of former turns: `baton.v1.History`."""

    SESSION = "SESSION"
    CALLER = "CALLER"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a model is asked: `baton.v1.ModelSettings`. None or empty leaves it to the layer below."""

    temperature: float | None = None
    top_p: float | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    truncation: str | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    reasoning_summary: str | None = None
    verbosity: str | None = None
    metadata: Mapping[str, str] | None = None
    store: bool | None = None

    def under(self, over: ModelSettings) -> ModelSettings:
        """Lay `over` on these settings: what it says wins, field by field."""
        said = {f.name: value for f in fields(over) if _is_said(value := getattr(over, f.name))}
        return replace(self, **said) if said else self


class LostWorker(StrEnum):
    """What the loss of a worker means for the call that it had: `baton.v1.LostWorker`."""

    REDELIVER = "REDELIVER"
    ASK = "ASK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a function is executed: `baton.v1.Execution`. None or empty: not said; the layer below decides.

    `timeout_s` runs from the first ack over all attempts, `expires_s` from the call's commit. `idempotency_fields`:
    JSON Pointers into the arguments.
    """

    timeout_s: float | None = None
    expires_s: float | None = None
    lost_worker: LostWorker | None = None
    max_attempts: int | None = None
    idempotency_fields: tuple[str, ...] = ()

    def under(self, over: Execution) -> Execution:
        """Lay `over` (the agent's) on these (the handler's), field by field."""
        said = {f.name: value for f in fields(over) if (value := getattr(over, f.name)) not in (None, ())}
        return replace(self, **said) if said else self


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool:
    """A function that the agent may call: `baton.v1.FunctionTool`, resolved.

    `parameters_json`: JSON Schema of the arguments. Empty only before a turn is accepted: then it is taken
    from the registered handler. `strict`: arguments that break the schema never reach the handler. None only
    before acceptance: as the schema allows. `timeout_text`: what the model is told when the timeout passes,
    empty: a default sentence; `timeout_fails_turn`: the turn fails instead. `handler_version` empty: any.
    """

    name: str
    description: str = ""
    parameters_json: str = ""
    strict: bool | None = None
    execution: Execution = field(default_factory=Execution)
    timeout_text: str = ""
    timeout_fails_turn: bool = False
    handler_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRef:
    """Names a program that answers a question of the Runner: `baton.v1.HookRef`. `timeout_s` from being asked."""

    name: str
    timeout_s: float = DEFAULT_HOOK_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail:
    """Checks what goes in: `baton.v1.Guardrail`. `blocking`: before the model is asked, else beside it."""

    name: str
    hook: HookRef
    blocking: bool = False


class Moment(StrEnum):
    """A moment of a turn: `baton.v1.LifecycleMoment`."""

    AGENT_START = "AGENT_START"
    AGENT_END = "AGENT_END"
    MODEL_START = "MODEL_START"
    MODEL_END = "MODEL_END"
    FUNCTION_START = "FUNCTION_START"
    FUNCTION_END = "FUNCTION_END"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleHook:
    """A program that is told what happens: `baton.v1.LifecycleHook`. `moments` empty: all."""

    hook: HookRef
    moments: tuple[Moment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent: `baton.v1.Agent`. `instructions` None: none. `model` empty: the server's default."""

    name: str
    instructions: str | None = None
    model: str = ""
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    functions: tuple[FunctionTool, ...] = ()
    input_guardrails: tuple[Guardrail, ...] = ()

    def function(self, name: str) -> FunctionTool | None:
        """Find a function by its name; None: the agent does not have it."""
        return next((f for f in self.functions if f.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """The span of a turn: `baton.v1.Tracing`."""

    disabled: bool = False
    workflow_name: str = ""
    group_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Options of a turn: `baton.v1.RunConfig`. None: not said; the layer below decides.

    `max_turns` counts rounds; `unlimited_turns` lifts the limit and then `max_turns` is None. `scopes` are
    those in which handlers are looked up, in order, before the empty one. `unserved_grace_s` in seconds.
    """

    max_turns: int | None = None
    unlimited_turns: bool = False
    model: str = ""
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    history: History | None = None
    tracing: Tracing | None = None
    unserved_grace_s: float | None = None
    scopes: tuple[str, ...] = ()
    input_guardrails: tuple[Guardrail, ...] = ()
    model_input_filters: tuple[HookRef, ...] = ()
    lifecycle_hooks: tuple[LifecycleHook, ...] = ()

    def under(self, over: RunConfig) -> RunConfig:
        """Lay `over` (a run's options) on these (a session's defaults), field by field."""
        limited = over.max_turns is not None or over.unlimited_turns
        grace = self.unserved_grace_s if over.unserved_grace_s is None else over.unserved_grace_s
        return RunConfig(
            max_turns=over.max_turns if limited else self.max_turns,
            unlimited_turns=over.unlimited_turns if limited else self.unlimited_turns,
            model=over.model or self.model,
            model_settings=self.model_settings.under(over.model_settings),
            history=over.history or self.history,
            tracing=over.tracing or self.tracing,
            unserved_grace_s=grace,
            scopes=over.scopes or self.scopes,
            input_guardrails=over.input_guardrails or self.input_guardrails,
            model_input_filters=over.model_input_filters or self.model_input_filters,
            lifecycle_hooks=over.lifecycle_hooks or self.lifecycle_hooks,
        )

    @property
    def round_limit(self) -> int | None:
        """Rounds that the turn may take; None: no limit."""
        if self.unlimited_turns:
            return None
        return DEFAULT_MAX_TURNS if self.max_turns is None else self.max_turns

    @property
    def lookup(self) -> tuple[str, ...]:
        """Scopes in the order in which a handler is looked up, the empty one last."""
        return (*(s for s in self.scopes if s), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """What a turn runs with, whatever is changed later: its agent and its configuration, resolved."""

    agent: Agent
    config: RunConfig

    @property
    def model(self) -> str:
        """Name of the model to ask; empty: the server's default."""
        return self.config.model or self.agent.model

    @property
    def input_guardrails(self) -> tuple[Guardrail, ...]:
        """List the checks of what goes in: the agent's, then the run's."""
        return (*self.agent.input_guardrails, *self.config.input_guardrails)

    @property
    def settings(self) -> ModelSettings:
        """How the model is asked: the agent's settings under the run's."""
        return self.agent.model_settings.under(self.config.model_settings)


def _is_said(value: object) -> bool:
    # 0, 0.0 and False are said; an empty text or no labels are not.
    return value is not None and value != "" and value != {}
