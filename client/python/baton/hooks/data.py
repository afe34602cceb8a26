"""What hooks are asked, by kind. PROTOCOL.md §6 has the payloads; items are Responses API items."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from baton.errors import AgentsException
from baton.hooks import HookData, TContext
from baton.hooks.answers import ModelInputData

Moment = Literal["agent_start", "agent_end", "model_start", "model_end", "function_start", "function_end", "handoff"]

Items = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputGuardrailData(HookData[TContext]):
    """May this input be worked on? `input`: the history before it included.

    A message that joins a running turn is asked about alone.
    """

    input: Items


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputGuardrailData(HookData[TContext]):
    """May this final output be given? `output`: a text, or the JSON value of an agent with an output type."""

    output: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionsData(HookData[TContext]):
    """What is the agent told? Asked before each request of the model. Answered by a text, or None: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledData(HookData[TContext]):
    """Does the agent have this now? Asked before each request of the model. Answered by a bool.

    `tool_name`: as the model calls it. `to_agent`: of a handoff, who receives; empty: it is a function.
    """

    tool_name: str
    to_agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallData(HookData[TContext]):
    """A call of a function, before it is executed. `tool_arguments` is the model's own text."""

    call_id: str
    tool_name: str
    tool_arguments: str

    @property
    def tool_call_id(self) -> str:
        """The call's id, by the Agents SDK's name. It is Baton's id, not the model's."""
        return self.call_id

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, read. Raises ValueError where they are no JSON object."""
        read = json.loads(self.tool_arguments or "{}")
        if not isinstance(read, dict):
            raise ValueError(f"the arguments of {self.tool_name} are no JSON object: {self.tool_arguments[:200]!r}")
        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputData(ToolCallData[TContext]):
    """A call of a function, and what came of it: a text, or a list of content parts."""

    output: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHandoffData(HookData[TContext]):
    """A handoff happens. `input_json`: what the model said at it; None: nothing was to be said."""

    from_agent: str
    to_agent: str
    input_json: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffFilterData(HookData[TContext]):
    """What does the receiver of a handoff see? Answered by another one: `dataclasses.replace(data, …)`.

    `input_history`: before the run. `pre_handoff_items`: of its rounds before. `new_items`: of this round.
    `input_items`: what the receiver is sent in place of new_items; None: those.
    """

    input_history: Items
    pre_handoff_items: Items
    new_items: Items
    input_items: Items | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffHistoryData(HookData[TContext]):
    """How is the conversation folded at a handoff? Answered by the whole input of the receiver, as a list of items."""

    transcript: Items


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInputData(HookData[TContext]):
    """How do history and new input become one? Answered by a list of items."""

    history: Items
    new_input: Items


@dataclass(frozen=True, slots=True, kw_only=True)
class CallModelData(HookData[TContext]):
    """What is this request to carry? Asked before each request of the model."""

    model_data: ModelInputData


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolErrorData(HookData[TContext]):
    """What is the model told about this failure? Answered by a text, or None: `default_message`.

    `kind`: "approval_rejected", "tool_not_found", "tool_exception" or "timeout". `error`: made again of what the server
    knows of it; None: there was no exception.
    """

    kind: str
    tool_name: str
    tool_type: str
    call_id: str
    default_message: str
    error: AgentsException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What came of one call: a text, or a list of content parts."""

    call_id: str
    tool_name: str
    output: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseData(HookData[TContext]):
    """Do these outputs end the run? Answered by a ToolsToFinalOutputResult. In the order of the calls."""

    results: Sequence[ToolOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHandlerData(HookData[TContext]):
    """Is there an output in place of this error? Answered by a RunErrorHandlerResult, a value, or None: there is none.

    `input`, `new_items`, `history`, `output` and `last_agent`: of the run so far, by the Agents SDK's names.
    """

    error: AgentsException
    input: Items
    new_items: Items
    history: Items
    output: Items
    last_agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInputData(HookData[TContext]):
    """What is the input of an agent that is called as a tool? Answered by a text or a list of items.

    `tool_arguments` is the model's own text.
    """

    tool_arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOutputData(HookData[TContext]):
    """What is the output of an agent that was called as a tool? Answered by a text, data or content parts.

    `output`: its final one, a text or a JSON value. `last_agent`: who gave it, by name.
    """

    output: Any
    new_items: Items
    last_agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedOutputData(HookData[TContext]):
    """What stands for an output that a guardrail held back? Answered by a text, or None: the default sentence."""

    guardrail_name: str
    tool_name: str
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetryData(HookData[TContext]):
    """Is this failed request sent again? Answered by a bool or a RetryDecision.

    `attempt` from 1. `retry_after`: seconds that the provider asks to wait; None: it does not say.
    """

    attempt: int
    error: AgentsException
    provider_suggests: bool
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStoreData(HookData[TContext]):
    """Read or write a session of the caller's own. "get" is answered by a list of items, "add" by nothing.

    `limit`: of "get", only the newest items; None: all. `items`: of "add".
    """

    operation: Literal["get", "add"]
    limit: int | None = None
    items: Items


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleData(HookData[TContext]):
    """Something has happened. `facts` as PROTOCOL.md lists them, such as `tool` and `output` of "function_end"."""

    moment: str
    facts: Mapping[str, Any]

    @property
    def tool_name(self) -> str:
        """Of moments of functions: its name; else empty."""
        return str(self.facts.get("tool", ""))

    @property
    def tool_call_id(self) -> str:
        """Of moments of functions: Baton's id of the call; else empty."""
        return str(self.facts.get("call_id", ""))

    @property
    def tool_arguments(self) -> str:
        """Of "function_start": the model's own text; else empty."""
        return str(self.facts.get("arguments_json", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectCheckData(HookData[TContext]):
    """Did an attempt take effect whose worker was lost? Look it up by `idempotency_key`.

    `tool_arguments` is the model's own text. `attempt`: the last one that may have run.
    """

    call_id: str
    attempt: int
    tool_name: str
    tool_arguments: str
    idempotency_key: str
