"""Handoffs: who goes on after a reply that asks for it, and what the next agent sees."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial

from baton_server.core import request, texts
from baton_server.core.agents import Handoff, InputFilter, Moment
from baton_server.core.course import asking, ending
from baton_server.core.course.here import Here, Next
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import AgentChanged, HookKind, Withdrawal
from baton_server.core.hooks import names
from baton_server.core.hooks.answers import members, read_object, required
from baton_server.core.hooks.packing import KEPT, pack_list
from baton_server.core.hooks.question import Question
from baton_server.core.items import FunctionCall, HandoffCall
from baton_server.core.jsontext import JsonError, dump, parse
from baton_server.core.recorder import Recorder
from baton_server.core.run import Transfer
from baton_server.core.run_config import KEPT_BY_MODEL, HandoffHistory
from baton_server.core.tools import HookRef


def handing(here: Here) -> Next:
    """Hand over to the agent that the last reply named first, once its programs were asked. None: nobody is named."""
    run = here.run
    if not run.transfers or run.handed:
        return None
    winner = run.transfers[0]
    handoff = here.state.handoff(run.agent, winner.call.name)
    assert handoff is not None, "a call that is none of a handoff is no HandoffCall"
    if not winner.settled:
        wrong = _wrong(here, winner, handoff)
        if wrong is not None:
            return lambda record: ending.fail(record, run, wrong)
        return _told(here, winner, handoff) or partial(_answer, handoff=handoff, here=here)
    return _asked(here, handoff) or partial(_change, handoff=handoff, here=here)


def _wrong(here: Here, winner: Transfer, handoff: Handoff) -> Failure | None:
    if handoff.input_schema_json:
        problem = _problem(here, winner, handoff)
        if problem:
            return Failure(
                reason=Reason.MODEL_BEHAVIOR_ERROR,
                message=f"The model's input for the handoff {handoff.name!r} was not accepted: {problem}.",
                metadata={"tool": handoff.name, "agent": here.run.agent},
            )
    if here.state.pinned.handoff_filters(handoff) and here.config.mode in KEPT_BY_MODEL and not here.run.path:
        return Failure(
            reason=Reason.USER_ERROR,
            message=f"The handoff {handoff.name!r} has input filters, which cannot change what the model's API keeps. "
            "Use the session's history, or no filters.",
            metadata={"field": "run_config.history"},
        )
    return None


def _problem(here: Here, winner: Transfer, handoff: Handoff) -> str:
    arguments = winner.call.arguments.strip() or "{}"
    try:
        parse(arguments)
    except JsonError as error:
        return f"it is {error}"
    return here.rules.violation(handoff.input_schema_json, arguments) or ""


def _told(here: Here, winner: Transfer, handoff: Handoff) -> tuple[Question, ...]:
    """Tell the handoff's own program that it happens."""
    hook_id = asking.call_hook_id(here, "h", winner.call.call_id)
    if handoff.on_handoff is None or asking.answered(here, hook_id) is not None:
        return ()
    said = winner.call.arguments if handoff.input_schema_json else None
    payload = asking.fixed(from_agent=here.run.agent, to_agent=handoff.agent, input_json=said)
    settle = asking.verbatim(read_object)
    return (asking.question(here, hook_id, HookKind.ON_HANDOFF, handoff.on_handoff, payload, settle),)


def _answer(record: Recorder, handoff: Handoff, here: Here) -> None:
    """Tell the model of its handoffs: those that are ignored first, as their numbers say."""
    winner, *others = here.run.transfers
    for transfer in others:
        record.handed(transfer, "", texts.HANDOFF_IGNORED, here.run)
    record.handed(winner, handoff.agent, dump({"assistant": handoff.agent}), here.run)


