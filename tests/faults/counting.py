"""Counts what was broken, from what processes wrote down themselves and from the store; never from a server's counters.

Pure. Each finding is a sentence, so that whoever reads a count that is not 0 sees what it is made of.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from baton.v1 import event_pb2, item_pb2
from baton_server.core.events import TERMINAL
from baton_server.ports.store import CallState
from tests.faults.functions import AGENTS, ALLOWED, AT_MOST_ONCE, output_of
from tests.faults.journal import Entry, Fact
from tests.faults.stored import Stored, calls_in, decisions_in, outputs_in, returns_in, waits_in

ENDS = ("turn_completed", "turn_failed", "turn_cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is counted. `turn_ids`: turns that callers were told of. `faults`: what readers should not have seen."""

    stored: Stored
    journal: Sequence[Entry] = ()
    turn_ids: frozenset[str] = frozenset()
    faults: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was found. `broken`: findings by the promise that they break, each with an entry, however empty."""

    calls_made: int
    calls_settled: int
    turns_started: int
    turns_finished: int
    redelivered: int
    late_discarded: int
    sent_again: int
    sent_late: int
    broken: Mapping[str, Sequence[str]] = field(default_factory=dict)


def count(seen: Seen) -> Counted:
    """Count everything."""
    stored = seen.stored
    turn_ids = seen.turn_ids | stored.turns.keys()
    outputs = _outputs(stored)
    calls = [call for events in stored.events.values() for call in calls_in(events)]
    facts = Counter(entry.fact for entry in seen.journal)
    discarded = (event.HasField("result_discarded") for events in stored.events.values() for event in events)
    return Counted(
        calls_made=len(calls),
        calls_settled=sum(bool(outputs[call.call_id]) for call in calls),
        turns_started=len(turn_ids),
        turns_finished=sum(_over(stored, turn_id) for turn_id in turn_ids),
        redelivered=sum(entry.fact is Fact.BEGUN and entry.attempt > 1 for entry in seen.journal),
        late_discarded=sum(discarded),
        sent_again=facts[Fact.SENT_AGAIN],
        sent_late=facts[Fact.SENT_LATE],
        broken={
            "calls_lost": [*calls_without_output(stored), *acked_and_gone(seen), *never_acked(seen)],
            "settled_twice": [*settled_twice(stored), *begun_twice(seen)],
            "executed_again_although_ask": list(executed_again(seen)),
            "executed_without_leave": list(executed_without_leave(seen)),
            "decided_twice": [*decided_twice(stored), *hooks_settled_twice(stored)],
            "order_broken": [*seen.faults, *gaps(stored), *history_out_of_order(stored), *of_another(seen),
                             *one_key_twice(stored), *one_request_twice(stored), *not_one_end(stored)],
            "turns_stuck": [f"{turn_id} has not ended" for turn_id in sorted(turn_ids) if not _over(stored, turn_id)],
            "turns_failed": list(failed(stored)),
        },
    )  # fmt: skip


def _over(stored: Stored, turn_id: str) -> bool:
    return turn_id in stored.turns and stored.turns[turn_id].status in TERMINAL


def _outputs(stored: Stored) -> dict[str, list[item_pb2.FunctionCallOutput]]:
    found: dict[str, list[item_pb2.FunctionCallOutput]] = defaultdict(list)
    for events in stored.events.values():
        for output in outputs_in(events):
            found[output.call_id].append(output)
    return found


def _text(output: item_pb2.FunctionCallOutput) -> str:
    return "".join(part.text for part in output.output)


# -- calls lost --------------------------------------------------------------------------------------


def calls_without_output(stored: Stored) -> Iterator[str]:
    """Find calls that have no output, or are open although they have one."""
    outputs = _outputs(stored)
    for events in stored.events.values():
        for call in calls_in(events):
            row = stored.calls.get(call.call_id)
            if call.name in AGENTS:
                if not outputs[call.call_id]:
                    yield f"{call.call_id} ({call.name}) has no output"
            elif row is None:
                yield f"{call.call_id} ({call.name}) is in the log and in no row"
            elif not outputs[call.call_id]:
                over = "has ended" if _over(stored, row.turn_id) else "has not ended"
                yield f"{call.call_id} ({call.name}) is {row.state} and has no output; its turn {over}"
            elif row.state is not CallState.SETTLED:
                yield f"{call.call_id} ({call.name}) has an output and is {row.state}"


def acked_and_gone(seen: Seen) -> Iterator[str]:
    """Find results that were called durable, and are not what the log has, be it before a guardrail held one back."""
    outputs = _outputs(seen.stored)
    returned = {one.call_id: "".join(part.text for part in one.output) for one in returns_in(_all(seen.stored))}
    for entry in seen.journal:
        if entry.fact is Fact.ACKED and entry.outcome == "durable" and entry.text:
            texts = [_text(output) for output in outputs[entry.call_id]]
            texts += [returned[entry.call_id]] if entry.call_id in returned else []
            if entry.text not in texts:
                which = f"{entry.call_id}, attempt {entry.attempt}"
                yield f"{which}: {entry.text!r} was called durable; the log has {texts}"


def never_acked(seen: Seen) -> Iterator[str]:
    """Find calls and results that a worker still had when all had come to rest: nobody told it what became of them."""
    for entry in seen.journal:
        if entry.fact is Fact.LEFT:
            yield from (f"{entry.process} was left with a call or a result" for _ in range(entry.count))


# -- settled and executed twice ----------------------------------------------------------------------


def settled_twice(stored: Stored) -> Iterator[str]:
    """Find calls with more than one output."""
    for call_id, outputs in _outputs(stored).items():
        yield from (f"{call_id} has one more output: {_text(output)!r}" for output in outputs[1:])


def begun_twice(seen: Seen) -> Iterator[str]:
    """Find attempts whose body began more than once: two workers had the same attempt."""
    begun = Counter((entry.call_id, entry.attempt) for entry in seen.journal if entry.fact is Fact.BEGUN)
    for (call_id, attempt), times in begun.items():
        yield from (f"{call_id} began once more under attempt {attempt}" for _ in range(times - 1))


def executed_again(seen: Seen) -> Iterator[str]:
    """Find calls that must not run twice, and did.

    Nobody of the harness has a call delivered again whose body had begun, so that one begin is all that there may be.
    """
    begun: dict[str, list[Entry]] = defaultdict(list)
    for entry in seen.journal:
        if entry.fact is Fact.BEGUN and entry.name in AT_MOST_ONCE:
            begun[entry.call_id].append(entry)
    for call_id, entries in begun.items():
        where = ", ".join(f"attempt {entry.attempt} in {entry.process}" for entry in entries)
        yield from (f"{call_id} ({entries[0].name}) began again: {where}" for _ in entries[1:])


# -- decisions and hooks ------------------------------------------------------------------------------


def executed_without_leave(seen: Seen) -> Iterator[str]:
    """Find calls that must be allowed, and whose body began although nobody had allowed it."""
    verdicts = {one.call_id: one.verdict for one in decisions_in(_all(seen.stored))}
    for entry in seen.journal:
        if entry.fact is Fact.BEGUN and entry.name == ALLOWED:
            verdict = verdicts.get(entry.call_id, event_pb2.VERDICT_UNSPECIFIED)
            if verdict != event_pb2.VERDICT_APPROVE:
                yield f"{entry.call_id} began in {entry.process}; its decision is {event_pb2.Verdict.Name(verdict)}"


def decided_twice(stored: Stored) -> Iterator[str]:
    """Find calls about which more than one decision was taken."""
    for call_id, times in Counter(one.call_id for one in decisions_in(_all(stored))).items():
        yield from (f"{call_id} was decided once more" for _ in range(times - 1))


def hooks_settled_twice(stored: Stored) -> Iterator[str]:
    """Find hooks of which more than one answer was taken."""
    settled = (event.hook_settled.hook_id for event in _all(stored) if event.HasField("hook_settled"))
    for hook_id, times in Counter(settled).items():
        yield from (f"{hook_id} was settled once more" for _ in range(times - 1))


# -- order -------------------------------------------------------------------------------------------


def gaps(stored: Stored) -> Iterator[str]:
    """Find logs whose sequences are not 1, 2, 3 and so on up to the session's last."""
    for session_id, events in stored.events.items():
        sequences = [event.sequence for event in events]
        if sequences != list(range(1, stored.last.get(session_id, 0) + 1)):
            yield f"{session_id} has {len(sequences)} events up to {stored.last.get(session_id)}: {sequences[-5:]}"


