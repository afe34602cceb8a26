"""How a turn came to rest: what is said of it, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from baton import Client
from baton.v1 import event_pb2
from baton_server.cli.exits import ExitCode
from baton_server.cli.show.open_calls import call_lines, with_scopes
from baton_server.cli.show.times import now
from baton_server.cli.show.words import error_words
from baton_server.cli.talk.screen import Screen

CODES: Mapping[event_pb2.TurnStatus.ValueType, ExitCode] = {
    event_pb2.TURN_STATUS_COMPLETED: ExitCode.DONE,
    event_pb2.TURN_STATUS_FAILED: ExitCode.FAILED,
    event_pb2.TURN_STATUS_CANCELLED: ExitCode.FAILED,
}
"""Of turns that have ended. All others wait."""


def code_of(turn: event_pb2.Turn) -> ExitCode:
    """Say with which code a command ends whose turn rests so."""
    return CODES.get(turn.status, ExitCode.WAITS)


async def output_of(client: Client, session_id: str, turn: event_pb2.Turn) -> str | None:
    """Read the final output of a turn, however large it is. None: it has none."""
    if turn.status != event_pb2.TURN_STATUS_COMPLETED:
        return None
    if turn.HasField("output_omitted"):
        return await client.read_content(session_id, turn.output_omitted)
    return turn.output


def explain_end(turn: event_pb2.Turn, screen: Screen) -> None:
    """Say on standard error why a turn that ended has no final output. One that completed needs no word."""
    match turn.status:
        case event_pb2.TURN_STATUS_FAILED:
            screen.note(f"the turn failed: {error_words(turn.error)}")
        case event_pb2.TURN_STATUS_CANCELLED:
            screen.note("the turn was cancelled")
        case _:
            pass


async def explain_wait(
    client: Client, actions: Sequence[event_pb2.RequiredAction], screen: Screen, address: str | None
) -> None:
    """Say on standard error what a turn waits for, why, and how it goes on.

    `address`: as the command was given it; printed commands repeat it.
    """
    answers = "an answer" if len(actions) == 1 else f"{len(actions)} answers"
    screen.note(f"the turn waits for {answers}, and then goes on by itself:")
    at = now()
    for call in await with_scopes(client, actions):
        screen.say(*(f"  {line}" for line in call_lines(call, at, address)))
