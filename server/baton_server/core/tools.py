"""What an agent may call, as data, and the small choices that tools, handoffs and guardrails share."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

DEFAULT_HOOK_TIMEOUT_S = 30.0
"""How long a hook may take where nobody says otherwise (agent.proto, `HookRef.timeout`)."""

DEFAULT_NESTED_TURNS = 10
"""Rounds of an agent tool's run where nobody says otherwise (agent.proto, `AgentTool.max_turns`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRef:
    """Names a program that answers a question of the Runner: `baton.v1.HookRef`. `timeout_s` from being asked."""

    name: str
    timeout_s: float = DEFAULT_HOOK_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Texts to look for: `baton.v1.Terms`. `allow`: what lacks all of them strikes; else what has one of them."""

    terms: tuple[str, ...]
    case_sensitive: bool = False
    allow: bool = False

    def strike(self, text: str) -> bool:
        """Tell whether a text is one that the terms are against."""
        searched = text if self.case_sensitive else text.casefold()
        found = any((term if self.case_sensitive else term.casefold()) in searched for term in self.terms)
        return found is not self.allow


Check = HookRef | Terms
"""How a guardrail judges: a program, or a list of terms."""


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
class FailureText:
    """What the model is told in place of an output: `baton.v1.FailureText`. Nothing said: a default sentence."""

    text: str = ""
    hook: HookRef | None = None
    fail_turn: bool = False

    @property
    def said(self) -> bool:
        """Tell whether it says anything."""
        return bool(self.text) or self.hook is not None or self.fail_turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Whether a person must allow a call: `baton.v1.Approval`. `expires_s` None: it may wait for ever."""

    always: bool = False
    hook: HookRef | None = None
    expires_s: float | None = None

    @property
    def asks(self) -> bool:
        """Tell whether a person may have to allow a call."""
        return self.always or self.hook is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Enabled:
    """Whether something is there at the moment: `baton.v1.Enabled`. A hook is asked before every model request."""

    always: bool = True
    hook: HookRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolGuardrail:
    """Checks the arguments or the output of a call: `baton.v1.ToolGuardrail`.

    `message`: of terms, what the model is told in place of the output; empty: the turn fails.
    """

    name: str
    check: Check
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool:
    """A function that the agent may call: `baton.v1.FunctionTool`, resolved.

    `parameters_json`: JSON Schema of the arguments. Empty only before a turn is accepted: then it is taken
    from the registered handler. `strict`: arguments that break the schema never reach the handler. None only
    before acceptance: as the schema allows. `handler_version` empty: any. `custom_data` None: none.
    """

    name: str
    description: str = ""
    parameters_json: str = ""
    strict: bool | None = None
    defer_loading: bool = False
    approval: Approval = field(default_factory=Approval)
    enabled: Enabled = field(default_factory=Enabled)
    execution: Execution = field(default_factory=Execution)
    input_guardrails: tuple[ToolGuardrail, ...] = ()
    output_guardrails: tuple[ToolGuardrail, ...] = ()
    on_crash: FailureText = field(default_factory=FailureText)
    on_timeout: FailureText = field(default_factory=FailureText)
    custom_data: HookRef | None = None
    handler_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """An agent of the same graph as a tool: `baton.v1.AgentTool`. `name`: as the model calls it.

    `parameters_json` empty: one text, `input`. `max_turns` None: 10 rounds of the nested run.
    """

    name: str
    agent: str
    description: str = ""
    parameters_json: str = ""
    input_builder: HookRef | None = None
    output_extractor: HookRef | None = None
    max_turns: int | None = None
    approval: Approval = field(default_factory=Approval)
    enabled: Enabled = field(default_factory=Enabled)
    on_crash: FailureText = field(default_factory=FailureText)

    @property
    def round_limit(self) -> int:
        """Rounds that the nested run may take."""
        return DEFAULT_NESTED_TURNS if self.max_turns is None else self.max_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedTool:
    """A tool that runs at the model's provider, passed on unread: `baton.v1.HostedTool`."""

    tool_json: str


@dataclass(frozen=True, slots=True)
class ToolSearch:
    """Lets the model find deferred functions, by its API's own search: `baton.v1.ToolSearch`."""


Tool = FunctionTool | AgentTool | HostedTool | ToolSearch
"""What an agent may call."""