def history_out_of_order(stored: Stored) -> Iterator[str]:
    """Find histories in which the outputs of a round do not follow its calls in their order.

    Those of calls that waited for people stand behind the others. An output that is missing is no matter of order:
    that call is lost.
    """
    for session_id, items in stored.history.items():
        waited = set(waits_in(stored.events.get(session_id, ())))
        owed: list[str] = []
        late: list[str] = []
        answering = False
        for item in items:
            arm = item.WhichOneof("item")
            if arm == "function_call":
                call_id = item.function_call.call_id
                owed, late = ([], []) if answering else (owed, late)
                (late if call_id in waited else owed).append(call_id)
                answering = False
            elif arm == "function_call_output":
                call_id, answering = item.function_call_output.call_id, True
                if call_id in owed:
                    owed = owed[owed.index(call_id) + 1 :]
                elif call_id in late:
                    late.remove(call_id)
                else:
                    yield f"{session_id}: the output of {call_id} comes where one of {[*owed, *late]} is owed"
            else:
                owed, late = [], []


def of_another(seen: Seen) -> Iterator[str]:
    """Find outputs that are not those of their call: of another one, or of an attempt whose body never began."""
    begun = {(entry.call_id, entry.attempt) for entry in seen.journal if entry.fact is Fact.BEGUN}
    all_outputs = _outputs(seen.stored)
    for call_id, outputs in all_outputs.items():
        for output in outputs:
            if output.settlement != item_pb2.SETTLEMENT_OUTPUT:
                continue
            if output.joined_call_id:
                allowed = {_text(other) for other in all_outputs[output.joined_call_id]}
            else:
                allowed = {output_of(output.name, call_id, output.attempt)}
                if (call_id, output.attempt) not in begun:
                    yield f"{call_id} has the output of attempt {output.attempt}, which nobody began"
            if _text(output) not in allowed:
                yield f"{call_id} has the output {_text(output)!r}, not one of {sorted(allowed)}"


