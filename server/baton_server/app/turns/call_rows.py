"""Calls of a turn as rows: how they begin to wait, and how they are settled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from baton_server.core import ids
from baton_server.core.items import FAILED_SETTLEMENTS, FunctionCall, FunctionCallOutput
from baton_server.core.state import Doubt, TurnState
from baton_server.ports.store import CallRow, CallState, Settled

PARKED = {Doubt.CHECKED: CallState.CHECKED, Doubt.UNKNOWN: CallState.EFFECT_UNKNOWN}
"""Where a call waits whose last attempt is in doubt."""


def waiting_row(state: TurnState, call: FunctionCall, now: float) -> CallRow:
    """Make the row of a call that waits for a worker. `now`: wall seconds, from which its expiry runs."""
    function = state.pinned.agent.function(call.name)
    assert function is not None, "a call of a function that the agent does not have is never opened"
    execution = function.execution
    return CallRow(
        call_id=call.call_id,
        session_id=state.session_id,
        turn_id=state.turn_id,
        name=call.name,
        version=function.handler_version,
        agent=state.pinned.agent.name,
        arguments=call.arguments,
        scopes=state.pinned.config.lookup,
        lost_worker=execution.lost_worker,
        idempotency_key=call.idempotency_key,
        timeout_s=execution.timeout_s,
        expires_at=None if execution.expires_s is None else now + execution.expires_s,
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
