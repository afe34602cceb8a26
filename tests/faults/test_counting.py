"""The counting sees what it is for: made-up journals and stores, each with one thing broken, whose counts are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from baton.v1 import agent_pb2, event_pb2, item_pb2
from baton_server.core.events import TurnStatus
from baton_server.ports.store import CallRow, CallState, TurnRow
from tests.api.calling import client_of
from tests.faults.counting import Counted, Seen, count
from tests.faults.functions import output_of
from tests.faults.journal import Claims, Entry, Fact, Journal, read_journals, read_lines
from tests.faults.stored import Stored, read_store
from tests.support.scripted_model import ScriptedModel, calls, say
from tests.support.scripted_worker import ScriptedWorker
from tests.support.server import server

SESSION, TURN = "sess_1", "turn_1"


def call(number: int, name: str = "plain") -> item_pb2.Item:
    """Make a call as the log has it."""
    made = item_pb2.FunctionCall(call_id=f"call_{number}", name=name)
    return item_pb2.Item(item_id=f"item_c{number}", status=item_pb2.ITEM_STATUS_IN_PROGRESS, function_call=made)


def output(
    number: int, name: str = "plain", attempt: int = 1, text: str = "", joined_call_id: str = ""
) -> item_pb2.Item:
    """Make the output of a call as the log has it; `text` empty: what its body returns."""
    made = item_pb2.FunctionCallOutput(
        call_id=f"call_{number}",
        name="plain",
        attempt=attempt,
        settlement=item_pb2.SETTLEMENT_OUTPUT,
        output=[item_pb2.ContentPart(text=text or output_of("plain", f"call_{number}", attempt))],
        joined_call_id=joined_call_id,
    )
    return item_pb2.Item(item_id=f"item_o{number}", function_call_output=made)


def message(text: str = "Done.") -> item_pb2.Item:
    """Make the model's message."""
    made = item_pb2.Message(role=item_pb2.MESSAGE_ROLE_ASSISTANT, content=[item_pb2.ContentPart(text=text)])
    return item_pb2.Item(item_id="item_m", message=made)


def begun(number: int, attempt: int = 1, name: str = "plain") -> Entry:
    """Make the line that a body begins."""
    return Entry(fact=Fact.BEGUN, call_id=f"call_{number}", attempt=attempt, name=name, process="worker")


def store_of(*items: item_pb2.Item, ends: int = 1, status: TurnStatus = TurnStatus.COMPLETED) -> Stored:
    """Make a store with one turn, which has these items in its log and in its history."""
    events = [
        event_pb2.Event(turn_id=TURN, item_added=event_pb2.ItemAdded(item=item, in_history=True)) for item in items
    ]
    events += [event_pb2.Event(turn_id=TURN, turn_completed=event_pb2.TurnCompleted())] * ends
    numbered = [with_sequence(event, number) for number, event in enumerate(events, 1)]
    settled = {item.function_call_output.call_id for item in items if item.HasField("function_call_output")}
    rows = [row_of(item, settled) for item in items if item.HasField("function_call")]
    turn = TurnRow(
        turn_id=TURN, session_id=SESSION, status=status, snapshot=b"", agent_digest="", config_digest="", request_id="r"
    )  # fmt: skip
    return Stored(
        events={SESSION: numbered},
        history={SESSION: list(items)},
        last={SESSION: len(numbered)},
        turns={TURN: turn},
        calls={row.call_id: row for row in rows},
    )


def with_sequence(event: event_pb2.Event, sequence: int) -> event_pb2.Event:
    """Copy an event to a place in the log."""
    made = event_pb2.Event(sequence=sequence)
    made.MergeFrom(event)
    made.sequence = sequence
    return made


def row_of(item: item_pb2.Item, settled: set[str]) -> CallRow:
    """Make the row of a call."""
    call_id = item.function_call.call_id
    return CallRow(
        call_id=call_id,
        session_id=SESSION,
        turn_id=TURN,
        name=item.function_call.name,
        agent="clerk",
        arguments="{}",
        scopes=("",),
        state=CallState.SETTLED if call_id in settled else CallState.LEASED,
        attempt=1,
        settled_attempt=1,
        succeeded=call_id in settled,
    )


GOOD = (call(1), call(2), output(1), output(2), message())


def counted(stored: Stored, *journal: Entry, **fields: object) -> Counted:
    """Count; each call's body has begun once besides what is given."""
    seen = Seen(stored=stored, journal=[begun(1), begun(2), *journal])
    return count(replace(seen, **fields))  # type: ignore[arg-type]


