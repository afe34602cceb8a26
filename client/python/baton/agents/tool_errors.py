"""Words for failures that the model is told of: fixed texts, functions of this process, hooks elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from baton.context.run_context import RunContextWrapper
from baton.errors import AgentsException, FunctionError, ToolTimeoutError, UserError
from baton.hooks import RemoteHook
from baton.hooks.data import BlockedOutputData, ToolErrorData
from baton.hooks.refs import HookUse, RefOf, hook_use
from baton.v1 import agent_pb2, run_config_pb2

if TYPE_CHECKING:
    from baton.agents.agent import Agent

TContext = TypeVar("TContext")

MAX_TEXT = 4096
"""Characters of a fixed text (agent.proto, FailureText)."""

ErrorFunction = Callable[[Any, BaseException], Any]
"""Called as `(context, error)`; gives a text, sync or async."""

ErrorWords = ErrorFunction | RemoteHook | str

KINDS = ("approval_rejected", "tool_not_found", "tool_exception")
"""Failures that a run's formatter is asked about."""

BLOCKED = "Output withheld by an output guardrail."
"""What the server puts in place of an output that was held back, where nobody says otherwise."""


FAILED = "The function failed before it gave a result. You may try again or go on without it."
"""The server's own sentence for a failed function."""


def default_tool_error_function(_context: object, _error: BaseException) -> str:
    """Say what the model is told of a failed function where nobody says otherwise; the server says it itself."""
    return FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolErrorFormatterArgs(Generic[TContext]):
    """A failure that the model is about to be told of, for `RunConfig.tool_error_formatter`.

    `kind`: "approval_rejected", "tool_not_found" or "tool_exception". `tool_type`: "function". `error`: of
    "tool_exception": its `metadata["type"]` and text; else None.
    """

    kind: str
    tool_type: str
    tool_name: str
    call_id: str
    default_message: str
    run_context: RunContextWrapper[TContext]
    error: AgentsException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputGuardrailBlockedMessageArgs(Generic[TContext]):
    """An output that was held back, for `RunConfig.output_guardrail_blocked_message`; not the output itself."""

    default_message: str
    guardrail_name: str
    agent: Agent[Any] | None
    run_context: RunContextWrapper[TContext]


def check_words(what: str, given: object, *, none: bool = True) -> None:
    """Check what stands for words about a failure. Raises UserError, with the value."""
    if isinstance(given, str) and not 1 <= len(given) <= MAX_TEXT:
        raise UserError(f"{what}: a text has 1 to {MAX_TEXT} characters, not {len(given)}")
    if not isinstance(given, str | RemoteHook) and not callable(given) and not (none and given is None):
        raise UserError(f"{what} must be a function, a text or a RemoteHook, not {given!r}")


def failure_to_pb(given: ErrorWords, ref_of: RefOf) -> agent_pb2.FailureText:
    """Write `baton.v1.FailureText`."""
    if isinstance(given, str):
        return agent_pb2.FailureText(text=given)
    return agent_pb2.FailureText(hook=ref_of(hook_use("tool_error", given, _error_arguments)))


def formatter_to_pb(given: Any, ref_of: RefOf) -> run_config_pb2.ToolErrorTexts | None:
    """Write `baton.v1.ToolErrorTexts`: of a function, a hook, or a dict of texts by kind; None: default sentences."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return run_config_pb2.ToolErrorTexts(**given)
    if isinstance(given, RemoteHook):
        return run_config_pb2.ToolErrorTexts(hook=ref_of(hook_use("tool_error", given)))
    formatter = hook_use("tool_error", given, _formatter_arguments)
    return run_config_pb2.ToolErrorTexts(hook=ref_of(replace(formatter, function=_of_its_kinds(formatter))))


def check_formatter(given: object) -> None:
    """Check what stands for `tool_error_formatter`. Raises UserError, with the value."""
    if isinstance(given, Mapping):
        for kind, text in given.items():
            if kind not in KINDS or not isinstance(text, str) or not text:
                raise UserError(f"tool_error_formatter: texts by {', '.join(KINDS)}, not {kind!r}: {text!r}")
    elif given is not None and not isinstance(given, RemoteHook) and not callable(given):
        raise UserError(f"tool_error_formatter must be a function, a RemoteHook or a dict of texts, not {given!r}")


def blocked_to_pb(given: Any, ref_of: RefOf) -> run_config_pb2.BlockedOutputText | None:
    """Write `baton.v1.BlockedOutputText`: a text, a function, or a hook; None: the default sentence."""
    if given is None:
        return None
    if isinstance(given, str):
        return run_config_pb2.BlockedOutputText(text=given)
    return run_config_pb2.BlockedOutputText(hook=ref_of(hook_use("blocked_output", given, _blocked_arguments)))


def _error_arguments(data: ToolErrorData[Any]) -> tuple[Any, ...]:
    tool: Any = data.agent.find_tool(data.tool_name) if data.agent is not None else None
    seconds = getattr(tool, "timeout", None)
    if isinstance(data.error, ToolTimeoutError) and seconds is not None:
        data.error.metadata.setdefault("timeout", f"{seconds:g}s")
    return data, data.error or FunctionError(data.default_message)


def _of_its_kinds(formatter: HookUse) -> Callable[[ToolErrorData[Any]], Any]:
    """Ask a formatter of a run about what it is for, as the Agents SDK does: not about timeouts."""

    def asked(data: ToolErrorData[Any]) -> Any:
        return formatter.function(data) if formatter.function is not None and data.kind in KINDS else None

    return asked


def _formatter_arguments(data: ToolErrorData[Any]) -> tuple[Any, ...]:
    args: ToolErrorFormatterArgs[Any] = ToolErrorFormatterArgs(
        kind=data.kind,
        tool_type=data.tool_type,
        tool_name=data.tool_name,
        call_id=data.call_id,
        default_message=data.default_message,
        run_context=data,
        error=data.error,
    )
    return (args,)


def _blocked_arguments(data: BlockedOutputData[Any]) -> tuple[Any, ...]:
    args: OutputGuardrailBlockedMessageArgs[Any] = OutputGuardrailBlockedMessageArgs(
        default_message=BLOCKED, guardrail_name=data.guardrail_name, agent=data.agent, run_context=data
    )
    return (args,)