def _change(record: Recorder, handoff: Handoff, here: Here) -> None:
    """Hand over; what a filter leaves out of the round is not part of what the turn made.

    Calls from before a pause are: that they were made has been told, but without outputs they go no further.
    """
    run, chosen = here.run, here.state.pinned.handoff_filters(handoff)
    if chosen:
        made = [number for number in sorted(run.items) if number >= run.new_from]
        kept = request.kept_by_handoff(here.state, run, chosen, made)
        left_out = {number for number in made if number not in kept}
        record.withdraw(sorted(left_out), Withdrawal.FILTERED, run)
        record.withdraw(sorted(_answered_by(here, left_out)), Withdrawal.UNANSWERED, run)
    record(AgentChanged(agent=handoff.agent), run)


def _answered_by(here: Here, outputs: Set[int]) -> set[int]:
    """List the calls from before a pause whose outputs these are: a model's API refuses a call without one."""
    items, calls = here.state.items, here.state.calls
    numbers = {call_id: calls[call_id].output_number for call_id in here.run.calls}
    numbers |= {one.call.call_id: one.output_number for one in here.run.transfers}
    asked = {at: items[at].body for at in here.run.reply if at < here.run.new_from}
    return {
        at
        for at, body in asked.items()
        if isinstance(body, FunctionCall | HandoffCall) and numbers[body.call_id] in outputs
    }


def _asked(here: Here, handoff: Handoff) -> tuple[Question, ...]:
    """Ask what changes what the next agent sees, one program after another, then tell of the handoff."""
    chosen = here.state.pinned.handoff_filters(handoff)
    for index, one in enumerate(chosen):
        hook_id = names.round_id(here.state.turn_id, here.run.mark, "x", here.run.rounds, index)
        if isinstance(one, HookRef) and asking.answered(here, hook_id) is None:
            return (_filter_question(here, one, hook_id, chosen[:index]),)
    if here.state.pinned.nests(handoff, nested=bool(here.run.path)):
        mapper = (here.config.handoff_history or HandoffHistory()).mapper
        hook_id = names.round_id(here.state.turn_id, here.run.mark, "y", here.run.rounds, 0)
        if mapper is not None and asking.answered(here, hook_id) is None:
            return (_mapper_question(here, mapper, hook_id),)
    return _moment(here, handoff)


def _moment(here: Here, handoff: Handoff) -> tuple[Question, ...]:
    run, turn_id = here.run, here.state.turn_id

    def name(letter: str, index: int) -> str:
        return names.round_id(turn_id, run.mark, letter, run.rounds, index)

    facts = partial(asking.moment_facts, here, Moment.HANDOFF, from_agent=run.agent, to_agent=handoff.agent)
    return asking.awaited(here, Moment.HANDOFF, name, facts)


def _seen(here: Here, history: Sequence[str]) -> request.View:
    return request.view(here.state, here.run, history, first=here.run.new_from)


def _filter_question(here: Here, ref: HookRef, hook_id: str, before: Sequence[InputFilter]) -> Question:
    def seen(history: Sequence[str]) -> request.View:
        return request.filtered_handoff(here.state, here.run, _seen(here, history), before, here.run.rounds)[0]

    def payload(history: Sequence[str]) -> str:
        made = seen(history)
        parts = {"input_history": made.past, "pre_handoff_items": made.pre, "new_items": made.new}
        return request.as_object(**{name: request.as_list(texts_) for name, texts_ in parts.items()})

    def settle(history: Sequence[str], answer_json: str) -> str:
        return request.pack_handoff(seen(history), answer_json)

    kind = HookKind.HANDOFF_INPUT_FILTER
    return asking.question(here, hook_id, kind, ref, payload, settle, needs_history=here.reads_history)


def _mapper_question(here: Here, ref: HookRef, hook_id: str) -> Question:
    def payload(history: Sequence[str]) -> str:
        return f'{{"transcript":{request.as_list(_seen(here, history).all)}}}'

    def settle(history: Sequence[str], answer_json: str) -> str:
        packed = pack_list({KEPT: _seen(here, history).all}, required(members(answer_json), "input")[1], "$.input")
        return f'{{"input":{packed}}}'

    kind = HookKind.HANDOFF_HISTORY
    return asking.question(here, hook_id, kind, ref, payload, settle, needs_history=here.reads_history)
