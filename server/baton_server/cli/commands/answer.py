"""`baton answer`: the result of an open call, given by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from baton import Client
from baton.v1 import event_pb2, session_pb2
from baton_server.cli.calling import WrongUsage, calling, explained
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.arguments import CallName, SessionName
from baton_server.cli.given.calls import Target, find_call, open_words
from baton_server.cli.given.given_result import read_result
from baton_server.cli.given.naming import find_session
from baton_server.cli.options import Address, Json
from baton_server.cli.show.items import output_words
from baton_server.cli.show.open_calls import command
from baton_server.cli.show.words import call_words, error_words
from baton_server.cli.terminal import err, fail, out, print_json

EXAMPLE = "Example: date | baton answer user-7 get_local_time --output -"
"""For --help."""

TAKEN = frozenset({session_pb2.INPUT_STATUS_SETTLED, session_pb2.INPUT_STATUS_DUPLICATE})
"""Outcomes after which the call is settled as it was asked for."""


def answer(
    session: SessionName,
    call: CallName,
    output: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text for the model. - reads standard input.")
    ] = None,
    output_json: Annotated[
        str | None, typer.Option(metavar="JSON", help="JSON for the model. - reads standard input.")
    ] = None,
    output_file: Annotated[
        str | None, typer.Option(metavar="PATH", help="A file of text for the model. - reads standard input.")
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The call failed: what the model is told. - reads standard input."),
    ] = None,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Answer an open call by hand, whatever it waits for, with one of the four results.

    It is sent as it is, at most 4,194,304 bytes. A worker that has the call is told to stop. Named by its id,
    it exits with 0 also where this very result was there before, and with 1 where another one came first.

    One that waits for a decision has no result yet: baton approve lets it run, baton reject tells the model.
    """
    given = {"output": output, "output_json": output_json, "output_file": output_file, "error": error}
    with explained():
        result = read_result(given)

    async def work(client: Client) -> tuple[Target, session_pb2.InputOutcome]:
        target = await find_call(client, await find_session(client, session), call)
        _must_be_allowed(target, address)
        result.turn_id, result.call_id = target.turn_id, target.call_id
        answered = await client.submit(target.session.session_id, session_pb2.Input(tool_result=result))
        return target, answered.outcomes[0]

    target, outcome = calling(address, work)
    if as_json:
        print_json(outcome)
        raise typer.Exit(ExitCode.DONE if outcome.status in TAKEN else ExitCode.FAILED)
    _tell(target, outcome, address)


def _must_be_allowed(target: Target, address: str | None) -> None:
    """Refuse a result for a call that nobody has allowed yet. Raises WrongUsage."""
    undecided = event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION
    for action in target.session.required_actions:
        if action.call_id == target.call_id and action.state == undecided:
            allow, refuse = (command(word, action.call_id, address=address) for word in ("approve", "reject"))
            raise WrongUsage(f"{call_words(action)} waits for a decision. Allow it: {allow}. Refuse it: {refuse}")


def _tell(target: Target, outcome: session_pb2.InputOutcome, address: str | None) -> None:
    """Say what became of the result, and end the command."""
    others = open_words(target.session, but=target.call_id)
    match outcome.status:
        case session_pb2.INPUT_STATUS_SETTLED:
            out.print(f"settled {target.call_id}")
            follow = command("sessions", "tail", target.session.session_id, address=address)
            err.print(f"baton: {others}. Watch the turn: {follow}")
        case session_pb2.INPUT_STATUS_DUPLICATE:
            out.print(f"duplicate: {target.call_id} was settled by this very result before; nothing changed")
        case _:
            before = f" It was: {output_words(target.settled)}." if target.settled is not None else ""
            fail(ExitCode.FAILED, f"discarded, since {error_words(outcome.error)}{before} {others}")
