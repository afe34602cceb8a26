"""Calls functions as a server would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack

from baton.agents.tools import FunctionTool
from baton.hosting.held import Handler, HeldCalls
from baton.testing.schema_check import problems
from baton.v1 import event_pb2, handler_pb2

NEVER_S = 3600.0 * 24
"""An ack, which a quick result makes superfluous, does not come."""

Kind = Literal["output", "output_json", "output_parts", "failure", "crash", "arguments_refused", "cancelled"]


class CallFacts(TypedDict, total=False):
    """What a call says beside its arguments; the defaults are those of a first attempt.

    `may_have_run`: an earlier attempt may have done its work; where it is left out, it is so from the second on.
    `idempotency_key`: where it is left out, the call's id.
    """

    call_id: str
    attempt: int
    may_have_run: bool
    idempotency_key: str
    deadline: datetime
    session_id: str
    turn_id: str
    agent_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a function reported by `context.progress`. Exactly one is set."""

    text: str | None = None
    data: Any = None
    output_so_far: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the server would learn of a call.

    `kind` is the arm of the Result, or "arguments_refused": the function was not called and the model is told `text`;
    or "cancelled": it was stopped before it gave anything. `value`: the text of "output" and "failure", the data of
    "output_json", the parts of "output_parts" as the contract's dictionaries; else None. `text`: the same as the
    contract carries it; of a crash its text and stack, with `crash_type`. `stopped`: what a cancel led to,
    "not_begun", "stopped" or "not_stopped"; empty: there was none. `extensions`: seconds of each `context.extend`.
    """

    kind: Kind
    value: Any = None
    text: str = ""
    crash_type: str = ""
    stopped: str = ""
    reports: tuple[Report, ...] = ()
    extensions: tuple[float, ...] = ()


async def call_function(
    tool: FunctionTool, arguments: str | Mapping[str, Any] = "", *, context: Any = None, **facts: Unpack[CallFacts]
) -> Outcome:
    """Call a function once, to its end. `arguments`: the model's text, or what becomes it. `context`: the run's own."""
    return await begin_function(tool, arguments, context=context, **facts).outcome()


def begin_function(
    tool: FunctionTool, arguments: str | Mapping[str, Any] = "", *, context: Any = None, **facts: Unpack[CallFacts]
) -> FunctionCall:
    """Begin to call a function, and return what may be done meanwhile. Needs a running event loop."""
    if not isinstance(tool, FunctionTool):
        raise TypeError(f"{tool!r} is no tool; decorate the function with function_tool, or worker.function")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return FunctionCall(tool, _call(tool, text, facts), context)


class FunctionCall:
    """A call that goes on. Made by `begin_function`; wait for its `outcome`."""

    def __init__(self, tool: FunctionTool, call: handler_pb2.Call, context: Any) -> None:
        self._call = call
        self._calls = HeldCalls(self._take, 1, NEVER_S, report_every_s=0)
        self._found: dict[str, Any] = {"kind": "cancelled"}
        self._stopped = ""
        self.reports: list[Report] = []
        self.extensions: list[float] = []
        refused = _refused(tool, call.arguments_json)
        if refused:
            self._found = {"kind": "arguments_refused", "text": refused}
        else:
            self._calls.accept(call, Handler(tool, context))

    def cancel(self, reason: str = "turn_ended", *, grace_s: float = 5.0) -> None:
        """Cancel it as the server does. `reason`: of `baton.v1.CancelReason`, in small letters, without its prefix.

        `grace_s` 0: what it gives all the same is of no use any more.
        """
        cancel = handler_pb2.Cancel(
            call_id=self._call.call_id,
            attempt=self._call.attempt,
            reason=handler_pb2.CancelReason.Value(f"CANCEL_REASON_{reason.upper()}"),
        )
        cancel.grace.FromTimedelta(timedelta(seconds=grace_s))
        self._calls.cancel(cancel)

    async def outcome(self) -> Outcome:
        """Wait for its end."""
        await self._calls.idle.wait()
        await self._calls.close()
        return Outcome(
            stopped=self._stopped, reports=tuple(self.reports), extensions=tuple(self.extensions), **self._found
        )

    def _take(self, frame: handler_pb2.ConnectRequest) -> None:
        match frame.WhichOneof("frame"):
            case "result":
                self._found = _plain(frame.result)
                ack = handler_pb2.ResultAck(call_id=self._call.call_id, attempt=self._call.attempt)
                asyncio.get_running_loop().call_soon(self._calls.acked, ack)
            case "progress":
                self.reports.append(_report(frame.progress))
            case "extend":
                self.extensions.append(frame.extend.lease.ToTimedelta().total_seconds())
            case "cancel_ack":
                outcome = handler_pb2.CancelOutcome.Name(frame.cancel_ack.outcome)
                self._stopped = self._stopped or outcome.removeprefix("CANCEL_OUTCOME_").lower()
            case _:
                pass


def _call(tool: FunctionTool, arguments: str, facts: CallFacts) -> handler_pb2.Call:
    call_id, attempt = facts.get("call_id", "call_1"), facts.get("attempt", 1)
    call = handler_pb2.Call(
        call_id=call_id,
        attempt=attempt,
        name=tool.name,
        version=tool.version,
        arguments_json=arguments,
        session_id=facts.get("session_id", "sess_1"),
        turn_id=facts.get("turn_id", "turn_1"),
        agent=facts.get("agent_name", "Assistant"),
        idempotency_key=facts.get("idempotency_key", call_id),
        may_have_run=facts.get("may_have_run", attempt > 1),
    )
    if "deadline" in facts:
        call.deadline.FromDatetime(facts["deadline"])
    return call


def _refused(tool: FunctionTool, arguments: str) -> str:
    """Say why the server would not call the function; empty: it would."""
    try:
        value = json.loads(arguments.strip() or "{}")
    except ValueError as error:
        return f"The arguments of {tool.name} are no JSON: {error}"
    if not isinstance(value, dict):
        return f"The arguments of {tool.name} are no JSON object"
    found = problems(tool.params_json_schema, value) if tool.strict_json_schema else []
    return f"The arguments of {tool.name} break its schema: {'; '.join(found)}" if found else ""


def _plain(result: handler_pb2.Result) -> dict[str, Any]:
    match result.WhichOneof("outcome"):
        case "output":
            return {"kind": "output", "value": result.output, "text": result.output}
        case "output_json":
            return {"kind": "output_json", "value": json.loads(result.output_json), "text": result.output_json}
        case "output_parts":
            return {"kind": "output_parts", "value": [_part(part) for part in result.output_parts.parts]}
        case "failure":
            return {"kind": "failure", "value": result.failure, "text": result.failure}
        case _:
            return {"kind": "crash", "text": result.crash.text, "crash_type": result.crash.type}


def _part(part: Any) -> dict[str, Any]:
    """Write a content part as a dictionary of what it says."""
    fields: dict[str, Any] = {}
    for field, value in part.ListFields():
        fields[field.name] = _part(value) if field.message_type is not None else value
    return fields


def _report(progress: event_pb2.CallProgress) -> Report:
    match progress.WhichOneof("progress"):
        case "progress_json":
            return Report(data=json.loads(progress.progress_json))
        case "output_so_far":
            return Report(output_so_far=progress.output_so_far)
        case _:
            return Report(text=progress.text)
