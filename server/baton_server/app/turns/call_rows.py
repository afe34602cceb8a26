"""Calls of a turn as rows: how they begin to wait, and how they are settled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from baton_server.core import ids
from baton_server.core.events import Binding, CallReturned
from baton_server.core.items import FAILED_SETTLEMENTS, FunctionCall, FunctionCallOutput
from baton_server.core.run import Doubt
from baton_server.core.state import TurnState
from baton_server.core.tools import Execution
from baton_server.ports.store import CallRow, CallState, Settled

PARKED = {Doubt.CHECKED: CallState.CHECKED, Doubt.UNKNOWN: CallState.EFFECT_UNKNOWN}
"""Where a call waits whose last attempt is in doubt."""


def waiting_row(state: TurnState, call: FunctionCall, now: float) -> CallRow:
    """Make the row of a call that waits for a worker. `now`: wall seconds, from which its expiry runs."""
    record = state.calls[call.call_id]
    function = state.function(call.call_id)
    execution = Execution() if function is None else function.execution
    return CallRow(
        call_id=call.call_id,
        session_id=state.session_id,
        turn_id=state.turn_id,
        name=call.name,
        version="" if function is None else function.handler_version,
        agent=record.agent,
        run_path=record.run_path,
        arguments=call.arguments,
        scopes=state.pinned.config.lookup,
        lost_worker=execution.lost_worker,
        idempotency_key=call.idempotency_key,
        timeout_s=execution.timeout_s,
        expires_at=None if execution.expires_s is None else now + execution.expires_s,
    )


def kept_back(row: CallRow, binding: Binding | None, expires_s: float | None, now: float) -> CallRow:
    """Make the row of a call that is not handed out yet: for a decision, which is bound to something, or for hooks."""
    if binding is None:
        return replace(row, state=CallState.HELD)
    return replace(
        row,
        state=CallState.AWAITING_DECISION,
        arguments_digest=binding.arguments_digest,
        definition_digest=binding.definition_digest,
        decide_by=None if expires_s is None else now + expires_s,
    )


def returned_rows(returned: Iterable[CallReturned], digests: Mapping[str, str]) -> tuple[Settled, ...]:
    """Say how calls are settled of which it is known what they gave; their outputs are recorded later."""
    return tuple(
        Settled(call_id=one.call_id, attempt=one.attempt, worker_id=one.worker_id, digest=digests.get(one.call_id, ""))
        for one in returned
    )


def settled_rows(
    state: TurnState, outputs: Iterable[FunctionCallOutput], digests: Mapping[str, str]
) -> tuple[Settled, ...]:
    """Say how calls are settled by their outputs. `digests` of the results as they came, by call."""
    return tuple(
        Settled(
            call_id=output.call_id,
            attempt=output.attempt,
            worker_id=output.worker_id,
            digest=digests.get(output.call_id, ""),
            succeeded=output.settlement not in FAILED_SETTLEMENTS,
            output_item_id=ids.item_id(state.turn_id, state.calls[output.call_id].output_number),
        )
        for output in outputs
    )