def count_of(stored: Stored, *journal: Entry) -> Counted:
    """Count, with these entries alone."""
    return count(Seen(stored=stored, journal=journal))


def broken(found: Counted) -> dict[str, int]:
    """List the counts that should be 0 and are not."""
    return {name: len(findings) for name, findings in found.broken.items() if findings}


def test_a_good_run_has_nothing_broken() -> None:
    """Its calls and turns are counted, and so is what its workers did on purpose."""
    late = event_pb2.Event(turn_id=TURN, sequence=7, result_discarded=event_pb2.ResultDiscarded(call_id="call_1"))
    stored = store_of(*GOOD)
    stored = replace(stored, events={SESSION: [*stored.events[SESSION], late]}, last={SESSION: 7})
    done = [Entry(fact=Fact.ENDED), Entry(fact=Fact.SENT_AGAIN), Entry(fact=Fact.SENT_LATE), Entry(fact=Fact.LEFT)]
    acked = Entry(fact=Fact.ACKED, call_id="call_1", attempt=1, outcome="durable", text="plain call_1 1")

    found = counted(stored, begun(1, attempt=2), acked, *done, turn_ids=frozenset({TURN}))

    assert broken(found) == {}
    assert (found.calls_made, found.calls_settled, found.turns_started, found.turns_finished) == (2, 2, 1, 1)
    assert (found.redelivered, found.late_discarded, found.sent_again, found.sent_late) == (1, 1, 1, 1)


def gone(stored: Stored) -> Stored:
    """Take the row of a call away."""
    return replace(stored, calls={"call_1": stored.calls["call_1"]})


def still_leased(stored: Stored) -> Stored:
    """Have a call open whose output is there."""
    return replace(stored, calls={**stored.calls, "call_2": replace(stored.calls["call_2"], state=CallState.LEASED)})


def one_key(stored: Stored) -> Stored:
    """Have both calls succeed under one key."""
    return replace(stored, calls={name: replace(row, idempotency_key="k") for name, row in stored.calls.items()})


def a_gap(stored: Stored) -> Stored:
    """Take an event out of the middle."""
    events = stored.events[SESSION]
    return replace(stored, events={SESSION: [*events[:-2], events[-1]]})


def one_event_more(stored: Stored) -> Stored:
    """Have the session say that it has another event."""
    return replace(stored, last={SESSION: stored.last[SESSION] + 1})


def two_turns(stored: Stored) -> Stored:
    """Have a second turn of the same request."""
    other = replace(stored.turns[TURN], turn_id="turn_2")
    end = event_pb2.Event(turn_id="turn_2", turn_completed=event_pb2.TurnCompleted())
    events = [*stored.events[SESSION], with_sequence(end, stored.last[SESSION] + 1)]
    return replace(
        stored, turns={TURN: stored.turns[TURN], "turn_2": other}, events={SESSION: events}, last={SESSION: len(events)}
    )  # fmt: skip


def decided(stored: Stored, *verdicts: event_pb2.Verdict.ValueType) -> Stored:
    """Have these decisions about the first call in the log, before the end of its turn."""
    made = [
        event_pb2.ApprovalDecided(decision=event_pb2.Decision(turn_id=TURN, call_id="call_1", verdict=verdict))
        for verdict in verdicts
    ]
    return _with(stored, *(event_pb2.Event(turn_id=TURN, approval_decided=one) for one in made))


def decided_again(stored: Stored) -> Stored:
    """Have two decisions about one call."""
    return decided(stored, event_pb2.VERDICT_APPROVE, event_pb2.VERDICT_REJECT)


def rejected(stored: Stored) -> Stored:
    """Have a call rejected that ran."""
    return decided(stored, event_pb2.VERDICT_REJECT)


def approved(stored: Stored) -> Stored:
    """Have a call approved that ran."""
    return decided(stored, event_pb2.VERDICT_APPROVE)


def waited(stored: Stored) -> Stored:
    """Have the first call approved after a pause."""
    asked = event_pb2.ApprovalRequested(call_id="call_1")
    return decided(_with(stored, event_pb2.Event(turn_id=TURN, approval_requested=asked)), event_pb2.VERDICT_APPROVE)


def hook_again(stored: Stored) -> Stored:
    """Have two answers of one hook."""
    hook = event_pb2.HookSettled(hook_id="hook_1", answer_json="{}")
    return _with(stored, *[event_pb2.Event(turn_id=TURN, hook_settled=hook)] * 2)


