"""The call that a command is about, found by its id or by the name of its function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from baton import Client, NotFoundError
from baton.v1 import event_pb2, item_pb2, session_pb2
from baton_server.cli.calling import WrongUsage
from baton_server.cli.show.items import output_words
from baton_server.cli.show.words import call_words, one_line

ARGUMENTS = 60
"""Characters of a call's arguments, in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The call that was named. `settled`: what settled it before; None: nothing did, as far as the log tells."""

    session: session_pb2.Session
    turn_id: str
    call_id: str
    settled: item_pb2.FunctionCallOutput | None = None


async def find_call(client: Client, session: session_pb2.Session, name: str) -> Target:
    """Find a call by its id, or by the name of a function of which it is the only open one.

    A call that was settled is found by its id too: the server says whether this result is the one that settled it.
    Raises NotFoundError, WrongUsage.
    """
    if not name:
        raise WrongUsage("CALL is empty; give an id (call_…) or the name of a function")
    opened = session.required_actions
    found = [action for action in opened if action.call_id == name] or [a for a in opened if a.name == name]
    if len(found) > 1:
        raise WrongUsage(f"{len(found)} open calls of the session are calls of {name!r}, say which: {listed(found)}")
    if found:
        return Target(session=session, turn_id=found[0].turn_id, call_id=found[0].call_id)
    async for item in client.list_newest_items(session.session_id):
        output, call = item.function_call_output, item.function_call
        if name == output.call_id:
            return Target(session=session, turn_id=item.turn_id, call_id=name, settled=output)
        if name == call.call_id and item.status != item_pb2.ITEM_STATUS_REJECTED:
            return Target(session=session, turn_id=item.turn_id, call_id=name)
        if name == output.name:
            before = f"the last one, {output.call_id}, was settled before ({output_words(output)})"
            raise NotFoundError(f"no call of {name!r} is open: {before}. {open_words(session)}")
    raise NotFoundError(f"the session {session.session_id} has no call {name!r}. {open_words(session)}")


def listed(actions: Iterable[event_pb2.RequiredAction]) -> str:
    """List open calls for a message: each as it was made, and its id."""
    return ", ".join(f"{call_words(action, ARGUMENTS)} {one_line(action.call_id)}" for action in actions)


def open_words(session: session_pb2.Session, but: str = "") -> str:
    """Say what is open in a session, for a message."""
    others = [action for action in session.required_actions if action.call_id != but]
    if not others:
        return "Nothing else is open in the session" if but else "Nothing is open in the session"
    return f"Open are: {listed(others)}"
