"""What a run begins with: items of a caller's own store, a merge of history and input, guardrails of what came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from baton_server.core import ids, request
from baton_server.core.course import asking, ending
from baton_server.core.course.here import Here, Move, Next
from baton_server.core.errors import Failure, Reason, clip
from baton_server.core.events import GuardrailTripped, HookKind, ItemsWithdrawn, Withdrawal
from baton_server.core.hooks import names, packing
from baton_server.core.hooks.answers import AnswerError, members, read_judged, read_object, required
from baton_server.core.hooks.packing import KEPT, NEW
from baton_server.core.hooks.question import Question
from baton_server.core.items import Message, text_of
from baton_server.core.recorder import Recorder
from baton_server.core.responses import ItemError, read_items
from baton_server.core.run import Run
from baton_server.core.state import TurnState
from baton_server.core.tools import Terms


@dataclass(frozen=True, slots=True)
class Guards:
    """Questions to input guardrails that must still answer. `model_waits`: before the model is asked."""

    asked: tuple[Question, ...]
    model_waits: bool


def opening(here: Here) -> Next:
    """Read a caller's store, merge, and keep the input there, before anything else of the turn's own run."""
    if here.run.path or here.run.rounds:
        return None
    return _read_store(here) or _merge(here)


def stored(here: Here) -> tuple[Question, ...]:
    """Have a caller's store keep what is new, if it has one and anything is."""
    history = here.config.history
    if here.run.path or history is None or history.store is None:
        return ()
    new = [n for n in sorted(here.run.items) if n >= here.run.stored and n not in here.run.left_out]
    if not new:
        return ()
    up_to = here.state.next_number
    items = request.as_list([here.state.items[number].json for number in new])
    hook_id, text = names.store_id(here.state.turn_id, up_to), f'{{"operation":"add","items":{items}}}'
    settle = asking.verbatim(read_object)
    return (asking.question(here, hook_id, HookKind.SESSION_STORE, history.store, lambda _history: text, settle),)


def merged(record: Recorder, run: Run, answer_json: str) -> None:
    """Keep of the input what a merge kept, and take in what it brought: an item that is in no history yet is new.

    They are kept in the order of the merge: what stands behind something that it brought is recorded anew behind that.
    """
    state, merge = record.state, packing.read_merge(answer_json)
    came = [number for number in sorted(run.items) if not state.items[number].agent]
    follows = [state.items[came[one]].json if isinstance(one, int) else one for one in merge.follows]
    left_out = [number for at, number in enumerate(came) if at not in merge.stays]
    if left_out:
        item_ids = tuple(ids.item_id(state.turn_id, number) for number in left_out)
        record(ItemsWithdrawn(item_ids=item_ids, reason=Withdrawal.MERGED), run)
    for text in follows:
        record.item(read_items(f"[{text}]")[0], run)


def _read_store(here: Here) -> Next:
    history = here.config.history
    if history is None or history.store is None or here.state.continues:
        return None
    hook_id = names.round_id(here.state.turn_id, "", "o", 0, 0)
    if asking.answered(here, hook_id) is not None:
        return None
    payload = asking.fixed(operation="get", limit=history.limit)
    settle = asking.verbatim(request.stored_items)
    return (asking.question(here, hook_id, HookKind.SESSION_STORE, history.store, payload, settle),)


def _merge(here: Here) -> Next:
    state, run, ref = here.state, here.run, here.config.session_input
    if ref is None or not request.merges(state, run):
        return None
    hook_id = request.merge_id(state)
    if asking.answered(here, hook_id) is not None:
        return None

    def payload(history: Sequence[str]) -> str:
        kept, new = request.history_of(state, run, history), request.input_of(state, run)
        return f'{{"history":{request.as_list(kept)},"new_input":{request.as_list(new)}}}'

    def settle(history: Sequence[str], answer_json: str) -> str:
        asked = {KEPT: request.history_of(state, run, history), NEW: request.input_of(state, run)}
        packed = packing.pack_list(asked, required(members(answer_json), "input")[1], "$.input")
        _check_brought(packed)
        return f'{{"input":{packed}}}'

    kind = HookKind.SESSION_INPUT
    return (asking.question(here, hook_id, kind, ref, payload, settle, needs_history=here.reads_history),)


