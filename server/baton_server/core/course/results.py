"""What a call gave, and what the model is told of it: words for failures, guardrails, what the application keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from baton_server.core.agents import Moment
from baton_server.core.course import asking, call_facts, ending, nested
from baton_server.core.course.here import Here, Next
from baton_server.core.course.tool_guardrails import judge, struck, trip_of
from baton_server.core.errors import Failure, Reason, clip
from baton_server.core.events import CallReturned, GuardrailTripped, HookKind, Stage
from baton_server.core.hooks.answers import ToolVerdict, read_custom_data, read_text
from baton_server.core.hooks.question import Payload
from baton_server.core.inputs import CallSettled
from baton_server.core.items import Settlement, TextPart, text_of
from baton_server.core.recorder import Recorder
from baton_server.core.run import CallRecord
from baton_server.core.run_config import ToolErrorTexts
from baton_server.core.tools import AgentTool, FailureText, FunctionTool

Called = FunctionTool | AgentTool
"""What a call is a call of."""

MOST_SAID_BYTES = 512
"""Of what a function raised, in the failure of the run that ends over it."""


def returned(here: Here, record: Recorder, given: CallSettled) -> None:
    """Take what a call gave: the model is told at once, unless a program is asked about it first."""
    call = record.state.calls[given.call_id]
    tool = here.state.tool(call)
    if tool is None or given.joined_call_id:  # what is joined was judged when it came
        record.output(given)
        return
    seen = CallReturned(
        call_id=given.call_id,
        settlement=given.settlement,
        output=given.output,
        attempt=given.attempt,
        worker_id=given.worker_id,
        error=given.error,
    )
    said = told(here, call, tool, seen)
    if callable(said):
        said(record)
    else:
        record(seen, here.run)


def told(here: Here, call: CallRecord, tool: Called, came: CallReturned) -> Next:
    """Say what the model is told of what a call gave, one stage after another."""
    given = CallSettled(
        call_id=came.call_id,
        settlement=came.settlement,
        output=came.output,
        attempt=came.attempt,
        worker_id=came.worker_id,
        error=came.error,
    )
    if isinstance(tool, AgentTool) and came.settlement is Settlement.NESTED_RUN:
        said = nested.extracted(here, call, tool, given)
        if not isinstance(said, CallSettled):
            return said
        given = said
    if given.settlement in (Settlement.CRASH, Settlement.WORKER_LOST):
        return worded(here, call, "tool_exception", given, tool.on_crash, partial(_checked, tool=tool))
    if given.settlement is Settlement.TIMEOUT and isinstance(tool, FunctionTool):
        return worded(here, call, "timeout", given, tool.on_timeout, partial(_checked, tool=tool))
    return _checked(here, call, given, tool=tool)


def worded(
    here: Here,
    call: CallRecord,
    kind: str,
    given: CallSettled,
    own: FailureText,
    then: Callable[[Here, CallRecord, CallSettled], Next],
) -> Next:
    """Find the words for a failure: the function's own, those of the run's configuration, else the default ones."""
    if own.fail_turn:
        return partial(_fail_over, given=given, call=call, here=here)
    words = here.config.tool_error_texts or ToolErrorTexts()
    fixed_words = own.text or ("" if own.said else getattr(words, kind, ""))
    hook = own.hook if own.said else words.hook
    if not fixed_words and hook is not None:
        hook_id = asking.call_hook_id(here, "w", call.call.call_id)
        answer = asking.answered(here, hook_id)
        if answer is None:
            payload = asking.fixed(
                kind=kind,
                tool=call.call.name,
                tool_type="function",
                call_id=call.call.call_id,
                default_message=text_of(given.output),
                error=call_facts.error_facts(given.error),
            )
            settle = asking.verbatim(partial(read_text, "message"))
            return (asking.question(here, hook_id, HookKind.TOOL_ERROR, hook, payload, settle),)
        fixed_words = (read_text("message", answer.answer_json) if answer.answer_json else None) or ""
    if fixed_words:
        given = replace(given, output=(TextPart(text=fixed_words),))
    return then(here, call, given)


def _checked(here: Here, call: CallRecord, given: CallSettled, *, tool: Called) -> Next:
    """Have the guardrails of a function judge what it gave, each as it came, until one strikes."""
    for index, guardrail in enumerate(tool.output_guardrails if isinstance(tool, FunctionTool) else ()):
        hook_id = asking.call_hook_id(here, "r", call.call.call_id, index)
        payload = call_facts.with_output(call, given.output)
        judged = judge(here, guardrail, HookKind.TOOL_OUTPUT_GUARDRAIL, hook_id, payload, text_of(given.output))
        if isinstance(judged, tuple):
            return judged
        if judged.verdict is ToolVerdict.TRIP:
            return struck(here, call, guardrail, Stage.TOOL_OUTPUT, judged)
        if judged.verdict is ToolVerdict.REJECT:
            blocked = replace(given, settlement=Settlement.GUARDRAIL, output=(TextPart(text=judged.message),))
            return _ended(here, call, blocked, tool, trip_of(guardrail, Stage.TOOL_OUTPUT, judged, call))
    return _ended(here, call, given, tool, None)


def _ended(here: Here, call: CallRecord, given: CallSettled, tool: Called, tripped: GuardrailTripped | None) -> Next:
    """Tell who waits for a function's end, keep what the application keeps beside it, and record the output."""

    def facts() -> Payload:
        said = {"output": text_of(given.output), "settlement": given.settlement.value}
        return asking.moment_facts(here, Moment.FUNCTION_END, **call_facts.of(call), **said)

    name = partial(call_facts.moment_id, here, call)
    telling = asking.awaited(here, Moment.FUNCTION_END, name, facts)
    if telling:
        return telling
    kept = ""
    if isinstance(tool, FunctionTool) and tool.custom_data is not None:
        hook_id = asking.call_hook_id(here, "d", call.call.call_id)
        answer = asking.answered(here, hook_id)
        if answer is None:
            payload, settle = call_facts.with_output(call, given.output), asking.verbatim(read_custom_data)
            return (asking.question(here, hook_id, HookKind.CUSTOM_DATA, tool.custom_data, payload, settle),)
        kept = read_custom_data(answer.answer_json) if answer.answer_json else ""
    return partial(_record_output, given=given, tripped=tripped, kept=kept, here=here)


