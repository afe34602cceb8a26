"""What a model request carries: the conversation as the agent that goes on sees it. Pure.

A conversation is put together anew for every request, from the history that the turn began with and the items of the
run, through the handoffs that changed it and the filters of this request. So nothing of it is kept, and a replay gets
the same one. It has three parts, as a handoff's filter sees them: what was there before the run made anything, what
the run made before a round, and what it made in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from baton_server.core import filters, folding, jsontext
from baton_server.core.agents import InputFilter
from baton_server.core.hooks import answers, names, packing
from baton_server.core.hooks.packing import KEPT, NEW, ModelInput
from baton_server.core.items import Item, Reasoning
from baton_server.core.run import Rewrite, Run
from baton_server.core.run_config import KEPT_BY_MODEL, HandoffHistory, HistoryMode, ReasoningItemIds
from baton_server.core.state import TurnState
from baton_server.core.tools import HookRef


@dataclass(slots=True)
class View:
    """A conversation in its three parts. Items are JSON texts, in order.

    `past`: history and the run's input. `pre`: what the run made before the round in question, and what came in
    meanwhile. `new`: what it made in that round.
    """

    past: list[str] = field(default_factory=list)
    pre: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[str]:
        """List the whole of it."""
        return [*self.past, *self.pre, *self.new]


# -- the conversation ------------------------------------------------------------------------------


def view(state: TurnState, run: Run, history: Sequence[str], *, before: int | None = None, first: int = -1) -> View:
    """Put a run's conversation together, of its items before number `before` (None: all).

    `first`: where the round begins whose items are `new`; -1: none is in question.
    """
    made = View(past=_past(state, run, history))
    merged = merges(state, run)
    rewrites = [rewrite for rewrite in run.rewrites if before is None or rewrite.at <= before]
    begun = False
    for number in sorted(run.items):
        if before is not None and number >= before:
            break
        while rewrites and rewrites[0].at <= number:
            made = rewritten(state, run, made, rewrites.pop(0))
        item = state.items[number]
        begun = begun or bool(item.agent)
        if not begun:
            if not merged or number >= run.merged:
                made.past.append(item.json)
        elif number >= (rewrites[0].first if rewrites else first) >= 0:
            made.new.append(_text(state, item))
        else:
            made.pre.append(_text(state, item))
    for rewrite in rewrites:
        made = rewritten(state, run, made, rewrite)
    return made


def made_texts(state: TurnState, run: Run) -> list[str]:
    """List what a run made, and what came in meanwhile, as far as the next one is to go on from it."""
    items = [state.items[number] for number in sorted(run.items) if number not in run.left_out]
    first = next((at for at, item in enumerate(items) if item.agent), len(items))
    return [_text(state, item) for item in items[first:]]


def merges(state: TurnState, run: Run) -> bool:
    """Tell whether a program merges the history and the run's input."""
    config = state.pinned.config
    reads = config.mode in (HistoryMode.SESSION, HistoryMode.STORED)
    return reads and not run.path and not state.continues and config.session_input is not None


def history_of(state: TurnState, run: Run, history: Sequence[str]) -> list[str]:
    """List what the run's history is, of what the session or a caller's store has."""
    config = state.pinned.config
    if run.path or state.continues or config.mode in KEPT_BY_MODEL or config.mode is HistoryMode.CALLER:
        return []
    if config.mode is HistoryMode.STORED:
        got = run.answer(names.round_id(state.turn_id, "", "o", 0, 0))
        kept = [] if got is None or not got.answer_json else stored_items(got.answer_json)
    else:
        kept = list(history)
    kept = filters.newest(kept, config.history.limit if config.history is not None else None)
    return filters.without_ids(kept) if config.reasoning_item_ids is ReasoningItemIds.OMIT else kept


def stored_items(answer_json: str) -> list[str]:
    """Read the items that a caller's store gave. Raises AnswerError."""
    text = answers.required(answers.members(answer_json), "items")[1]
    return packing.unpack_list({}, packing.pack_list({}, text, "$.items"))


def input_of(state: TurnState, run: Run) -> list[str]:
    """List what came in before the run made anything."""
    made = []
    for item in state.items_of(run):
        if item.agent:
            break
        made.append(item.json)
    return made


