"""The final output of a run: what it is, what stands in for an error, and the guardrails that may hold it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from baton_server.core import moments, reply, request, structured, texts
from baton_server.core.agents import Moment
from baton_server.core.course import asking, ending, handoffs, nested, opening
from baton_server.core.course.here import Here, Next
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import GuardrailTripped, HookKind, Stage, TurnStatus, Withdrawal
from baton_server.core.hooks import names
from baton_server.core.hooks.answers import (
    plain,
    read_handled,
    read_judged,
    read_text,
    read_tools_used,
    value_part,
)
from baton_server.core.hooks.question import Payload, Question
from baton_server.core.items import (
    ContentPart,
    FunctionCall,
    Hosted,
    Message,
    Reasoning,
    RefusalPart,
    TextPart,
    text_of,
)
from baton_server.core.jsontext import JsonError, dump, parse
from baton_server.core.recorder import Recorder
from baton_server.core.responses import output_value
from baton_server.core.run_config import BlockedOutputText, ErrorHandler, ErrorHandlers
from baton_server.core.tools import AgentTool, FunctionTool, Terms

_KINDS = ("max_turns", "model_refusal", "invalid_final_output")
"""Errors that something may stand in for: the fields of `baton.v1.ErrorHandlers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """A final output: its text, or the JSON of an agent with an output schema.

    `call_id`: the call whose output it is; empty: none's. `message`: to be put into the history; None: it is there,
    or must not be. `of_reply`: the last reply is what it came from, or what it stands in for.
    """

    text: str
    structured: bool = False
    call_id: str = ""
    message: str | None = None
    of_reply: bool = False


def after_reply(here: Here) -> Next:
    """Say what follows from a reply whose calls have their outputs. None: another round."""
    run = here.run
    if run.rounds == 0:
        return None
    handing = handoffs.handing(here)
    if handing is not None:
        return handing
    if run.handed or run.transfers:
        return None
    return _tools_used(here) if run.calls else _final_message(here)


def reply_told(here: Here) -> Next:
    """Tell who waits for a reply's end, before anything follows from it."""
    run, state = here.run, here.state
    if run.rounds == 0 or run.handed:  # an agent that was handed over to has not replied yet
        return None

    def facts() -> Payload:
        text = moments.model_end(state, run)
        return lambda _history: text

    def name(letter: str, index: int) -> str:
        return names.round_id(state.turn_id, run.mark, letter, run.rounds, index)

    return asking.awaited(here, Moment.MODEL_END, name, facts) or None


def in_place_of(here: Here, kind: str, failure: Failure, otherwise: Next) -> Next:
    """Give what the run's configuration has in place of an error; where that is nothing, the error stands."""
    handler: ErrorHandler | None = getattr(here.config.error_handlers or ErrorHandlers(), kind)
    if handler is None:
        return otherwise
    if handler.hook is None:
        return _fallback(here, kind, handler.output, handler.output_json, include=handler.include_in_history)
    hook_id = names.round_id(here.state.turn_id, here.run.mark, "z", here.run.rounds, _KINDS.index(kind))
    answer = asking.answered(here, hook_id)
    if answer is None:
        return (_handler_question(here, handler, hook_id, failure),)
    handled = read_handled(answer.answer_json) if answer.answer_json else None
    if handled is None or not handled.output_json:
        return otherwise
    return _fallback(here, kind, None, handled.output_json, include=handled.include_in_history)


# -- what is final ---------------------------------------------------------------------------------


def _tools_used(here: Here) -> Next:
    """Say whether the outputs of a round's functions end the run. None: they do not."""
    use, agent = here.agent.tool_use, here.agent
    results = [here.state.calls[call_id] for call_id in here.run.calls]
    known = [call for call in results if isinstance(here.state.tool(call), FunctionTool | AgentTool)]
    if use.hook is not None and known:
        hook_id = names.round_id(here.state.turn_id, here.run.mark, "u", here.run.rounds, 0)
        answer = asking.answered(here, hook_id)
        if answer is None:
            listed = [
                request.as_object(
                    call_id=dump(call.call.call_id),
                    tool=dump(call.call.name),
                    output=output_value(call.output.output) if call.output is not None else "null",
                )
                for call in known
            ]
            text = f'{{"results":{request.as_list(listed)}}}'
            settle = asking.verbatim(read_tools_used)
            return (asking.question(here, hook_id, HookKind.TOOL_USE, use.hook, lambda _history: text, settle),)
        used = read_tools_used(answer.answer_json)
        if not used.final:
            return None
        value = parse(used.output_json)
        text = used.output_json if agent.output_schema is not None else plain((value, used.output_json))
        return _finished(here, Final(text=text, structured=agent.output_schema is not None))
    chosen = known[:1] if use.stop_on_first else [call for call in known if call.call.name in use.stop_at][:1]
    for call in chosen:
        output = call.output.output if call.output is not None else ()
        return _finished(here, _of_tool(here, call.call.call_id, output))
    return None


def _of_tool(here: Here, call_id: str, output: Sequence[ContentPart]) -> Final:
    """Take a function's output as the final one; of an agent with an output schema a value stays one, and text text."""
    text = text_of(tuple(output))
    if here.agent.output_schema is None:
        return Final(text=text, call_id=call_id)
    is_value = any(isinstance(part, TextPart) and part.is_json for part in output)
    return Final(text=text if is_value else dump(text), structured=True, call_id=call_id)


def _final_message(here: Here) -> Next:
    """Take the text of the last message; hosted tools alone, and calls that were made before, mean another round."""
    bodies = [here.state.items[number].body for number in here.run.reply]
    messages = [body for body in bodies if isinstance(body, Message)]
    if not messages and (here.run.repeated or any(isinstance(body, Hosted) for body in bodies)):
        return None
    last = messages[-1].content if messages else ()
    refusal = "".join(part.refusal for part in last if isinstance(part, RefusalPart))
    if refusal:
        failure = reply.refusal(refusal)
        return in_place_of(here, "model_refusal", failure, _fails_over_reply(here, failure))
    return _judged_form(here, text_of(last))


def _judged_form(here: Here, text: str) -> Next:
    """Check a final output against the agent's schema."""
    schema = here.agent.output_schema
    if schema is None:
        return _finished(here, Final(text=text, of_reply=True))
    if not text:
        failure = _invalid(here, "the model gave none")
        return in_place_of(here, "invalid_final_output", failure, None)
    problem = _violation(here, text)
    if problem:
        failure = _invalid(here, problem)
        return in_place_of(here, "invalid_final_output", failure, _fails_over_reply(here, failure))
    wrapped = structured.wrapped(schema.schema_json)
    return _finished(here, Final(text=structured.unwrap(text) if wrapped else text, structured=True, of_reply=True))


def _violation(here: Here, text: str) -> str:
    """Say what is wrong with a final output, of an agent with an output schema; empty: nothing."""
    schema = here.agent.output_schema
    assert schema is not None
    try:
        parse(text)
    except JsonError as error:
        return f"it is {error}"
    return here.rules.violation(structured.asked_schema(schema.schema_json), text) or ""


def _invalid(here: Here, problem: str) -> Failure:
    return Failure(
        reason=Reason.MODEL_BEHAVIOR_ERROR,
        message=f"The final output of the agent {here.agent.name!r} does not fit its output schema: {problem}.",
        metadata={"agent": here.agent.name},
    )


def _fails_over_reply(here: Here, failure: Failure) -> Next:
    return lambda record: ending.fail(record, here.run, failure, void=True)


# -- in place of an error --------------------------------------------------------------------------


def _fallback(here: Here, kind: str, text: str | None, value_json: str | None, *, include: bool) -> Next:
    """Take what stands in for an error as the final output, in the form that the agent's has."""
    schema, of_reply = here.agent.output_schema, kind != "max_turns"
    if schema is None:
        said = dump(text) if value_json is None else value_json
        part = value_part((parse(said), said))
        message = part.text if include else None
        return _finished(here, Final(text=part.text, structured=part.is_json, message=message, of_reply=of_reply))
    value_json = dump(text) if value_json is None else value_json
    wrapped = structured.wrapped(schema.schema_json)
    said = structured.wrap(value_json) if wrapped else value_json
    problem = _violation(here, said)
    if problem:
        failure = Failure(
            reason=Reason.USER_ERROR,
            message=f"What an error handler gave is no final output of the agent {here.agent.name!r}: {problem}.",
            metadata={"agent": here.agent.name},
        )
        return lambda record: ending.fail(record, here.run, failure, void=of_reply)
    message = said if include else None
    return _finished(here, Final(text=value_json, structured=True, message=message, of_reply=of_reply))


def _handler_question(here: Here, handler: ErrorHandler, hook_id: str, failure: Failure) -> Question:
    assert handler.hook is not None
    state, run = here.state, here.run

    def payload(history: Sequence[str]) -> str:
        made = request.view(state, run, history, first=run.reply[0] if run.reply else -1)
        error = dump({"reason": failure.reason.value, "message": failure.message, "metadata": dict(failure.metadata)})
        parts = request.as_object(
            input=request.as_list(made.past),
            new_items=request.as_list([*made.pre, *made.new]),
            history=request.as_list(made.all),
            output=request.as_list([state.items[number].json for number in run.reply]),
            last_agent=dump(run.agent),
        )
        return request.as_object(error=error, run=parts)

    settle = asking.verbatim(read_handled)
    return asking.question(
        here, hook_id, HookKind.ERROR_HANDLER, handler.hook, payload, settle, needs_history=here.reads_history
    )


# -- the end ---------------------------------------------------------------------------------------


def _finished(here: Here, final: Final) -> Next:
    """End a run with its output: the message that is missing, who is told, guardrails, a caller's store."""
    missing = final.message if here.run.fallback < 0 else None
    if missing is not None and final.of_reply:
        return partial(_say, missing, here)
    judged = _agent_ends(here, final) or _guarded(here, final)
    if judged:
        return judged
    if missing is not None:  # no reply has it, so that nobody has seen it before it is judged
        return partial(_say, missing, here)
    return opening.stored(here) or partial(_end, final=final, here=here)


def _say(message: str, here: Here, record: Recorder) -> None:
    record.message(message, here.run)


def _agent_ends(here: Here, final: Final) -> tuple[Question, ...]:
    run, turn_id = here.run, here.state.turn_id

    def name(letter: str, index: int) -> str:
        return names.round_id(turn_id, run.mark, letter, run.rounds, index)

    facts = partial(asking.moment_facts, here, Moment.AGENT_END, output=final.text)
    return asking.awaited(here, Moment.AGENT_END, name, facts)


def _guarded(here: Here, final: Final) -> Next:
    """Have guardrails judge a final output. None: they let it pass."""
    chosen = here.state.pinned.output_guardrails(here.agent)
    asked = []
    for at, one in enumerate(chosen):
        if isinstance(one.check, Terms):
            if one.check.strike(final.text):
                return _held_back(here, final, GuardrailTripped(name=one.name, stage=Stage.OUTPUT))
            continue
        hook_id = names.round_id(here.state.turn_id, here.run.mark, "v", here.run.rounds, at)
        answer = asking.answered(here, hook_id)
        if answer is None:
            text = f'{{"output":{final.text if final.structured else dump(final.text)}}}'
            payload, settle = partial(_same, text), asking.verbatim(read_judged)
            asked.append(asking.question(here, hook_id, HookKind.OUTPUT_GUARDRAIL, one.check, payload, settle))
            continue
        judged = read_judged(answer.answer_json)
        if judged.tripped:
            tripped = GuardrailTripped(name=one.name, info_json=judged.info_json, stage=Stage.OUTPUT)
            return _held_back(here, final, tripped)
    return tuple(asked) or None


def _same(text: str, _history: Sequence[str]) -> str:
    return text


def _held_back(here: Here, final: Final, tripped: GuardrailTripped) -> Next:
    """Hold an output back: it leaves the history; where it is a function's, words stand for all that its reply gave."""
    words = texts.OUTPUT_BLOCKED
    if final.call_id:
        said = here.config.blocked_output_text or BlockedOutputText()
        call = here.state.calls[final.call_id]
        if said.text:
            words = said.text
        elif said.hook is not None:
            hook_id = asking.call_hook_id(here, "k", final.call_id)
            answer = asking.answered(here, hook_id)
            if answer is None:
                payload = asking.fixed(guardrail=tripped.name, tool=call.call.name, call_id=final.call_id)
                settle = asking.verbatim(partial(read_text, "message"))
                return (asking.question(here, hook_id, HookKind.BLOCKED_OUTPUT, said.hook, payload, settle),)
            words = (read_text("message", answer.answer_json) if answer.answer_json else None) or words
    return partial(_hold_back, final=final, tripped=tripped, words=words, here=here)


def _hold_back(record: Recorder, final: Final, tripped: GuardrailTripped, words: str, here: Here) -> None:
    run = here.run
    record(tripped, run)
    if final.call_id:
        _block_outputs(record, words, here)
    else:
        made = [*(run.reply if final.of_reply else ()), *([run.fallback] if run.fallback >= 0 else ())]
        record.withdraw(made, Withdrawal.GUARDRAIL, run)
    failure = Failure(
        reason=Reason.OUTPUT_GUARDRAIL_TRIPPED,
        message=f"The output guardrail {tripped.name!r} tripped: the output is held back.",
        metadata={"guardrail": tripped.name},
    )
    ending.fail(record, run, failure)


def _block_outputs(record: Recorder, words: str, here: Here) -> None:
    """Leave of a reply its calls alone, each with words in the place of what it gave.

    With reasoning nothing stays: a model's API takes reasoning only with what follows it, and that with the reasoning.
    """
    run, items, calls = here.run, here.state.items, here.state.calls
    outputs = [calls[call_id].output_number for call_id in run.calls]
    if any(isinstance(items[number].body, Reasoning) for number in run.reply):
        record.withdraw([*run.reply, *outputs], Withdrawal.GUARDRAIL, run)
        return
    said = [number for number in run.reply if not isinstance(items[number].body, FunctionCall)]
    record.withdraw([*said, *outputs], Withdrawal.GUARDRAIL, run)
    for call_id in run.calls:
        record.blocked(call_id, (TextPart(text=words),))


def _end(record: Recorder, final: Final, here: Here) -> None:
    if here.run.path:
        said = value_part((parse(final.text), final.text)) if final.structured else TextPart(text=final.text)
        ending.give(record, here.run, nested.output_of(here, said))
    else:
        record.end(TurnStatus.COMPLETED, output=final.text, structured=final.structured)