def one_key_twice(stored: Stored) -> Iterator[str]:
    """Find idempotency keys under which more than one call of a session took effect at a worker."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in stored.calls.values():
        if row.idempotency_key and row.succeeded and row.settled_attempt:
            found[row.session_id, row.idempotency_key].append(row.call_id)
    for (_, key), call_ids in found.items():
        yield from (f"{call_id} succeeded under the key {key} of {call_ids[0]}" for call_id in call_ids[1:])


def one_request_twice(stored: Stored) -> Iterator[str]:
    """Find requests that started more than one turn."""
    found = Counter((row.session_id, row.request_id) for row in stored.turns.values() if row.request_id)
    for (_, request_id), times in found.items():
        yield from (f"the request {request_id} started one more turn" for _ in range(times - 1))


def not_one_end(stored: Stored) -> Iterator[str]:
    """Find turns that have ended and whose log has no end of them, or several; or the other way round."""
    ends = Counter(event.turn_id for event in _all(stored) if event.WhichOneof("event") in ENDS)
    for turn_id, row in stored.turns.items():
        if ends[turn_id] != (row.status in TERMINAL):
            yield f"{turn_id} is {row.status}, and its log has {ends[turn_id]} ends"


def failed(stored: Stored) -> Iterator[str]:
    """Find turns that failed: nothing in the harness is a reason for that."""
    for event in _all(stored):
        if event.HasField("turn_failed"):
            error = event.turn_failed.turn.error
            yield f"{event.turn_id} failed ({error.reason}): {error.message}"


def _all(stored: Stored) -> Iterable[event_pb2.Event]:
    return (event for events in stored.events.values() for event in events)