def _check_brought(packed: str) -> None:
    """Refuse a merge that brings what is no item: it would become one. Raises AnswerError."""
    for text in (piece for piece in packing.pieces(packed) if isinstance(piece, str)):
        try:
            read_items(f"[{text}]")
        except ItemError as error:
            where = error.path.removeprefix("[0]")
            raise AnswerError(
                "$.input", f"brings {clip(text, 80)}, which cannot be read at ${where}: {error.problem}"
            ) from None


# -- guardrails ------------------------------------------------------------------------------------


def open_guardrails(state: TurnState, run: Run) -> list[tuple[str, int]]:
    """List the ids and indexes of guardrails that must still answer about what came in last."""
    chosen = state.pinned.input_guardrails(state.agent(run))
    if not chosen or run.batch is None or run.batch.rounds != run.rounds or run.unsettled:
        return []
    first = run.batch.first
    named = ((names.guardrail_id(state.turn_id, first, at), at) for at, one in enumerate(chosen) if _asks(one.check))
    return [(hook_id, at) for hook_id, at in named if hook_id not in run.hooks]


def guarded(here: Here) -> Guards | Move:
    """List the questions to guardrails that must still answer; or end the run, since one has tripped."""
    chosen = here.state.pinned.input_guardrails(here.agent)
    if not chosen or here.run.batch is None or here.run.batch.rounds != here.run.rounds:
        return Guards((), False)
    tripped = _tripped(here)
    if tripped is not None:
        return tripped
    left = open_guardrails(here.state, here.run)
    asked = tuple(_guardrail_question(here, hook_id, at) for hook_id, at in left)
    return Guards(asked, any(chosen[at].blocking for _, at in left))


def _over_input(here: Here, tripped: GuardrailTripped) -> Move:
    """End a run over its input."""
    return partial(_trip, tripped=tripped, here=here)


def _asks(check: object) -> bool:
    return not isinstance(check, Terms)


def _tripped(here: Here) -> Move | None:
    """Find the first guardrail that trips on what came in last."""
    assert here.run.batch is not None
    first, last = here.run.batch.first, here.run.batch.last
    for at, one in enumerate(here.state.pinned.input_guardrails(here.agent)):
        if isinstance(one.check, Terms):
            bodies = [here.state.items[n].body for n in sorted(here.run.items) if first <= n <= last]
            text = "\n".join(text_of(body.content) for body in bodies if isinstance(body, Message))
            if one.check.strike(text):
                return _over_input(here, GuardrailTripped(name=one.name))
            continue
        answer = here.run.answer(names.guardrail_id(here.state.turn_id, first, at))
        if answer is not None and answer.answer_json:
            judged = read_judged(answer.answer_json)
            if judged.tripped:
                return _over_input(here, GuardrailTripped(name=one.name, info_json=judged.info_json))
    return None


def _trip(record: Recorder, tripped: GuardrailTripped, here: Here) -> None:
    record(tripped, here.run)
    failure = Failure(
        reason=Reason.INPUT_GUARDRAIL_TRIPPED,
        message=f"The input guardrail {tripped.name!r} tripped: the input is not worked on.",
        metadata={"guardrail": tripped.name},
    )
    ending.fail(record, here.run, failure)


def _guardrail_question(here: Here, hook_id: str, at: int) -> Question:
    state, run, batch = here.state, here.run, here.run.batch
    assert batch is not None
    check = state.pinned.input_guardrails(here.agent)[at].check
    assert not isinstance(check, Terms)
    begins = batch.first == min(run.items, default=batch.first) and not state.continues  # what comes later: alone

    def payload(history: Sequence[str]) -> str:
        came = [state.items[n].json for n in sorted(run.items) if batch.first <= n <= batch.last]
        judged = request.view(state, run, history).all if begins else came
        return f'{{"input":{request.as_list(judged)}}}'

    settle = asking.verbatim(read_judged)
    kind = HookKind.INPUT_GUARDRAIL
    return asking.question(here, hook_id, kind, check, payload, settle, needs_history=begins and not run.path)
