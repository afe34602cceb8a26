"""Calls of functions and agent tools, and handoffs: their spans, under the round of the reply that made them."""

from __future__ import annotations

from dataclasses import dataclass

from opentelemetry.trace import Span, Status, StatusCode

from baton_server.core.events import ApprovalDecided
from baton_server.core.items import (
    FAILED_SETTLEMENTS,
    FunctionCall,
    FunctionCallOutput,
    HandoffCall,
    HandoffOutput,
    Item,
    ItemStatus,
)
from baton_server.telemetry.spans import facts
from baton_server.telemetry.spans.runs import RunSpans
from baton_server.telemetry.spans.writing import Writer


@dataclass(slots=True, kw_only=True)
class CallSpan:
    """A call that is open. `began`: when its span does; `since`: when what comes next could begin.

    `span` None: not begun yet, since the call waits for its round, or for a decision, which is no part of it.
    `approval` empty: none was asked for, or nobody has decided.
    """

    call: FunctionCall
    agent: str
    run: RunSpans
    began: float
    since: float
    span: Span | None = None
    approval: str = ""


class CallWriter:
    """Writes the spans of calls and handoffs."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._calls: dict[str, CallSpan] = {}
        self._handing: dict[str, float] = {}

    def get(self, call_id: str) -> CallSpan | None:
        """Find an open call."""
        return self._calls.get(call_id)

    def item(self, run: RunSpans, item: Item, at: float) -> None:
        """Take an item of a run: a call or a handoff begins, or ends."""
        match item.body:
            case FunctionCall() as call if item.agent and item.status is ItemStatus.IN_PROGRESS:
                self._calls[call.call_id] = CallSpan(call=call, agent=item.agent, run=run, began=at, since=at)
                run.open_calls.add(call.call_id)
            case HandoffCall(call_id=call_id) if item.agent:
                self._handing[call_id] = at
            case FunctionCallOutput() as output if output.call_id in self._calls:
                self._settle(self._calls[output.call_id], output, at)
            case HandoffOutput() as output:
                self._handed(run, output, at)
            case _:
                pass

    def span_of(self, call: CallSpan) -> Span:
        """Give the span of a call, which begins now if it had not."""
        if call.span is None:
            name, place = f"execute_tool {call.call.name}", f"function/{call.call.call_id}"
            call.span = self._writer.begin(place, name, call.began, call.run.inner, facts.function(call.call))
            call.span.set_attribute("gen_ai.agent.name", call.agent)
            if self._writer.sensitive:
                call.span.set_attribute("gen_ai.tool.call.arguments", facts.clip(call.call.arguments))
        return call.span

    def decided(self, body: ApprovalDecided, at: float) -> None:
        """Take what was decided about a call."""
        call = self._calls.get(body.decision.call_id)
        if call is not None:
            call.since = at
            call.began = at if call.span is None else call.began
            call.approval = "approved" if body.decision.approve else "expired" if body.failure else "rejected"

    def end(self, call: CallSpan, at: float) -> None:
        """End the span of a call. With the last one of a round, the next may begin."""
        span = self.span_of(call)
        if call.approval:
            span.set_attribute("baton.approval", call.approval)
        self._writer.end(span, at)
        del self._calls[call.call.call_id]
        call.run.open_calls.discard(call.call.call_id)
        if not call.run.open_calls:
            call.run.since = at

    def end_all(self, run: RunSpans, at: float) -> None:
        """End what is open in a run."""
        for call_id in sorted(run.open_calls):
            self.end(self._calls[call_id], at)

    def _settle(self, call: CallSpan, output: FunctionCallOutput, at: float) -> None:
        span = self.span_of(call)
        if output.settlement is not None:
            span.set_attribute("baton.settlement", output.settlement.value.lower())
        if output.attempt:
            span.set_attribute("baton.attempt", output.attempt)
        if self._writer.sensitive:
            span.set_attribute("gen_ai.tool.call.result", facts.plain(output.output))
        if output.settlement in FAILED_SETTLEMENTS or output.error is not None:
            reason = output.error.reason.value if output.error is not None else str(output.settlement)
            span.set_attribute("error.type", reason)
            # Never the words of an exception: what the model is told of it is in the result.
            span.set_status(Status(StatusCode.ERROR, reason))
        self.end(call, at)

    def _handed(self, run: RunSpans, output: HandoffOutput, at: float) -> None:
        began = self._handing.pop(output.call_id, at)
        if output.to_agent:  # empty: another handoff of the reply won
            said = {"baton.handoff.from": output.from_agent, "baton.handoff.to": output.to_agent}
            name, place = f"handoff {output.to_agent}", f"handoff/{output.call_id}"
            self._writer.end(self._writer.begin(place, name, began, run.inner, said), at)
