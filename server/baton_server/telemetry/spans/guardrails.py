"""Guardrails: of an input or a final output under the agent, of a function under its call.

One that is a list of terms is in the log only when it strikes, so there is a span of it only then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.trace import Span

from baton_server.core import ids
from baton_server.core.agents import Guardrail
from baton_server.core.errors import Failure
from baton_server.core.events import GuardrailTripped, HookKind, HookSettled, Stage, Verdict
from baton_server.core.hooks import names
from baton_server.core.hooks.answers import ToolVerdict, read_judged, read_tool_judged
from baton_server.core.run_config import Pinned
from baton_server.core.tools import ToolGuardrail
from baton_server.telemetry.spans import facts
from baton_server.telemetry.spans.calls import CallSpan, CallWriter
from baton_server.telemetry.spans.runs import RunSpans
from baton_server.telemetry.spans.writing import Writer

_STAGES: Mapping[HookKind, Stage] = {
    HookKind.INPUT_GUARDRAIL: Stage.INPUT,
    HookKind.OUTPUT_GUARDRAIL: Stage.OUTPUT,
    HookKind.TOOL_INPUT_GUARDRAIL: Stage.TOOL_INPUT,
    HookKind.TOOL_OUTPUT_GUARDRAIL: Stage.TOOL_OUTPUT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """What a guardrail said. `mark` tells its span from others of the turn. `failure` None: it answered."""

    name: str
    stage: Stage
    mark: str
    triggered: bool = False
    info_json: str = ""
    failure: Failure | None = None


class GuardrailWriter:
    """Writes the spans of guardrails."""

    def __init__(self, writer: Writer, turn_id: str, pinned: Pinned, calls: CallWriter) -> None:
        self._writer, self._turn_id, self._pinned, self._calls = writer, turn_id, pinned, calls
        self._struck: set[tuple[Stage, str, str]] = set()

    def settled(self, run: RunSpans, body: HookSettled, at: float) -> None:
        """Take what a guardrail's program answered; other hooks have no spans."""
        stage = _STAGES.get(body.kind)
        if stage is None:
            return
        call = None
        if stage in (Stage.TOOL_INPUT, Stage.TOOL_OUTPUT):
            call = self._calls.get(ids.call_id(self._turn_id, names.call_number_of(body.hook_id)))
        chosen, index = self._chosen(stage, run, call), names.index_of(body.hook_id)
        name = chosen[index].name if index < len(chosen) else body.name
        triggered, info_json = _read(body)
        if triggered:
            self._struck.add((stage, name, "" if call is None else call.call.call_id))
        judged = _Judged(
            name=name,
            stage=stage,
            mark=body.hook_id,
            triggered=triggered,
            info_json=info_json,
            failure=body.failure,
        )
        began = run.since if call is None else call.since
        self._write(judged, self._above(run, call), began, at)
        if call is not None:
            call.since = at  # those of a function are asked one after another

    def tripped(self, run: RunSpans, body: GuardrailTripped, sequence: int, at: float) -> None:
        """Take that a guardrail struck; of one whose program was asked there is the span already."""
        struck = (body.stage, body.name, body.call_id)
        if struck in self._struck:
            self._struck.discard(struck)
            return
        judged = _Judged(
            name=body.name,
            stage=body.stage,
            mark=str(sequence),
            triggered=body.verdict is not Verdict.PASSED,
            info_json=body.info_json,
        )
        self._write(judged, self._above(run, self._calls.get(body.call_id)), at, at)

    def _chosen(self, stage: Stage, run: RunSpans, call: CallSpan | None) -> Sequence[Guardrail | ToolGuardrail]:
        if call is not None:
            tool = self._pinned.by_name[call.agent].function(call.call.name)
            if tool is not None:
                return tool.input_guardrails if stage is Stage.TOOL_INPUT else tool.output_guardrails
        elif run.agent is not None and stage is Stage.INPUT:
            return self._pinned.input_guardrails(run.agent)
        elif run.agent is not None and stage is Stage.OUTPUT:
            return self._pinned.output_guardrails(run.agent)
        return ()

    def _above(self, run: RunSpans, call: CallSpan | None) -> Span | None:
        return (run.agent_span or run.above) if call is None else self._calls.span_of(call)

    def _write(self, judged: _Judged, above: Span | None, began: float, at: float) -> None:
        said = facts.guardrail(judged.name, judged.stage, triggered=judged.triggered)
        span = self._writer.begin(f"guardrail/{judged.mark}", f"guardrail {judged.name}", began, above, said)
        if judged.info_json and self._writer.sensitive:
            span.set_attribute("baton.guardrail.info", facts.clip(judged.info_json))
        self._writer.end(span, at, judged.failure)


def _read(body: HookSettled) -> tuple[bool, str]:
    """Say whether an answer strikes, and what it tells about its reasons."""
    if not body.answer_json:
        return False, ""
    if body.kind in (HookKind.INPUT_GUARDRAIL, HookKind.OUTPUT_GUARDRAIL):
        judged = read_judged(body.answer_json)
        return judged.tripped, judged.info_json
    said = read_tool_judged(body.answer_json)
    return said.verdict is not ToolVerdict.ALLOW, said.info_json
