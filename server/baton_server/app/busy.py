"""Refusing what does not want to wait for a turn that runs, or that waits for people."""

from __future__ import annotations

from collections.abc import Collection

from baton_server.app.runtime import Runtime
from baton_server.core.errors import Reason, Refused, refuse
from baton_server.ports.store import CallState

NAMED = 32
"""Calls that a refusal names; its metadata is bounded."""


async def busy(runtime: Runtime, session_id: str, turn_id: str, decided: Collection[str] = ()) -> Refused:
    """Say that a turn runs, or what it waits for people to decide. `decided`: calls that just were."""
    waiting = [
        call.call_id
        for call in await runtime.store.calls.open_in(session_id)
        if call.turn_id == turn_id and call.state is CallState.AWAITING_DECISION and call.call_id not in decided
    ]
    if waiting:
        return refuse(
            Reason.AWAITING_DECISION,
            f"The turn {turn_id} of the session waits until somebody allows or refuses {_calls(len(waiting))}. Send "
            "a decision about each, or say QUEUE.",
            turn_id=turn_id,
            call_ids=",".join(waiting[:NAMED]),
        )
    return refuse(
        Reason.SESSION_BUSY,
        f"The turn {turn_id} of the session still runs or waits. Wait for it, or say QUEUE.",
        turn_id=turn_id,
    )


def _calls(count: int) -> str:
    return "a call" if count == 1 else f"{count} calls"