def _with(stored: Stored, *events: event_pb2.Event) -> Stored:
    log = [*stored.events[SESSION][:-1], *events, stored.events[SESSION][-1]]
    numbered = [with_sequence(event, number) for number, event in enumerate(log, 1)]
    return replace(stored, events={SESSION: numbered}, last={SESSION: len(numbered)})


def same(stored: Stored) -> Stored:
    """Leave it as it is."""
    return stored


@pytest.mark.parametrize(
    ("items", "change", "counts"),
    [
        ((call(1), call(2), output(1), message()), same, {"calls_lost": 1}),
        (GOOD, gone, {"calls_lost": 1}),
        (GOOD, still_leased, {"calls_lost": 1}),
        ((*GOOD[:4], output(2), message()), same, {"settled_twice": 1, "order_broken": 1}),
        ((call(1), call(2), output(2), output(1), message()), same, {"order_broken": 1}),
        ((call(1), call(2), output(1), message(), output(2)), same, {"order_broken": 1}),
        ((call(1), output(2), call(2), output(1), message()), same, {"order_broken": 2}),
        ((call(1), call(2), output(1), output(2, text="plain call_1 1"), message()), same, {"order_broken": 1}),
        ((call(1), call(2), output(1), output(2, attempt=3), message()), same, {"order_broken": 1}),
        (GOOD, one_key, {"order_broken": 1}),
        (GOOD, a_gap, {"order_broken": 1}),
        (GOOD, one_event_more, {"order_broken": 1}),
        (GOOD, two_turns, {"order_broken": 1}),
        (GOOD, decided_again, {"decided_twice": 1}),
        (GOOD, hook_again, {"decided_twice": 1}),
        ((call(1), call(2), output(2), output(1), message()), waited, {}),
        ((call(1, "aide"), call(2), output(2), message()), same, {"calls_lost": 1}),
    ],
)
def test_what_the_store_shows_is_counted(
    items: Sequence[item_pb2.Item], change: Callable[[Stored], Stored], counts: dict[str, int]
) -> None:
    """Each broken promise is counted under its name, and under no other."""
    assert broken(counted(change(store_of(*items)))) == counts


def test_a_result_that_a_guardrail_held_back_is_not_lost() -> None:
    """It was called durable, and the log has it: as what the call returned, not as its output."""
    returned = event_pb2.CallReturned(call_id="call_1", output=[item_pb2.ContentPart(text="secret")])
    stored = _with(store_of(*GOOD), event_pb2.Event(turn_id=TURN, call_returned=returned))
    acked = Entry(fact=Fact.ACKED, call_id="call_1", attempt=1, outcome="durable", text="secret")

    assert broken(counted(stored, acked)) == {}
    assert broken(counted(store_of(*GOOD), acked)) == {"calls_lost": 1}


@pytest.mark.parametrize(("change", "times"), [(same, 1), (rejected, 1), (approved, 0)])
def test_a_body_that_began_without_leave_is_counted(change: Callable[[Stored], Stored], times: int) -> None:
    """Nobody had decided, or it was rejected; one that was approved may run."""
    stored = change(store_of(*GOOD))
    entry = begun(1, attempt=1, name="allowed")

    found = count_of(stored, entry, begun(2))

    assert broken(found) == ({"executed_without_leave": times} if times else {})


@pytest.mark.parametrize(
    ("entries", "counts"),
    [
        ([begun(1)], {"settled_twice": 1}),
        ([begun(3, name="once"), begun(3, 2, name="once")], {"executed_again_although_ask": 1}),
        ([begun(3, n, name="checked") for n in (1, 2, 3)], {"executed_again_although_ask": 2}),
        ([begun(3), begun(3, 2)], {}),
        ([Entry(fact=Fact.FENCED, call_id="call_1", attempt=1), begun(1, 2)], {}),
        ([Entry(fact=Fact.LEFT, count=2)], {"calls_lost": 2}),
        ([Entry(fact=Fact.ACKED, call_id="call_1", attempt=1, outcome="durable", text="other")], {"calls_lost": 1}),
        ([Entry(fact=Fact.ACKED, call_id="call_1", attempt=1, outcome="discarded", text="other")], {}),
    ],
)
def test_what_journals_show_is_counted(entries: list[Entry], counts: dict[str, int]) -> None:
    """Bodies that began once too often, and results that went nowhere."""
    assert broken(counted(store_of(*GOOD), *entries)) == counts


