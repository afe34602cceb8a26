"""Beside a call whose failure ends its run: what workers are about to be done with there keeps its output.

They begin the calls of a reply together, and their results come one by one. So a run is ended a moment after such a
failure: what has taken effect by then is in the history, whichever came first.
"""

from __future__ import annotations

import asyncio

from baton_server.app.calls.leases import Leases
from baton_server.app.turns.turn import Driven
from baton_server.core.inputs import CallSettled, Input
from baton_server.core.items import Settlement
from baton_server.core.state import TurnState

MOMENT_S = 0.02
"""How long the results of other calls are waited for: a function that takes no time of its own is done by then."""


async def come(driven: Driven, state: TurnState, leases: Leases) -> None:
    """Wait a moment for what goes on beside a failure that ends its run, and have that failure come last."""
    if not any(_ends_run(state, mail.given) for mail in driven.mailbox):
        return
    try:
        async with asyncio.timeout(MOMENT_S):
            while _goes_on(driven, state, leases):
                driven.came.clear()
                await driven.came.wait()
    except TimeoutError:
        pass
    driven.mailbox.sort(key=lambda mail: not isinstance(mail.given, CallSettled) or _ends_run(state, mail.given))


def _ends_run(state: TurnState, given: Input) -> bool:
    if not isinstance(given, CallSettled) or given.settlement not in (Settlement.CRASH, Settlement.WORKER_LOST):
        return False
    call = state.calls.get(given.call_id)
    tool = None if call is None else state.tool(call)
    return tool is not None and tool.on_crash.fail_turn


def _goes_on(driven: Driven, state: TurnState, leases: Leases) -> bool:
    """Tell whether a worker that is there holds a call of the turn whose result has not come."""
    came = {mail.given.call_id for mail in driven.mailbox if isinstance(mail.given, CallSettled)}
    held = (leases.get(call_id) for call_id in state.open_calls if call_id not in came)
    return any(lease is not None and lease.worker is not None for lease in held)
