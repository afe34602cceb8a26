"""`baton approve` and `baton reject`: decisions about calls that wait for them."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from baton import Client
from baton.v1 import event_pb2, session_pb2
from baton_server.cli.calling import calling
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.undecided import UndecidedCall, find_undecided
from baton_server.cli.options import Address, Json
from baton_server.cli.show.open_calls import command
from baton_server.cli.show.texts import one_line
from baton_server.cli.show.words import call_words, error_words
from baton_server.cli.terminal import err, fail, out, print_json

APPROVE_EXAMPLE = "Example: baton approve call_06h2tb681brsy4ek763y70_000002 --always"
REJECT_EXAMPLE = "Example: baton reject send_mail --message 'Not on a Sunday.' --by ops"
"""For --help."""

TAKEN = frozenset({session_pb2.INPUT_STATUS_SETTLED, session_pb2.INPUT_STATUS_DUPLICATE})
"""Outcomes after which the call is decided as it was asked for."""

Always = Annotated[
    bool,
    typer.Option("--always", help="Decide so about later calls of the same function by the same agent in this turn."),
]
InSession = Annotated[bool, typer.Option("--session", help="As --always, for all later turns of the session too.")]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides, for the log. Default: the user's name.")]


def approve(
    call: UndecidedCall,
    always: Always = False,
    session: InSession = False,
    by: By = "",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Allow a call that waits for a decision: it goes on at once.

    baton actions lists such calls with their arguments. The first decision holds: one that comes twice changes
    nothing, and one against it ends with 1.
    """
    decision = _decision(event_pb2.VERDICT_APPROVE, always=always, session=session, by=by)
    _decide(call, decision, address, as_json=as_json)


def reject(
    call: UndecidedCall,
    message: Annotated[
        str, typer.Option(metavar="TEXT", help="What the model is told. Default: that it was not approved.")
    ] = "",
    always: Always = False,
    session: InSession = False,
    by: By = "",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Refuse a call that waits for a decision: the model is told, and its turn goes on.

    The first decision holds: one that comes twice changes nothing, and one against it ends with 1.
    """
    decision = _decision(event_pb2.VERDICT_REJECT, always=always, session=session, by=by)
    decision.message = message
    _decide(call, decision, address, as_json=as_json)


def _decision(verdict: event_pb2.Verdict.ValueType, *, always: bool, session: bool, by: str) -> event_pb2.Decision:
    return event_pb2.Decision(
        verdict=verdict,
        always=always or session,
        always_in_session=session,
        decided_by=by or getpass.getuser(),
    )


def _decide(call: str, decision: event_pb2.Decision, address: str | None, *, as_json: bool) -> None:
    """Decide about what the call is now, and end the command."""

    async def work(client: Client) -> tuple[event_pb2.RequiredAction, session_pb2.InputOutcome]:
        action = await find_undecided(client, call)
        decision.turn_id, decision.call_id = action.turn_id, action.call_id
        decision.arguments_digest = action.approval.arguments_digest
        decision.definition_digest = action.approval.definition_digest
        answered = await client.submit(action.session_id, session_pb2.Input(decision=decision))
        return action, answered.outcomes[0]

    action, outcome = calling(address, work)
    if as_json:
        print_json(outcome)
        raise typer.Exit(ExitCode.DONE if outcome.status in TAKEN else ExitCode.FAILED)
    done = "approved" if decision.verdict == event_pb2.VERDICT_APPROVE else "rejected"
    match outcome.status:
        case session_pb2.INPUT_STATUS_SETTLED:
            out.print(f"{done} {one_line(action.call_id)}")
            follow = command("sessions", "tail", action.session_id, address=address)
            err.print(f"baton: it was {call_words(action)}{_later(action, decision, done)}. Watch the turn: {follow}")
        case session_pb2.INPUT_STATUS_DUPLICATE:
            out.print(f"duplicate: {one_line(action.call_id)} was {done} before; nothing changed")
        case _:
            fail(ExitCode.FAILED, f"not taken, since {error_words(outcome.error)}")


def _later(action: event_pb2.RequiredAction, decision: event_pb2.Decision, done: str) -> str:
    """Say what the decision means for later calls."""
    if not decision.always:
        return ""
    where = "session" if decision.always_in_session else "turn"
    return f"; later calls of {one_line(action.name)} by {one_line(action.agent)} in this {where} are {done} as well"
