"""The harness sees what it is for: sabotaged on purpose, each of its checks fails."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from tests.crash.doomed_server import Moment
from tests.crash.house import agent, check_journal, echo, house, said
from tests.crash.raw_clients import Entry, Fact, RawWatcher, RawWorker, going
from tests.support.model_server import ModelServer

from baton.v1 import event_pb2


def entry(fact: Fact, call_id: str = "call_1", attempt: int = 1) -> Entry:
    """Make a line of a journal."""
    return Entry(fact=fact, call_id=call_id, attempt=attempt)


@pytest.mark.parametrize(
    ("journal", "why"),
    [
        ([entry(Fact.RAN), entry(Fact.RAN)], "ran twice"),
        ([entry(Fact.RAN), entry(Fact.RAN, attempt=2)], "for two attempts"),
        ([entry(Fact.RAN), entry(Fact.DURABLE), entry(Fact.DURABLE, attempt=2)], "settled twice"),
        ([entry(Fact.DURABLE), entry(Fact.RAN)], "after it was settled"),
    ],
)
def test_a_journal_with_a_fault_is_refused(journal: list[Entry], why: str) -> None:
    """What a call must never meet is an error of the journal's check."""
    with pytest.raises(AssertionError, match=why):
        check_journal(journal)


async def test_a_watcher_notes_gaps_and_repetitions() -> None:
    """A sequence that is not the next one is a fault, and so is a heartbeat that knows more."""
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        watcher = RawWatcher(channel, "sess_1")
    for sequence in (1, 2, 2, 4):
        watcher.take(event_pb2.StreamPart(event=event_pb2.Event(sequence=sequence)))
    watcher.take(event_pb2.StreamPart(heartbeat=event_pb2.Heartbeat(last_sequence=9)))
    assert watcher.faults == ["sequence 2 came after 2", "sequence 4 came after 2", "a heartbeat says 9 after 4"]


@pytest.mark.slow
async def test_a_worker_that_forgets_what_it_holds_is_found_out(tmp_path: Path, model_server: ModelServer) -> None:
    """It runs a call again whose result was lost with the server, and the journal's check says so."""
    model = "rule:calls=1,words=2,checked=1"
    async with house(tmp_path / "baton.db", model_server.base_url, attach=False) as home:
        worker = RawWorker(home.channel, echo)
        worker.forgets = True
        async with going(worker):
            await worker.attached.wait()
            session_id = await home.new_session(agent(model, "echo"))
            watcher = RawWatcher(home.channel, session_id)
            async with going(watcher):
                await home.process.arm(Moment.BEFORE, 3)  # the third is the commit of the call's result
                answer = await home.submit(session_id, said("do it"))
                await watcher.until_ended(answer.turn_id)
    assert len(home.process.starts) == 2
    with pytest.raises(AssertionError, match="for two attempts"):
        check_journal(worker.journal)