def merge_id(state: TurnState) -> str:
    """Name the question how history and input become one."""
    return names.round_id(state.turn_id, "", "m", 0, 0)


def _past(state: TurnState, run: Run, history: Sequence[str]) -> list[str]:
    kept = history_of(state, run, history)
    if not merges(state, run):
        return kept
    merged = run.answer(merge_id(state))
    if merged is None or not merged.answer_json:
        return kept
    packed = answers.required(answers.members(merged.answer_json), "input")[1]
    return packing.unpack_list({KEPT: kept, NEW: input_of(state, run)}, packed)


def _text(state: TurnState, item: Item) -> str:
    if (
        item.agent
        and isinstance(item.body, Reasoning)
        and state.pinned.config.reasoning_item_ids is ReasoningItemIds.OMIT
    ):
        return filters.without_id(item.json)
    return item.json


# -- handoffs --------------------------------------------------------------------------------------


def rewritten(state: TurnState, run: Run, seen: View, rewrite: Rewrite) -> View:
    """Say what the receiver of a handoff sees of a conversation."""
    handoff = state.handoff(rewrite.agent, rewrite.name)
    if handoff is None:
        return seen
    chosen = state.pinned.handoff_filters(handoff)
    if chosen:
        made, unanswered = filtered_handoff(state, run, seen, chosen, rewrite.round)
        return View(past=made.past, pre=[*made.pre, *made.new]) if unanswered is None else seen
    folded = folded_handoff(state, run, seen, rewrite.round)
    return View(past=folded) if folded is not None else seen


def filtered_handoff(
    state: TurnState, run: Run, seen: View, chosen: Sequence[InputFilter], round_number: int
) -> tuple[View, int | None]:
    """Apply the filters of a handoff, one after another, as far as they are answered.

    The second is the one that is not. Where a program gives `input_items`, those stand where the round's items stood.
    """
    made = seen
    for index, one in enumerate(chosen):
        if not isinstance(one, HookRef):
            made = View(filters.apply(one, made.past), filters.apply(one, made.pre), filters.apply(one, made.new))
            continue
        answer = run.answer(names.round_id(state.turn_id, run.mark, "x", round_number, index))
        if answer is None or not answer.answer_json:
            return made, index
        made = _unpacked(made, answer.answer_json)
    return made, None


def folded_handoff(state: TurnState, run: Run, seen: View, round_number: int) -> list[str] | None:
    """Fold a conversation at a handoff. None: a program folds it, and has not answered."""
    how = state.pinned.config.handoff_history or HandoffHistory()
    if how.mapper is None:
        return folding.fold(seen.past, seen.pre, seen.new, start_marker=how.start_marker, end_marker=how.end_marker)
    answer = run.answer(names.round_id(state.turn_id, run.mark, "y", round_number, 0))
    if answer is None or not answer.answer_json:
        return None
    packed = answers.required(answers.members(answer.answer_json), "input")[1]
    return packing.unpack_list({KEPT: seen.all}, packed)


def pack_handoff(seen: View, answer_json: str) -> str:
    """Write a handoff filter's answer for the log. Raises AnswerError."""
    answer = answers.members(answer_json)
    packed = []
    for name in ("input_history", "pre_handoff_items", "new_items", "input_items"):
        if name == "input_items" and (name not in answer or answer[name][0] is None):
            continue
        text = answers.required(answer, name)[1]
        packed.append(f'"{name}":{packing.pack_list(_asked_of(seen), text, f"$.{name}")}')
    return "{" + ",".join(packed) + "}"


def kept_by_handoff(state: TurnState, run: Run, chosen: Sequence[InputFilter], numbers: Sequence[int]) -> set[int]:
    """Say which items of the round that hands over its filters keep: what they leave out is not said to be new."""
    texts, places = [state.items[number].json for number in numbers], list(numbers)
    for index, one in enumerate(chosen):
        if not isinstance(one, HookRef):
            kept = filters.kept_positions((one,), (None,), texts)
        else:
            answer = run.answer(names.round_id(state.turn_id, run.mark, "x", run.rounds, index))
            packed = answers.members(answer.answer_json)["new_items"][1] if answer and answer.answer_json else "[]"
            stretches = [piece for piece in packing.pieces(packed) if isinstance(piece, packing.Stretch)]
            kept = sorted({at for piece in stretches if piece.key == NEW for at in range(piece.first, piece.end)})
        texts, places = [texts[at] for at in kept], [places[at] for at in kept]
    return set(places)


