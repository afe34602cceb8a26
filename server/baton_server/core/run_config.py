"""Options of a turn as data, and what a turn pins: `baton.v1.RunConfig`, resolved when it is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from baton_server.core.agents import Agent, Guardrail, Handoff, InputFilter, LifecycleHook, Moment
from baton_server.core.settings import ModelSettings
from baton_server.core.tools import HookRef

DEFAULT_MAX_TURNS = 10
"""Rounds of a turn where nobody says otherwise: the Agents SDK's default."""

DEFAULT_UNSERVED_GRACE_S = 2.0
"""How long a name may be unserved before a run rests (run_config.proto, `unserved_grace`)."""


class HistoryMode(StrEnum):
    """Who remembers former turns: the arms of `baton.v1.History`."""

    SESSION = "SESSION"
    CALLER = "CALLER"
    CONVERSATION = "CONVERSATION"
    RESPONSE = "RESPONSE"
    STORED = "STORED"


KEPT_BY_MODEL = frozenset({HistoryMode.CONVERSATION, HistoryMode.RESPONSE})
"""Histories that the model's API keeps: only what is new is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the model remembers of former turns: `baton.v1.History`.

    `limit`: of SESSION and STORED, only the newest items; None: all. `id`: of the conversation, or of the reply to go
    on from; empty: a new chain. `auto`: each round goes on from the reply before. `store`: of STORED.
    """

    mode: HistoryMode = HistoryMode.SESSION
    limit: int | None = None
    id: str = ""
    auto: bool = False
    store: HookRef | None = None


class ToolNotFound(StrEnum):
    """What a call to a function means that the agent does not have: `baton.v1.ToolNotFound`."""

    FAIL_TURN = "FAIL_TURN"
    TELL_MODEL = "TELL_MODEL"


class ToolNameCollision(StrEnum):
    """What two tools of one name mean: `baton.v1.ToolNameCollision`."""

    LAST_WINS = "LAST_WINS"
    FAIL_TURN = "FAIL_TURN"


