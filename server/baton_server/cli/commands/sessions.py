"""`baton sessions`: what sessions there are, what is in one, what happens in it, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from baton import Client
from baton.v1 import session_pb2
from baton_server.cli.calling import WrongUsage, calling
from baton_server.cli.given.arguments import SessionName
from baton_server.cli.given.confirming import confirm, must_say_yes
from baton_server.cli.given.naming import find_session
from baton_server.cli.options import Address, Json
from baton_server.cli.show.session_view import show
from baton_server.cli.show.tables import Column, print_table
from baton_server.cli.show.tail import tail
from baton_server.cli.show.texts import counted, one_line
from baton_server.cli.show.times import ago, now
from baton_server.cli.show.words import word
from baton_server.cli.terminal import err, out, print_json

TABLE = (
    Column(title="SESSION"),
    Column(title="KEY", whole=False),
    Column(title="STATUS"),
    Column(title="ACTIVE"),
)


class Status(StrEnum):
    """Where a session stands: `baton.v1.SessionStatus`."""

    IDLE = "idle"
    IN_PROGRESS = "in_progress"
    REQUIRES_ACTION = "requires_action"


sessions = typer.Typer(
    help="Look at sessions: list them, show one, watch it, delete it. SESSION is an id or a key.",
    no_args_is_help=True,
)


@sessions.command("list")
def list_sessions(
    status: Annotated[
        list[Status] | None, typer.Option(case_sensitive=False, help="Only these. Repeatable.", show_default=False)
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only with this label. Repeatable: with all.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 20,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """List sessions, newest first."""

    async def work(client: Client) -> tuple[list[session_pb2.Session], bool]:
        found: list[session_pb2.Session] = []
        wanted = [session_pb2.SessionStatus.Value(f"SESSION_STATUS_{one.name}") for one in status or ()]
        async for session in client.list_sessions(statuses=wanted, metadata=_labels(label or ())):
            if len(found) == limit:
                return found, True
            found.append(session)
        return found, False

    found, more = calling(address, work)
    if as_json:
        for session in found:
            print_json(session)
    elif found:
        at = now()
        print_table(TABLE, (_row(session, ago(session.last_active_at, at)) for session in found))
    if not found:
        err.print("baton: no such session" if status or label else "baton: there is no session")
    elif more:
        err.print(f"baton: there are more than these {limit}; say --limit")


sessions.command(
    epilog="Example: baton sessions show user-7 --items 0 --full | less",
)(show)
sessions.command(
    epilog="Example: baton sessions tail user-7 --follow forever",
)(tail)


@sessions.command()
def delete(
    session: SessionName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: Address = None,
) -> None:
    """Delete a session with its log, after a question. Not while a turn of it runs or waits."""
    must_say_yes(yes, f"delete the session {session!r}")
    found = calling(address, lambda client: find_session(client, session))
    key = f" with the key {found.key!r}" if found.key else ""
    question = f"Delete the session {found.session_id}{key} and its {counted(found.last_sequence, 'event')}?"
    confirm(yes, one_line(question, 1000), f"{found.session_id} was not deleted")
    calling(address, lambda client: client.delete_session(found.session_id))
    out.print(f"deleted {found.session_id}")


def _row(session: session_pb2.Session, active: str) -> Sequence[str]:
    status = word(session_pb2.SessionStatus, session.status).lower()
    return session.session_id, session.key, status, active


def _labels(given: Sequence[str]) -> dict[str, str]:
    """Read `key=value` pairs. Raises WrongUsage."""
    for pair in given:
        if "=" not in pair[1:]:
            raise WrongUsage(f"--label {pair!r} is no label; write KEY=VALUE")
    return dict(pair.split("=", 1) for pair in given)
