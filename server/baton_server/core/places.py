"""The places of outputs: the number that is kept for what will come of a call, however late it comes.

Outputs stand in the order of their calls, and before those of handoffs. What waited for a decision stands behind what
did not. In the turn's own run that is the order of the decisions. A nested run goes on, for the Agents SDK, when all
that waits in it is allowed, or one is rejected; what was decided by then stands in the order of the calls. Here a call
runs as soon as it is allowed, so the places of those that are still undecided are kept with its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from baton_server.core.facts import TurnFacts
from baton_server.core.items import FunctionCallOutput, HandoffOutput, ItemBody
from baton_server.core.run import CallRecord, Run, Transfer


def keep(facts: TurnFacts, run: Run) -> None:
    """Keep the places of what a reply asks for: what the agent does not have comes last of the calls."""
    run.placed.clear()
    for call_id in sorted(run.calls, key=lambda call_id: facts.tool(facts.calls[call_id]) is None):
        _keep_number(facts, facts.calls[call_id])
    run.transfers = [transfer for transfer in run.transfers if not transfer.settled]
    _keep_transfers(facts, run)


def decided(facts: TurnFacts, call: CallRecord) -> None:
    """Move the outputs of a call that waited for its decision, and of those that enclose it, behind the others."""
    path, approved = call.path, call.decision is not None and call.decision.approve
    for call_id in path:
        _move(facts, facts.calls[call_id])
    for at, run in facts.runs.items():
        if not run.placed or at[:1] != path[:1]:
            continue
        held = path[:1] if approved else at  # a nested run goes on with the outermost one, if that does
        goes_on = not approved and at == path[: len(at)]
        if goes_on or not any(one is not call for one in waiting_within(facts, held)):
            run.placed.clear()


def taken(facts: TurnFacts, number: int, body: ItemBody) -> None:
    """Take note that an item has a number. In an older log it may be one that is kept here for another output."""
    asked = facts.kept.pop(number, None)
    call_id = body.call_id if isinstance(body, FunctionCallOutput | HandoffOutput) else ""
    if asked is not None and asked.call.call_id != call_id:
        _keep_number(facts, asked)


def _move(facts: TurnFacts, call: CallRecord) -> None:
    run = facts.runs[call.run_path]
    if call.call.call_id in run.placed:
        return
    moved = [call] if not run.path else [one for one in _undecided(facts, run) if one is call or _waits(facts, one)]
    for one in moved:
        _keep_number(facts, one)
    if run.path:
        run.placed.update(one.call.call_id for one in moved)
    _keep_transfers(facts, run)


def _undecided(facts: TurnFacts, run: Run) -> Iterator[CallRecord]:
    return (facts.calls[call_id] for call_id in run.unsettled if call_id not in run.placed)


def _waits(facts: TurnFacts, call: CallRecord) -> bool:
    return any(waiting_within(facts, call.path))


def waiting_within(facts: TurnFacts, path: tuple[str, ...]) -> Iterator[CallRecord]:
    """List what waits for a decision: the call of a path, and those within the run that it encloses."""
    waiting = (facts.calls[one.call_id] for one in facts.open_calls.values() if one.awaiting is not None)
    return (one for one in waiting if one.path[: len(path)] == path)


def _keep_transfers(facts: TurnFacts, run: Run) -> None:
    for transfer in (*run.transfers[1:], *run.transfers[:1]):  # those that are ignored come first
        if not transfer.settled:
            _keep_number(facts, transfer)


def _keep_number(facts: TurnFacts, asked: CallRecord | Transfer) -> None:
    """Keep a number for an output, in place of the one that was kept before."""
    facts.kept.pop(asked.output_number, None)
    asked.output_number, facts.next_number = facts.next_number, facts.next_number + 1
    facts.kept[asked.output_number] = asked
