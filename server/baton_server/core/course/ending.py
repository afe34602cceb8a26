"""How runs end: with an output, over a failure, by a cancel. What is still open gets an output of our own."""

from __future__ import annotations

from collections.abc import Collection

from baton_server.core import texts
from baton_server.core.errors import Failure
from baton_server.core.events import CallReturned, NestedRunClosed, TurnStatus, Withdrawal
from baton_server.core.inputs import CallSettled
from baton_server.core.items import FunctionCall, Item, Settlement, TextPart
from baton_server.core.recorder import Recorder
from baton_server.core.run import Run
from baton_server.core.run_config import KEPT_BY_MODEL


def close(record: Recorder, call_ids: tuple[str, ...]) -> None:
    """Give calls an output of our own, since a model refuses a history with a call and no output."""
    for call_id in call_ids:
        call = record.state.calls.get(call_id)
        if call is None or call.settled:
            continue
        nested = record.state.runs.get(call.path)
        if nested is not None and not nested.closed:
            _close_run(record, nested, None)
        record.output(
            CallSettled(call_id=call_id, settlement=Settlement.CANCELLED, output=(TextPart(text=texts.CALL_CANCELLED),))
        )


def close_all(record: Recorder, run: Run) -> None:
    """Give all that the last reply of a run asked for an output of our own: its calls, and its handoffs."""
    close(record, tuple(run.unsettled))
    for transfer in [one for one in run.transfers if not one.settled]:
        record.handed(transfer, "", texts.HANDOFF_CANCELLED, run)


def fail(record: Recorder, run: Run, failure: Failure, *, culprit: str = "", void: bool = False) -> None:
    """End a run over a failure: the turn with its own run, else the call that the run is for fails.

    What belongs to no call that has given something leaves the history with the last reply: the next turn starts as if
    it had not been said. `culprit`: the call that failed and is settled already, empty: none. `void`: nothing of the
    last reply counts; nor does it where the model's API keeps the history, which was not told what its calls gave.
    """
    if not run.path:
        lost = {*run.unsettled, culprit} - {""}
        transfers = [one.output_number for one in run.transfers if not one.settled]
        close_all(record, run)
        if void or lost or transfers:
            void = void or record.state.pinned.config.mode in KEPT_BY_MODEL
            record.withdraw(_without_result(record, run, run.calls if void else lost), Withdrawal.FAILED, run)
        record.end(TurnStatus.FAILED, failure=failure)
        return
    _close_run(record, run, failure)
    words = (TextPart(text=texts.FUNCTION_FAILED),)
    _give(record, run, CallReturned(call_id=run.path[-1], settlement=Settlement.CRASH, output=words, error=failure))


def give(record: Recorder, run: Run, output: TextPart) -> None:
    """End a nested run with its final output, which its call gives."""
    _close_run(record, run, None)
    words = (output,)
    _give(record, run, CallReturned(call_id=run.path[-1], settlement=Settlement.NESTED_RUN, output=words))


def cancel(record: Recorder) -> None:
    """End the turn by a cancel."""
    close_all(record, record.state.own)
    record.end(TurnStatus.CANCELLED)


def _without_result(record: Recorder, run: Run, lost: Collection[str]) -> list[int]:
    """List what a last reply leaves behind, but for the calls that gave something: items and outputs, by number."""
    calls = record.state.calls
    done = {call_id for call_id in run.calls if call_id not in lost}
    made = [one for one in run.reply if _call_of(record.state.items[one]) not in done]
    outputs = [calls[call_id].output_number for call_id in run.calls if call_id in lost]
    return sorted([*made, *outputs, *(one.output_number for one in run.transfers)])


def _call_of(item: Item) -> str:
    return item.body.call_id if isinstance(item.body, FunctionCall) else ""


def _give(record: Recorder, run: Run, came: CallReturned) -> None:
    record(came, record.state.runs[run.path[:-1]])


def _close_run(record: Recorder, run: Run, failure: Failure | None) -> None:
    close_all(record, run)
    parent = record.state.runs[run.path[:-1]]
    record(NestedRunClosed(call_id=run.path[-1], usage=run.usage, failure=failure), parent)
