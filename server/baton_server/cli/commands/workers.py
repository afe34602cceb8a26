"""`baton workers`: who is attached, what it serves, and how it is."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from baton import Client
from baton.v1 import handler_pb2
from baton_server.cli.calling import calling
from baton_server.cli.options import Address, Json
from baton_server.cli.show.times import now
from baton_server.cli.show.worker_view import worker_lines
from baton_server.cli.terminal import err, out, print_json

EXAMPLE = "Example: baton workers --name get_weather"
"""For --help."""


def workers(
    name: Annotated[
        str, typer.Option(help="Only those that serve this function, or a hook of this name.", show_default=False)
    ] = "",
    scope: Annotated[
        str | None,
        typer.Option(help="Only those of this scope; '' is the empty one. Default: all.", show_default=False),
    ] = None,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """List the workers, newest first: what each serves, has room for and holds.

    ATTACHED: it takes calls as it has room. DRAINING: it finishes what it holds. LOST: its stream broke a moment ago.
    """

    async def work(client: Client) -> list[handler_pb2.Worker]:
        return [worker async for worker in client.workers(name=name, scope=scope)]

    found = calling(address, work)
    at = now()
    for number, worker in enumerate(found):
        if as_json:
            print_json(worker)
            continue
        if number:
            out.print()
        for line in worker_lines(worker, at):
            out.print(Text(line))
    if not found:
        err.print("baton: no such worker is attached" if name or scope is not None else "baton: no worker is attached")
