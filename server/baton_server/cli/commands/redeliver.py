"""`baton redeliver`: a call of unknown effect, delivered again."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from baton import Client
from baton.v1 import session_pb2
from baton_server.cli.calling import calling
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.arguments import CallName, SessionName
from baton_server.cli.given.calls import find_call
from baton_server.cli.given.naming import find_session
from baton_server.cli.options import Address, Json
from baton_server.cli.show.words import error_words
from baton_server.cli.terminal import fail, out, print_json

EXAMPLE = "Example: baton redeliver user-7 pay --by ops"
"""For --help."""


def redeliver(
    session: SessionName,
    call: CallName,
    by: Annotated[
        str, typer.Option("--by", metavar="WHO", help="Who says so, for the log. Default: the name of the user.")
    ] = "",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Have a call of unknown effect delivered again: it took no effect, or may take it twice.

    Look first whether it did: `baton actions` shows the key under which its handler was told to act. Who knows what
    came of it uses `baton answer`.
    """

    async def work(client: Client) -> tuple[str, session_pb2.InputOutcome]:
        target = await find_call(client, await find_session(client, session), call)
        asked = session_pb2.Redelivery(
            turn_id=target.turn_id, call_id=target.call_id, decided_by=by or getpass.getuser()
        )
        answered = await client.submit(target.session.session_id, session_pb2.Input(redelivery=asked))
        return target.call_id, answered.outcomes[0]

    call_id, outcome = calling(address, work)
    taken = outcome.status == session_pb2.INPUT_STATUS_SETTLED
    if as_json:
        print_json(outcome)
        raise typer.Exit(ExitCode.DONE if taken else ExitCode.FAILED)
    if not taken:
        fail(ExitCode.FAILED, f"not delivered again, since {error_words(outcome.error)}")
    out.print(f"{call_id} is delivered again")