class ReasoningItemIds(StrEnum):
    """Whether reasoning items go back with their ids: `baton.v1.ReasoningItemIds`."""

    PRESERVE = "PRESERVE"
    OMIT = "OMIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffHistory:
    """How a conversation is folded at a handoff: `baton.v1.HandoffHistory`. Markers empty: the default ones."""

    mapper: HookRef | None = None
    start_marker: str = ""
    end_marker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecution:
    """How the functions of a turn run: `baton.v1.ToolExecution`. `max_concurrency` None: all at once."""

    max_concurrency: int | None = None
    guardrails_before_approval: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolErrorTexts:
    """Words for failures that the model is told of: `baton.v1.ToolErrorTexts`. Empty: not fixed."""

    hook: HookRef | None = None
    approval_rejected: str = ""
    tool_not_found: str = ""
    tool_exception: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedOutputText:
    """Stands for an output that was held back: `baton.v1.BlockedOutputText`. Nothing said: a default sentence."""

    text: str = ""
    hook: HookRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHandler:
    """Gives a final output in place of an error: `baton.v1.ErrorHandler`. Exactly one of the three is there."""

    hook: HookRef | None = None
    output: str | None = None
    output_json: str | None = None
    include_in_history: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHandlers:
    """Fallbacks, by error: `baton.v1.ErrorHandlers`. None: the error stands."""

    max_turns: ErrorHandler | None = None
    model_refusal: ErrorHandler | None = None
    invalid_final_output: ErrorHandler | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """The spans of a turn: `baton.v1.Tracing`. `include_sensitive_data` None: as the server is configured."""

    disabled: bool = False
    include_sensitive_data: bool | None = None
    workflow_name: str = ""
    trace_id: str = ""
    group_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    include_turn_spans: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Options of a turn: `baton.v1.RunConfig`. None or empty: not said; the layer below decides.

    `max_turns` counts rounds; `unlimited_turns` lifts the limit and then `max_turns` is None. `scopes` are
    those in which handlers are looked up, in order, before the empty one. `unserved_grace_s` in seconds.
    """

    max_turns: int | None = None
    unlimited_turns: bool = False
    model: str = ""
    model_provider: str = ""
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    history: History | None = None
    session_input: HookRef | None = None
    input_guardrails: tuple[Guardrail, ...] = ()
    output_guardrails: tuple[Guardrail, ...] = ()
    handoff_input_filters: tuple[InputFilter, ...] = ()
    nest_handoff_history: bool | None = None
    handoff_history: HandoffHistory | None = None
    model_input_filters: tuple[InputFilter, ...] = ()
    reasoning_item_ids: ReasoningItemIds | None = None
    tool_execution: ToolExecution | None = None
    tool_not_found: ToolNotFound | None = None
    tool_name_collision: ToolNameCollision | None = None
    tool_error_texts: ToolErrorTexts | None = None
    blocked_output_text: BlockedOutputText | None = None
    error_handlers: ErrorHandlers | None = None
    tracing: Tracing | None = None
    unserved_grace_s: float | None = None
    scopes: tuple[str, ...] = ()
    lifecycle_hooks: tuple[LifecycleHook, ...] = ()
    start_agent: str = ""

    def under(self, over: RunConfig) -> RunConfig:
        """Lay `over` (a run's options) on these (a session's defaults), field by field; a limit whole."""
        if over == NOTHING_SAID:
            return self
        said = {f.name: value for f in fields(over) if _is_said(value := getattr(over, f.name))}
        if over.max_turns is not None or over.unlimited_turns:
            said |= {"max_turns": over.max_turns, "unlimited_turns": over.unlimited_turns}
        said["model_settings"] = self.model_settings.under(over.model_settings)
        return replace(self, **said)

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

    @property
    def mode(self) -> HistoryMode:
        """Say who remembers."""
        return HistoryMode.SESSION if self.history is None else self.history.mode


NOTHING_SAID = RunConfig()
"""What most sessions say of their turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """What a turn runs with, whatever is changed later: its graph of agents and its configuration, resolved.

    `has_listeners`: somebody is told of moments, `awaits_listeners`: and is waited for. `hands_out_at_once`: nothing
    keeps a call back. They are looked at for every call and round, so they are found out once.
    """

    agent: Agent
    config: RunConfig
    by_name: Mapping[str, Agent] = field(init=False, repr=False, compare=False)
    has_listeners: bool = field(init=False, repr=False, compare=False)
    awaits_listeners: bool = field(init=False, repr=False, compare=False)
    hands_out_at_once: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        agents = list(self.agent.everyone())
        listeners = [one for agent in agents for one in agent.lifecycle_hooks] + [*self.config.lifecycle_hooks]
        awaits = any(one.awaited for one in listeners)
        limited = self.config.tool_execution is not None and self.config.tool_execution.max_concurrency is not None
        guarded = any(one.input_guardrails or one.approval.asks for agent in agents for one in agent.functions)
        object.__setattr__(self, "by_name", {agent.name: agent for agent in agents})
        object.__setattr__(self, "has_listeners", bool(listeners))
        object.__setattr__(self, "awaits_listeners", awaits)
        object.__setattr__(self, "hands_out_at_once", not (awaits or limited or guarded))

    @property
    def start(self) -> Agent:
        """Say which agent begins."""
        return self.by_name.get(self.config.start_agent, self.agent)

    def model(self, agent: Agent) -> str:
        """Name the model to ask for an agent; empty: the server's default."""
        return self.config.model or agent.model

    def settings(self, agent: Agent) -> ModelSettings:
        """Say how the model is asked for an agent: its settings under the run's."""
        return agent.model_settings.under(self.config.model_settings)

    def input_guardrails(self, agent: Agent) -> tuple[Guardrail, ...]:
        """List the checks of what goes in: the agent's, then the run's."""
        return (*agent.input_guardrails, *self.config.input_guardrails)

    def output_guardrails(self, agent: Agent) -> tuple[Guardrail, ...]:
        """List the checks of what comes out: the agent's, then the run's."""
        return (*agent.output_guardrails, *self.config.output_guardrails)

    def handoff_filters(self, handoff: Handoff) -> tuple[InputFilter, ...]:
        """List what changes what the receiver of a handoff sees: the handoff's own filters, else the run's."""
        return handoff.input_filters or self.config.handoff_input_filters

    def nests(self, handoff: Handoff, *, nested: bool) -> bool:
        """Tell whether a handoff folds the conversation into a message. Any filter turns that off.

        So does the model's API, where it keeps the conversation: not that of a nested run.
        """
        if self.handoff_filters(handoff) or (self.config.mode in KEPT_BY_MODEL and not nested):
            return False
        said = handoff.nest_history if handoff.nest_history is not None else self.config.nest_handoff_history
        return bool(said)

    def reworks(self, handoff: Handoff, *, nested: bool) -> bool:
        """Tell whether a handoff changes what the next agent sees, in a nested run or in the turn's own."""
        return bool(self.handoff_filters(handoff)) or self.nests(handoff, nested=nested)

    def lifecycle_hooks(self, agent: Agent, moment: Moment, *, nested: bool) -> tuple[LifecycleHook, ...]:
        """List who is told of a moment: the turn's, of its own run alone, then the agent's."""
        of_run = () if nested else self.config.lifecycle_hooks
        return tuple(one for one in (*of_run, *agent.lifecycle_hooks) if one.hears(moment))


def _is_said(value: Any) -> bool:
    # 0 is said, for example of a grace; an empty text or list, and a flag that is not set, are not.
    return value is not None and value is not False and value not in ("", ())
