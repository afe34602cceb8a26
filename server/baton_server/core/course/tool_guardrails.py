"""Guardrails of functions: what one says of a call's arguments or output, and what follows where it strikes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from baton_server.core.course import asking, ending
from baton_server.core.course.here import Here, Next
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import GuardrailTripped, HookKind, Stage, Verdict
from baton_server.core.hooks.answers import ToolJudged, ToolVerdict, read_tool_judged
from baton_server.core.hooks.question import Question
from baton_server.core.inputs import CallSettled
from baton_server.core.items import Settlement, TextPart
from baton_server.core.recorder import Recorder
from baton_server.core.run import CallRecord
from baton_server.core.tools import Terms, ToolGuardrail


def judge(
    here: Here,
    guardrail: ToolGuardrail,
    kind: HookKind,
    hook_id: str,
    payload: Callable[[Sequence[str]], str],
    text: str,
) -> ToolJudged | tuple[Question, ...]:
    """Ask what a guardrail says of a text; a tuple: the question, which must still be answered."""
    check = guardrail.check
    if isinstance(check, Terms):
        if not check.strike(text):
            return ToolJudged(verdict=ToolVerdict.ALLOW)
        verdict = ToolVerdict.REJECT if guardrail.message else ToolVerdict.TRIP
        return ToolJudged(verdict=verdict, message=guardrail.message)
    answer = asking.answered(here, hook_id)
    if answer is None:
        return (asking.question(here, hook_id, kind, check, payload, asking.verbatim(read_tool_judged)),)
    return read_tool_judged(answer.answer_json)


def struck(here: Here, call: CallRecord, guardrail: ToolGuardrail, stage: Stage, judged: ToolJudged) -> Next:
    """Draw the consequence of what a guardrail says of a call that has given nothing yet. None: it lets it pass."""
    if judged.verdict is ToolVerdict.ALLOW:
        return None
    tripped = trip_of(guardrail, stage, judged, call)
    if judged.verdict is ToolVerdict.REJECT:
        given = CallSettled(
            call_id=call.call.call_id, settlement=Settlement.GUARDRAIL, output=(TextPart(text=judged.message),)
        )
        return partial(_rejects, given=given, tripped=tripped, here=here)
    return partial(_trip_over, tripped=tripped, call=call, here=here)


def trip_of(guardrail: ToolGuardrail, stage: Stage, judged: ToolJudged, call: CallRecord) -> GuardrailTripped:
    """Say what a guardrail did to a call, for the log."""
    verdict = Verdict.TRIPPED if judged.verdict is ToolVerdict.TRIP else Verdict.CONTENT_REJECTED
    return GuardrailTripped(
        name=guardrail.name, info_json=judged.info_json, stage=stage, verdict=verdict, call_id=call.call.call_id
    )


def _trip_over(record: Recorder, tripped: GuardrailTripped, call: CallRecord, here: Here) -> None:
    record(tripped, here.run)
    into = tripped.stage is Stage.TOOL_INPUT
    failure = Failure(
        reason=Reason.TOOL_INPUT_GUARDRAIL_TRIPPED if into else Reason.TOOL_OUTPUT_GUARDRAIL_TRIPPED,
        message=f"The guardrail {tripped.name!r} tripped on the {'arguments' if into else 'output'} of the function "
        f"{call.call.name!r}.",
        metadata={"guardrail": tripped.name, "tool": call.call.name, "call_id": call.call.call_id},
    )
    ending.fail(record, here.run, failure)


def _rejects(record: Recorder, given: CallSettled, tripped: GuardrailTripped, here: Here) -> None:
    record(tripped, here.run)
    record.output(given)
