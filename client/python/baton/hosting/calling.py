"""A call as its function sees it, and the words for what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from baton.context.call_context import RunContext, deadline_of
from baton.hosting.reports import Reports
from baton.items.usage import usage_from_pb
from baton.v1 import event_pb2, handler_pb2


@dataclass(slots=True, eq=False)
class CallLine:
    """Implements `context.Line`. `extended` is called on the event loop."""

    reports: Reports
    extended: Callable[[float], None]
    loop: asyncio.AbstractEventLoop

    def report(self, progress: event_pb2.CallProgress) -> None:
        """Report; joined with what follows soon."""
        self.reports.report(progress)

    def extend(self, seconds: float) -> None:
        """Ask for a longer lease."""
        with suppress(RuntimeError):  # the loop has ended before a function in a thread
            self.loop.call_soon_threadsafe(self.extended, seconds)


def context_of(call: handler_pb2.Call, context: Any, line: CallLine) -> RunContext[Any]:
    """Make what a function may know about its call. `context`: the application's own."""
    return RunContext(
        call_id=call.call_id,
        attempt=call.attempt,
        tool_name=call.name,
        tool_arguments=call.arguments_json,
        session_id=call.session_id,
        turn_id=call.turn_id,
        agent_name=call.agent,
        idempotency_key=call.idempotency_key,
        may_have_run=call.may_have_run,
        context=context,
        usage=usage_from_pb(call.usage),
        deadline=deadline_of(call),
        line=line,
    )


def reason_of(cancel: handler_pb2.Cancel) -> str:
    """Name why something is cancelled; empty: it is not said, or by a word of a later version."""
    try:
        name = handler_pb2.CancelReason.Name(cancel.reason).removeprefix("CANCEL_REASON_").lower()
    except ValueError:
        return ""
    return "" if name == "unspecified" else name


def not_begun(call: handler_pb2.Call, reason: str, delay_s: float = 0.0) -> handler_pb2.Nack:
    """Give a call back of which no code has run. `delay_s`: it is not to be delivered again before."""
    nack = handler_pb2.Nack(call_id=call.call_id, attempt=call.attempt, reason=reason, not_begun=True)
    if delay_s:
        nack.delay.FromTimedelta(timedelta(seconds=delay_s))
    return nack
