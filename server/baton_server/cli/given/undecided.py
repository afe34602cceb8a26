"""The call that a decision is about, found over all sessions."""

from __future__ import annotations

from typing import Annotated

import typer

from baton import Client, NotFoundError
from baton.v1 import event_pb2
from baton_server.cli.calling import WrongUsage
from baton_server.cli.given.calls import listed
from baton_server.cli.given.completing import complete_undecided_call
from baton_server.cli.show.causes import settled_line

CALL_PREFIX = "call_"

UndecidedCall = Annotated[
    str,
    typer.Argument(
        metavar="CALL",
        help="A call that waits for a decision, by its id (call_…), or by its function's name if only one has it.",
        show_default=False,
        autocompletion=complete_undecided_call,
    ),
]
"""For `find_undecided`."""


async def find_undecided(client: Client, name: str) -> event_pb2.RequiredAction:
    """Find an open call of any session by its id, or by the name of a function of which one call waits for a decision.

    By its id it is found whatever it waits for: the server says what a decision about it is worth.
    Raises NotFoundError, WrongUsage.
    """
    if not name:
        raise WrongUsage("CALL is empty; give an id (call_…) or the name of a function")
    if name.startswith(CALL_PREFIX):
        told = await client.explain(name)
        if not told.HasField("required_action"):
            raise NotFoundError(f"nothing is to be decided: {settled_line(name, told)}")
        return told.required_action
    waiting = client.list_required_actions(names=[name], states=[event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION])
    found = [action async for action in waiting]
    if not found:
        raise NotFoundError(f"no call of {name!r} waits for a decision; baton actions lists what is open")
    if len(found) > 1:
        raise WrongUsage(f"{len(found)} calls of {name!r} wait for a decision, say which: {listed(found)}")
    return found[0]
