"""`baton explain`: why a call does not run, or what settled it."""

from __future__ import annotations

from rich.text import Text

from baton import Client
from baton.v1 import handler_pb2
from baton_server.cli.calling import calling
from baton_server.cli.given.arguments import CallId
from baton_server.cli.options import Address, Json
from baton_server.cli.show.causes import cause_lines, settled_line
from baton_server.cli.show.open_calls import OpenCall, heading_lines, remedies, with_scopes
from baton_server.cli.show.times import now
from baton_server.cli.terminal import out, print_json

EXAMPLE = "Example: baton explain call_06h2tb681brsy4ek763y70_000002"
"""For --help."""


def explain(call: CallId, address: Address = None, as_json: Json = False) -> None:
    """Say why a call does not run, the nearest cause first, and what to do; or what settled it.

    baton actions and baton sessions show print the ids of open calls.
    """

    async def work(client: Client) -> tuple[handler_pb2.ExplainCallResponse, list[OpenCall]]:
        told = await client.explain(call)
        is_open = told.HasField("required_action") and not as_json
        return told, await with_scopes(client, [told.required_action]) if is_open else []

    told, opened = calling(address, work)
    if as_json:
        print_json(told)
        return
    lines = [] if opened else [settled_line(call, told)]
    for one in opened:
        lines += heading_lines(one, now())
        lines += [f"  {line}" for line in cause_lines(told)]
        lines += [f"    {line}" for line in remedies(one, address)]
    for line in lines:
        out.print(Text(line))