def test_an_output_that_was_joined_must_be_the_other_calls_own() -> None:
    """Any other text in its place is an output that went astray."""
    good = store_of(call(1), call(2), output(1), output(2, text="plain call_1 1", joined_call_id="call_1"), message())
    bad = store_of(call(1), call(2), output(1), output(2, text="plain call_2 1", joined_call_id="call_1"), message())
    assert broken(counted(good)) == {}
    assert broken(counted(bad)) == {"order_broken": 1}


def test_turns_without_an_end_are_stuck() -> None:
    """One that runs, and one that a caller was told of and that nobody knows."""
    stored = store_of(*GOOD, ends=0, status=TurnStatus.WAITING)
    found = counted(stored, turn_ids=frozenset({TURN, "turn_of_nobody"}))
    assert broken(found) == {"turns_stuck": 2}
    assert (found.turns_started, found.turns_finished) == (2, 0)


@pytest.mark.parametrize("ends", [0, 2])
def test_a_turn_ends_once(ends: int) -> None:
    """A row that says it has ended, and a log that does not say so once, do not go together."""
    assert broken(counted(store_of(*GOOD, ends=ends))) == {"order_broken": 1}


def test_what_readers_saw_and_failed_turns_are_counted() -> None:
    """Faults of readers are of the order; a turn that failed has a count of its own, with its reason."""
    stored = store_of(*GOOD, ends=0, status=TurnStatus.FAILED)
    failed = event_pb2.Event(turn_id=TURN, sequence=6, turn_failed=event_pb2.TurnFailed())
    failed.turn_failed.turn.error.message = "no output for call_1"
    stored = replace(stored, events={SESSION: [*stored.events[SESSION], failed]}, last={SESSION: 6})
    found = counted(stored, faults=["sequence 4 came after 2"])
    assert broken(found) == {"order_broken": 1, "turns_failed": 1}
    assert "no output for call_1" in found.broken["turns_failed"][0]


# -- where it all comes from -------------------------------------------------------------------------


def test_journals_of_several_processes_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    """Each line knows its process; one that a killed process did not end is passed over."""
    with Journal(tmp_path / "a.log") as first, Journal(tmp_path / "b.log") as second:
        first.write(Fact.BEGUN, call_id="call_1", attempt=1)
        second.write(Fact.LEFT, count=3)
        first.write(Fact.ENDED, call_id="call_1", attempt=1, outcome="ok")
    told = [(entry.process, entry.fact, entry.count) for entry in read_journals(tmp_path)]
    assert sorted(told) == [("a", Fact.BEGUN, 0), ("a", Fact.ENDED, 0), ("b", Fact.LEFT, 3)]
    assert [entry.fact for entry in read_lines("a", '{"fact":"left","at":1}\n{"fact":"beg')] == [Fact.LEFT]


def test_a_claim_is_taken_once(tmp_path: Path) -> None:
    """Whoever comes later is told whose it is; each attempt has its own."""
    claims = Claims(tmp_path)
    assert claims.take("call_1", 1, "worker") == "worker"
    assert claims.take("call_1", 1, "party") == "worker"
    assert claims.take("call_1", 2, "party") == "party"


@pytest.mark.slow
async def test_a_real_store_is_read_whole(tmp_path: Path) -> None:
    """A turn with two calls at once, run by the product, has nothing broken."""
    model = ScriptedModel([calls(("plain", "{}"), ("plain", "{}")), say("Done.")])
    async with server(tmp_path, model) as baton, client_of(baton) as client:
        worker = await ScriptedWorker.attached(baton.address, "plain")
        tool = agent_pb2.Tool(function=agent_pb2.FunctionTool(name="plain", parameters_json='{"type":"object"}'))
        session = await client.session(agent=agent_pb2.Agent(name="clerk", tools=[tool]))
        turn_id = (await client.submit(session.session_id, "begin")).turn_id
        got = await worker.expect_all("call", 2)
        for one in reversed(got):
            await worker.finish(one, output=output_of("plain", one.call_id, 1))
        await client.rest(session.session_id)
        await worker.close()
    stored = await read_store(tmp_path / "baton.db")
    journal = [Entry(fact=Fact.BEGUN, call_id=one.call_id, attempt=1, name="plain") for one in got]

    found = count(Seen(stored=stored, journal=journal, turn_ids=frozenset({turn_id})))

    assert broken(found) == {}
    assert (found.calls_made, found.calls_settled, found.turns_started, found.turns_finished) == (2, 2, 1, 1)
    arms = [item.WhichOneof("item") for item in stored.history[session.session_id]]
    assert arms == ["message", *["function_call"] * 2, *["function_call_output"] * 2, "message"]
