"""Open calls in words: what each waits for, and what a person can do about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from baton import Client, NotFoundError
from baton.v1 import event_pb2
from baton_server.cli.options import address_flag
from baton_server.cli.show.texts import counted
from baton_server.cli.show.times import ago, ahead
from baton_server.cli.show.words import call_words, one_line, state_word

PAUSED = (event_pb2.REQUIRED_ACTION_STATE_UNSERVED, event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN)
"""States in which a call waits for a result from outside."""

FOR_PEOPLE = (event_pb2.REQUIRED_ACTION_STATE_UNSERVED, event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION)
"""States in which a person at a prompt is asked about a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """An open call. `scopes`: those in which its function is looked up, before the empty one; None: not known."""

    action: event_pb2.RequiredAction
    scopes: tuple[str, ...] | None = None


async def with_scopes(client: Client, actions: Sequence[event_pb2.RequiredAction]) -> list[OpenCall]:
    """Look up the scopes of those calls that nobody serves; of the others they do not matter."""
    known: dict[str, tuple[str, ...] | None] = {}
    for action in actions:
        unserved = action.state == event_pb2.REQUIRED_ACTION_STATE_UNSERVED
        if unserved and action.turn_id not in known:
            known[action.turn_id] = await _scopes(client, action)
    return [OpenCall(action=action, scopes=known.get(action.turn_id)) for action in actions]


def call_lines(call: OpenCall, at: datetime, address: str | None, keys: Mapping[str, str] | None = None) -> list[str]:
    """Describe an open call in lines: itself, its ids, its state in words, what to do.

    `address`: as the command was given it. `keys`: of sessions, by id, where they are known.
    """
    return [
        *heading_lines(call, at, keys),
        f"  {state_word(call.action)}: {state_words(call, at)}",
        *(f"    {line}" for line in remedies(call, address)),
    ]


def heading_lines(call: OpenCall, at: datetime, keys: Mapping[str, str] | None = None) -> list[str]:
    """Name an open call: itself, and its ids. `keys`: of sessions, by id, where they are known."""
    action = call.action
    key = (keys or {}).get(action.session_id, "")
    named = f"  (key {one_line(key)})" if key else ""
    within = [f"  within   {', '.join(action.run_path)}"] if action.run_path else []
    return [
        f"{call_words(action)}, {ago(action.created_at, at)}",
        f"  session  {action.session_id}{named}",
        f"  call     {action.call_id}",
        *within,
    ]


def state_words(call: OpenCall, at: datetime) -> str:
    """Say what an open call waits for."""
    action = call.action
    again = f"; {counted(action.attempt, 'attempt')} so far" if action.attempt else ""
    match action.state:
        case event_pb2.REQUIRED_ACTION_STATE_QUEUED:
            return f"a worker serves it, but has no room for it at the moment{again}"
        case event_pb2.REQUIRED_ACTION_STATE_LEASED:
            acked = "has acked it" if action.lease.acked else "has not acked it yet"
            until = f"its lease ends {ahead(action.lease.until, at)} unless more is heard of it"
            return f"{one_line(action.lease.worker_id)} {acked}; {until}; attempt {action.attempt}"
        case event_pb2.REQUIRED_ACTION_STATE_UNSERVED:
            return f"{_nobody(call)}{again}"
        case event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION:
            ends = f"; it is rejected by itself {ahead(action.expires_at, at)}" if action.HasField("expires_at") else ""
            return f"somebody must allow {one_line(action.agent)} to call it like this{ends}"
        case event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN:
            key = one_line(action.idempotency_key)
            return f"attempt {action.attempt} may have run, and it must not run twice; look whether it did, by {key}"
        case _:
            return "a state that this version does not know"


def remedies(call: OpenCall, address: str | None) -> Iterator[str]:
    """Write the commands that help, where nothing goes on by itself: to serve a call, answer it, decide about it."""
    state = call.action.state
    if state == event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION:
        yield f"allow it:   {command('approve', call.action.call_id, address=address)}"
        yield f"refuse it:  {command('reject', call.action.call_id, address=address)}"
    if state == event_pb2.REQUIRED_ACTION_STATE_UNSERVED:
        scope = ["--scope", call.scopes[0]] if call.scopes else []
        yield f"serve it:   {command('worker', f'FILE.py:{call.action.name}', *scope, address=address)}"
    if state in PAUSED:
        yield f"answer it:  {answer_command(call.action, address)}"
    if state == event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN:
        action = call.action
        yield f"run again:  {command('redeliver', action.session_id, action.call_id, address=address)}"


def answer_command(action: event_pb2.RequiredAction, address: str | None) -> str:
    """Write the command that answers a call by hand."""
    return command("answer", action.session_id, action.call_id, "--output", "TEXT", address=address)


def command(*words: str, address: str | None) -> str:
    """Write a command of ours as it can be typed. `address`: as this command was given it."""
    return one_line(shlex.join(["baton", *words, *address_flag(address)]), 10_000)


def _nobody(call: OpenCall) -> str:
    if call.scopes is None:
        return "no worker serves it in the scopes of its turn"
    if not call.scopes:
        return "no worker serves it in the empty scope"
    names = ", ".join(one_line(repr(scope)) for scope in call.scopes)
    return f"no worker serves it in the scope{'s' if len(call.scopes) > 1 else ''} {names} or the empty one"


async def _scopes(client: Client, action: event_pb2.RequiredAction) -> tuple[str, ...] | None:
    try:
        turn = await client.get_turn(action.session_id, action.turn_id, with_pinned=True)
    except NotFoundError:
        return None  # the session was deleted meanwhile
    return tuple(turn.run_config.scopes)
