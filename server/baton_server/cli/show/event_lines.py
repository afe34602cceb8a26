"""Events in words, by a table with a line for each arm. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from baton.v1 import event_pb2, item_pb2
from baton_server.cli.show.items import item_words
from baton_server.cli.show.texts import counted, one_line
from baton_server.cli.show.times import seconds
from baton_server.cli.show.words import call_words, error_words, parts_text, usage_words, word

SHORT = 6
"""Last characters of an id that tell it from its neighbours: ids begin with the time."""


def event_words(event: event_pb2.Event) -> str:
    """Say what happened; a message or a result may have several lines."""
    arm = event.WhichOneof("event")
    if arm is None:
        return f"event {_numbers(event)}, which this version does not know"
    words = _WORDS.get(arm)
    return words(event) if words is not None else f"{arm.replace('_', ' ')}: {one_line(str(getattr(event, arm)))}"


def part_words(part: event_pb2.StreamPart) -> str:
    """Say what came where it is a part of a kind that this version does not know."""
    return f"part {_numbers(part)} of the stream, which this version does not know"


def short(id_: str) -> str:
    """Shorten an id for the eye; it cannot be found by this."""
    return id_[-SHORT:]


def _numbers(message: Message) -> str:
    """List the numbers of fields that are not known."""
    fields = UnknownFieldSet(message)
    return ", ".join(str(fields[index].field_number) for index in range(len(fields))) or "without content"


def _session_created(event: event_pb2.Event) -> str:
    made = event.session_created
    key = f" with the key {one_line(repr(made.key))}" if made.key else ""
    return f"session {event.session_id} made{key}{_labels(made.metadata)}"


def _requires_action(event: event_pb2.Event) -> str:
    waits = (_waited_for(action) for action in event.session_requires_action.required_actions)
    return "waits for " + "\n      and ".join(waits)


def _waited_for(action: event_pb2.RequiredAction) -> str:
    undecided = action.state == event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION
    return f"{'a decision about ' if undecided else ''}{call_words(action)} {action.call_id}"


def _updated(event: event_pb2.Event) -> str:
    return f"session's defaults changed: {one_line(', '.join(event.session_updated.paths))}"


def _turn_created(event: event_pb2.Event) -> str:
    turn, carried = event.turn_created.turn, len(event.turn_created.carried_item_ids)
    waits = ", waits for the turn before it" if turn.status == event_pb2.TURN_STATUS_QUEUED else ""
    with_ = f", with {counted(carried, 'message')} that came too late for the turn before" if carried else ""
    return f"turn {turn.turn_id} of {one_line(turn.agent)} made{waits}{with_}"


def _turn_completed(event: event_pb2.Event) -> str:
    return f"turn completed: {_spent(event.turn_completed.turn)}"


def _turn_failed(event: event_pb2.Event) -> str:
    turn = event.turn_failed.turn
    return f"turn failed: {error_words(turn.error)}\n{_spent(turn)}"


def _turn_cancelled(event: event_pb2.Event) -> str:
    return f"turn cancelled: {_spent(event.turn_cancelled.turn)}"


def _cancel_requested(event: event_pb2.Event) -> str:
    asked = event.cancel_requested
    when = "after the round" if asked.mode == event_pb2.CANCEL_MODE_AFTER_ROUND else "at once"
    return f"a cancel is asked for, {when}" + (f": {one_line(asked.reason)}" if asked.reason else "")


def _item(event: event_pb2.Event) -> str:
    told = event.item_added if event.HasField("item_added") else event.item_done
    return item_words(told.item) + ("" if told.in_history else "  (not in the history)")


def _withdrawn(event: event_pb2.Event) -> str:
    gone = event.items_withdrawn
    what = counted(len(gone.item_ids), "item") if gone.item_ids else "all items"
    why = {
        event_pb2.WITHDRAWAL_REASON_GUARDRAIL: ", since a guardrail tripped on them",
        event_pb2.WITHDRAWAL_REASON_MERGED: ", since a merge with the input left them out",
        event_pb2.WITHDRAWAL_REASON_FAILED: ", since the turn failed over their reply",
        event_pb2.WITHDRAWAL_REASON_UNANSWERED: ", since their outputs did",
    }.get(gone.reason, "")
    return f"{what} left the history{why}"


def _round_completed(event: event_pb2.Event) -> str:
    done = event.round_completed
    return f"round {event.round} by {one_line(done.model)} in {seconds(done.duration)}: {usage_words(done.usage)}"


def _model_attempt_failed(event: event_pb2.Event) -> str:
    failed = event.model_attempt_failed
    then = f"; again in {seconds(failed.retry_after)}" if failed.HasField("retry_after") else ""
    return f"model request {failed.model_attempt} of round {event.round} failed: {error_words(failed.error)}{then}"


def _nested_run_created(event: event_pb2.Event) -> str:
    made = event.nested_run_created
    return f"{one_line(made.agent)} begins a run of its own, for {made.call_id}"


def _nested_run_closed(event: event_pb2.Event) -> str:
    closed = event.nested_run_closed
    how = (
        f" failed: {error_words(closed.error)}" if closed.HasField("error") else f" ended: {usage_words(closed.usage)}"
    )
    return f"the run of {closed.call_id}{how}"


def _call_returned(event: event_pb2.Event) -> str:
    returned = event.call_returned
    how = word(item_pb2.Settlement, returned.settlement).lower().replace("_", " ")
    error = f" [{error_words(returned.error)}]" if returned.HasField("error") else ""
    return f"{returned.call_id} gave ({how}) {one_line(parts_text(returned.output))}{error}"


def _approval_requested(event: event_pb2.Event) -> str:
    asked = event.approval_requested
    ends = f", or it is rejected by itself in {seconds(asked.expires)}" if asked.HasField("expires") else ""
    return f"somebody must allow {asked.call_id}{ends}"


def _approval_decided(event: event_pb2.Event) -> str:
    told, decision = event.approval_decided, event.approval_decided.decision
    if told.HasField("error"):
        return f"{decision.call_id} is rejected: {error_words(told.error)}"
    who = one_line(decision.decided_by) or "somebody"
    what = "approved" if decision.verdict == event_pb2.VERDICT_APPROVE else "rejected"
    later = {(True, False): ", and later ones in the turn", (True, True): ", and later ones in the session"}
    more = later.get((decision.always or decision.always_in_session, decision.always_in_session), "")
    return f"{who} {what} {decision.call_id}{more}" + (f": {one_line(decision.message)}" if decision.message else "")


def _attempt_lost(event: event_pb2.Event) -> str:
    lost = event.attempt_lost
    then = {
        event_pb2.AFTER_LOSS_REDELIVERED: "it is delivered again",
        event_pb2.AFTER_LOSS_EFFECT_UNKNOWN: "somebody must find out whether it took effect",
        event_pb2.AFTER_LOSS_CHECKED: "its check is asked whether it took effect",
        event_pb2.AFTER_LOSS_FAILED: "it is not delivered again",
    }.get(lost.next, word(event_pb2.AfterLoss, lost.next))
    return f"attempt {lost.attempt} of {lost.call_id} was lost with {one_line(lost.worker_id)}; {then}"


def _tripped(event: event_pb2.Event) -> str:
    tripped = event.guardrail_tripped
    info = f": {one_line(tripped.info_json)}" if tripped.info_json else ""
    about = f" {tripped.call_id}" if tripped.call_id else ""
    did = f"rejected{about}" if tripped.verdict == event_pb2.GUARDRAIL_VERDICT_CONTENT_REJECTED else f"tripped{about}"
    return f"the guardrail {one_line(repr(tripped.name))} {did}{info}"


def _hook_settled(event: event_pb2.Event) -> str:
    hook = event.hook_settled
    who = f" by {one_line(hook.worker_id)}" if hook.worker_id else ""
    outcome = f"got no answer: {error_words(hook.error)}" if hook.HasField("error") else f"was answered{who}"
    return f"the hook {one_line(hook.name)} ({word(event_pb2.HandlerKind, hook.kind)}) {outcome}"


def _effect_unknown(event: event_pb2.Event) -> str:
    unknown = event.effect_unknown
    key = one_line(unknown.idempotency_key)
    return f"nobody knows whether attempt {unknown.attempt} of {unknown.call_id} took effect under the key {key}"


def _effect_decided(event: event_pb2.Event) -> str:
    decided = event.effect_decided
    who = one_line(decided.decided_by) or "somebody"
    return f"{who} has {decided.call_id} delivered again"


def _discarded(event: event_pb2.Event) -> str:
    gone = event.result_discarded
    source = f"{one_line(gone.worker_id)}, attempt {gone.attempt}" if gone.worker_id else "outside"
    return f"a result of {gone.call_id} from {source} was not taken: {error_words(gone.error)}"


def _labels(labels: Mapping[str, str]) -> str:
    return one_line("".join(f" {key}={value}" for key, value in sorted(labels.items())))


def _spent(turn: event_pb2.Turn) -> str:
    return f"{counted(turn.rounds, 'round')}, {usage_words(turn.usage)}"


_WORDS: Mapping[str, Callable[[event_pb2.Event], str]] = {
    "session_created": _session_created,
    "session_in_progress": lambda _: "session in progress",
    "session_requires_action": _requires_action,
    "session_idle": lambda _: "session idle",
    "session_updated": _updated,
    "turn_created": _turn_created,
    "turn_in_progress": lambda _: "turn in progress",
    "turn_completed": _turn_completed,
    "turn_failed": _turn_failed,
    "turn_cancelled": _turn_cancelled,
    "cancel_requested": _cancel_requested,
    "item_added": _item,
    "item_done": _item,
    "items_withdrawn": _withdrawn,
    "round_completed": _round_completed,
    "agent_changed": lambda event: f"{one_line(event.agent_changed.agent)} goes on",
    "guardrail_tripped": _tripped,
    "hook_settled": _hook_settled,
    "effect_unknown": _effect_unknown,
    "effect_decided": _effect_decided,
    "attempt_lost": _attempt_lost,
    "model_attempt_failed": _model_attempt_failed,
    "nested_run_created": _nested_run_created,
    "nested_run_closed": _nested_run_closed,
    "call_returned": _call_returned,
    "approval_requested": _approval_requested,
    "approval_decided": _approval_decided,
    "result_discarded": _discarded,
}


def indented(text: str, columns: int) -> str:
    """Put the further lines of a text below its first one, so that none can pass for a line of its own."""
    return text.replace("\n", "\n" + " " * columns)


def nested(event: event_pb2.Event, text: str) -> str:
    """Put what happened in a nested run further to the right, by how deep it is."""
    margin = "  " * len(event.run_path)
    return f"{margin}{indented(text, len(margin))}"


def known_arms() -> Iterable[str]:
    """List the arms that have words of their own."""
    return _WORDS.keys()
