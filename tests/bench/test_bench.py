"""The benchmark: its arithmetic, its tape, and a run of all of it with counts far too small to mean much."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from bench.first import Plan, Size, first
from bench.load import Message, round_trips
from bench.processes import BenchFailed, Child, cpu_s
from bench.report import Pair, Report, as_json, as_text, percentile
from bench.tape import Recorded, tape

from baton.v1 import event_pb2, item_pb2, runner_pb2

TURN = "0" * 25


def part(**what: object) -> event_pb2.StreamPart:
    """Make a part with one event of some round."""
    return event_pb2.StreamPart(event=event_pb2.Event(**what))  # type: ignore[arg-type]  # fields by name


def message(*parts: event_pb2.StreamPart) -> bytes:
    """Make a message of parts."""
    return runner_pb2.RunStreamedResponse(parts=parts).SerializeToString()


def opened(call_id: str) -> event_pb2.StreamPart:
    """Make the event that opens a call."""
    item = item_pb2.Item(function_call=item_pb2.FunctionCall(call_id=call_id))
    return part(round=1, item_added=event_pb2.ItemAdded(item=item))


def answered(call_id: str) -> event_pb2.StreamPart:
    """Make the event of a call's output."""
    item = item_pb2.Item(function_call_output=item_pb2.FunctionCallOutput(call_id=call_id))
    return part(round=1, item_added=event_pb2.ItemAdded(item=item))


def test_ratio_is_of_the_medians() -> None:
    """One disturbed round moves neither figure; the spread shows that it was there."""
    pair = Pair(name="CPU", unit="ms", ours=(4.0, 90.0, 6.0), floor=(2.0, 3.0, 30.0))

    assert pair.ratio == 2.0
    assert pair.spread == (0.2, 30.0)


def test_percentile_is_a_sample() -> None:
    """The 99th percentile of few samples is the largest; of none there is none."""
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert percentile([float(n) for n in range(100)], 0.5) == 50.0
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


def test_round_trip_is_from_the_call_to_its_own_output() -> None:
    """Calls of one message are told apart, in whichever order their outputs come."""
    stream = [
        Message(1.0, message(opened("a"), opened("b"))),
        Message(1.5, message(answered("b"))),
        Message(3.0, message(answered("a"))),
    ]

    assert round_trips(stream) == [0.5, 2.0]


def recorded(**changes: object) -> Recorded:
    """Make a recorded run of one call."""
    started = runner_pb2.RunStreamedResponse(started=runner_pb2.RunStarted(turn_id=f"turn_{TURN}"))
    delta = event_pb2.StreamPart(delta=event_pb2.Delta(round=2))
    given: dict[str, object] = {
        "model": "rule:calls=1",
        "requests": (b"ask 1", b"ask 2"),
        "messages": (
            started.SerializeToString(),
            message(part(turn_created=event_pb2.TurnCreated())),
            message(opened("a")),
            message(answered("a")),
            message(delta),
            message(part(round=2, round_completed=event_pb2.RoundCompleted())),
            b"the result",
        ),
        "calls": ((b"call_" + TURN.encode(), b"call frame"),),
        "acks": (b"ack frame",),
        "commits": (b"accept", b"reply 1", b"result 1", b"end"),
        "reads": {},
    }
    return Recorded(**{**given, **changes})  # type: ignore[arg-type]  # fields by name


def test_tape_has_every_byte_at_its_moment() -> None:
    """What came with the reply, with the result, while the model wrote and at the end is kept apart."""
    run = recorded()
    made = tape(run)
    calling, ending = made.rounds

    assert made.after_accept == run.messages[:2]
    assert (calling.request, calling.reply, calling.after_reply) == (b"ask 1", b"reply 1", run.messages[2:3])
    assert [(call.frame, call.settling, call.ack) for call in calling.calls] == [
        (b"call frame", b"result 1", b"ack frame")
    ]
    assert calling.after_calls == run.messages[3:4]
    assert (ending.request, ending.during, ending.reply) == (b"ask 2", run.messages[4:5], b"end")
    assert ending.after_reply == run.messages[5:7]


def test_tape_for_another_turn_keeps_lengths() -> None:
    """A replay has ids of its own, and moves as many bytes."""
    made = tape(recorded())
    call = made.rounds[0].calls[0]

    ours = made.for_turn(7)(call.call_id)

    assert ours == b"call_" + b"7".rjust(25, b"0")
    assert len(ours) == len(call.call_id)


def test_run_with_another_number_of_commits_is_refused() -> None:
    """A floor that committed less often than the server would flatter nobody."""
    with pytest.raises(ValueError, match="5 commits; expected 1, 1 and 4"):
        tape(recorded(commits=(b"1", b"2", b"3", b"4", b"5")))


def test_cpu_of_a_process_grows() -> None:
    """The CPU of a process is read by its id, exactly; a process that is gone has none."""
    before = cpu_s(os.getpid())
    sum(range(200_000))

    assert cpu_s(os.getpid()) > before
    with pytest.raises(BenchFailed, match="has ended"):
        cpu_s(2**22 + 1)


@pytest.mark.slow
async def test_process_that_does_not_start_is_told() -> None:
    """A measurement fails at once, and says of which process."""
    with pytest.raises(BenchFailed, match=r"tests\.nothing did not start; it exited with 1"):
        await Child.start("tests.nothing", [])


@pytest.mark.slow
async def test_first_measures_every_figure(tmp_path: Path) -> None:
    """With the smallest counts every figure is there beside its floor, and a run has 8 commits and few reads."""
    plan = Plan(size=Size(runs={1: 1, 32: 2}, turns={1: 1, 32: 1}), rounds=1, words=(3,))
    told: list[str] = []

    report = await first(plan, tmp_path, told.append)

    written = json.loads(json.dumps(as_json(report)))
    assert [figure["name"] for figure in written["figures"]] == [
        "CPU per run, 3 words, 1 at a time",
        "CPU per run, 3 words, 32 at a time",
        "round trip of a call, 1 in flight",
        "round trip of a call, 32 in flight",
        "its 99th percentile, 1 in flight",
        "its 99th percentile, 32 in flight",
    ]
    for figure in written["figures"]:
        assert figure["ratio"] > 0 and len(figure["rounds"]["ours"]) == len(figure["rounds"]["floor"]) == 1
    assert written["counted"]["commits of a run"] == 8
    assert sum(written["counted"]["reads of a run"].values()) <= 6
    assert written["counted"]["Call and ResultAck frames"] == "3 and 3"
    assert all(figure["name"] in as_text(report) for figure in written["figures"])
    assert any("round 1 of 1" in line for line in told)


def test_report_shows_what_was_counted() -> None:
    """People see the ratio, its spread and the counts."""
    pair = Pair(name="CPU", unit="ms", ours=(4.0,), floor=(2.0,))
    report = Report(pairs=[pair], counted={"reads of a run": {"turns.get": 1}}, also={"runs per second": 5.0})

    text = as_text(report)

    assert "2.00  2.00 to 2.00" in text
    assert "reads of a run: turns.get 1" in text
    assert "runs per second: 5.00" in text