def _asked_of(seen: View) -> dict[str, Sequence[str]]:
    return {KEPT: [*seen.past, *seen.pre], NEW: seen.new}


def _unpacked(seen: View, packed_json: str) -> View:
    packed = answers.members(packed_json)
    asked = _asked_of(seen)
    new = packed.get("input_items") or packed["new_items"]
    return View(
        past=packing.unpack_list(asked, packed["input_history"][1]),
        pre=packing.unpack_list(asked, packed["pre_handoff_items"][1]),
        new=packing.unpack_list(asked, new[1]),
    )


# -- one request -----------------------------------------------------------------------------------


def filter_id(state: TurnState, run: Run, index: int) -> str:
    """Name the question of filter `index` about the round's request."""
    return names.round_id(state.turn_id, run.mark, "f", run.round, index)


def unanswered_filter(state: TurnState, run: Run) -> int | None:
    """Find the first filter of the round's request that is a program and has not answered; None: there is none."""
    for index, one in enumerate(state.pinned.config.model_input_filters):
        if isinstance(one, HookRef) and run.answer(filter_id(state, run, index)) is None:
            return index
    return None


def carried(state: TurnState, run: Run, history: Sequence[str], *, filters_before: int | None = None) -> ModelInput:
    """Say what the round's request carries; `filters_before`: as the filter of that index is asked about it."""
    texts = _before_filters(state, run, history)
    given = ModelInput(instructions=instructions(state, run), items=tuple(texts))
    chosen = state.pinned.config.model_input_filters
    for index, one in enumerate(chosen[:filters_before]):
        if isinstance(one, HookRef):
            answer = run.answer(filter_id(state, run, index))
            if answer is not None and answer.answer_json:
                given = packing.unpack_input(given, answer.answer_json)
        else:
            given = ModelInput(instructions=given.instructions, items=tuple(filters.apply(one, given.items)))
    return ModelInput(instructions=given.instructions, items=tuple(filters.without_repeats(given.items)))


def _before_filters(state: TurnState, run: Run, history: Sequence[str]) -> list[str]:
    if state.pinned.config.mode in KEPT_BY_MODEL and not run.path:
        return [state.items[number].json for number in state.unsent(run)]
    if not run.rewrites and not merges(state, run):
        return [*history_of(state, run, history), *(_text(state, item) for item in state.items_of(run))]
    return view(state, run, history).all


def instructions(state: TurnState, run: Run) -> str | None:
    """Say what the agent is told in this round; None: nothing."""
    agent = state.agent(run)
    if agent.instructions_hook is None:
        return agent.instructions
    answer = run.answer(names.round_id(state.turn_id, run.mark, "i", run.round, 0))
    return None if answer is None or not answer.answer_json else answers.read_text("instructions", answer.answer_json)


def kept_by_model(state: TurnState, run: Run) -> tuple[str, str]:
    """Say which conversation and which reply the model's API is to go on from. Empty: none."""
    history = state.pinned.config.history
    if history is None or run.path:
        return "", ""
    if history.mode is HistoryMode.CONVERSATION:
        return history.id, ""
    if history.mode is HistoryMode.RESPONSE:
        return "", (run.last_response_id if history.auto and run.last_response_id else history.id)
    return "", ""


def tool_choice_dropped(state: TurnState, run: Run) -> bool:
    """Tell whether a forced tool choice is dropped, since the agent has called a tool."""
    agent = state.agent(run)
    return agent.name in run.used_tools and not agent.keep_tool_choice


def as_object(**members: str) -> str:
    """Write an object of JSON texts."""
    return "{" + ",".join(f"{jsontext.dump(name)}:{text}" for name, text in members.items()) + "}"


def as_list(texts: Sequence[str]) -> str:
    """Write a list of JSON texts."""
    return f"[{','.join(texts)}]"
