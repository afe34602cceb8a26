"""`baton actions`: what is open over all sessions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from baton import Client
from baton.v1 import event_pb2
from baton_server.cli.calling import calling
from baton_server.cli.options import Address, Json
from baton_server.cli.show.open_calls import OpenCall, call_lines, with_scopes
from baton_server.cli.show.times import now
from baton_server.cli.terminal import err, out, print_json

EXAMPLE = "Example: baton actions --state unserved --name get_weather"
"""For --help."""


class State(StrEnum):
    """What an open call waits for: `baton.v1.RequiredActionState`."""

    QUEUED = "queued"
    LEASED = "leased"
    UNSERVED = "unserved"
    AWAITING_DECISION = "awaiting_decision"
    EFFECT_UNKNOWN = "effect_unknown"


def actions(
    state: Annotated[
        list[State] | None,
        typer.Option(
            case_sensitive=False,
            metavar="STATE",
            help="Only calls in this state, one of those above. Repeatable.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="Only calls of this function. Repeatable.", show_default=False)
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="Only of sessions or turns that look into this scope. Repeatable.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the oldest.")] = 20,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """List the open calls of all sessions, oldest first: what each waits for, and what to do.

    QUEUED: a worker serves it and has no room. LEASED: a worker has it. UNSERVED: no worker serves it; start one,
    or answer by hand. AWAITING_DECISION: somebody must allow it; approve or reject it. EFFECT_UNKNOWN: it may have
    run, and must not run twice; find out, and answer by hand.
    """

    async def work(client: Client) -> tuple[list[OpenCall], bool]:
        found: list[event_pb2.RequiredAction] = []
        more = False
        async for action in client.list_required_actions(
            names=name or (),
            scopes=scope or (),
            states=[event_pb2.RequiredActionState.Value(f"REQUIRED_ACTION_STATE_{one.name}") for one in state or ()],
        ):
            more = len(found) == limit
            if more:
                break
            found.append(action)
        if as_json:
            return [OpenCall(action=action) for action in found], more
        return await with_scopes(client, found), more

    found, more = calling(address, work)
    at = now()
    for number, call in enumerate(found):
        if as_json:
            print_json(call.action)
            continue
        if number:
            out.print()
        for line in call_lines(call, at, address):
            out.print(Text(line))
    if not found:
        err.print("baton: no such call is open" if state or name or scope else "baton: no call is open")
    elif more:
        err.print(f"baton: there are more than these {limit}; say --limit")