def _record_output(
    record: Recorder, given: CallSettled, tripped: GuardrailTripped | None, kept: str, here: Here
) -> None:
    if tripped is not None:
        record(tripped, here.run)
    record.output(given, custom_data_json=kept)


def given_as_it_is(here: Here, _call: CallRecord, given: CallSettled) -> Next:
    """Tell the model at once; nobody judges it."""
    return partial(_record_output, given=given, tripped=None, kept="", here=here)


def _last_line(message: str) -> str:
    """Take what was raised from the end of a crash's stack, for people."""
    lines = message.strip().splitlines()
    return clip(lines[-1], MOST_SAID_BYTES) if lines else ""


def _fail_over(record: Recorder, given: CallSettled, call: CallRecord, here: Here) -> None:
    """End the run over a call that failed; its siblings that are done keep their outputs."""
    record.output(given)
    failure = given.error
    as_it_is = given.settlement is Settlement.TIMEOUT or isinstance(here.state.tool(call), AgentTool)
    if not as_it_is or failure is None:
        kind = failure.metadata.get("type", "") if failure is not None else ""
        said = f": {_last_line(failure.message)}" if failure is not None else "."
        failure = Failure(
            reason=Reason.TOOL_FAILED,
            message=f"The function {call.call.name!r} failed, and its failure ends the run{said}",
            metadata={"tool": call.call.name, "call_id": given.call_id, **({"type": kind} if kind else {})},
        )
    ending.fail(record, here.run, failure, culprit=given.call_id)
