"""`baton sessions show`: all about one session on a page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeVar

import typer
from rich.text import Text

from baton import Client
from baton.v1 import event_pb2, item_pb2, session_pb2
from baton_server.cli.calling import calling
from baton_server.cli.given.arguments import SessionName
from baton_server.cli.given.naming import find_session
from baton_server.cli.options import Address, Json
from baton_server.cli.show.event_lines import indented
from baton_server.cli.show.items import item_words
from baton_server.cli.show.open_calls import OpenCall, call_lines, with_scopes
from baton_server.cli.show.texts import counted, one_line
from baton_server.cli.show.times import ago, ahead, now
from baton_server.cli.show.words import error_words, usage_words, word
from baton_server.cli.terminal import out, print_json

TURNS = 5
"""Newest turns that are shown."""

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is shown. `items` oldest first; the flags tell that there are older ones."""

    session: session_pb2.Session
    turns: list[event_pb2.Turn]
    more_turns: bool
    items: list[item_pb2.Item]
    more_items: bool
    open: list[OpenCall]


def show(
    session: SessionName,
    items: Annotated[int, typer.Option(min=0, help="So many of the newest items of the history; 0: all.")] = 20,
    full: Annotated[bool, typer.Option("--full", help="Shorten no text.")] = False,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Show a session: where it stands, its newest turns, its history, and what is open in it.

    With --json: the session as the contract has it, what is open included. Its turns and items are events of
    baton sessions tail --json --follow none.
    """
    if as_json:
        print_json(calling(address, lambda client: find_session(client, session)))
        return

    async def work(client: Client) -> Page:
        found = await find_session(client, session)
        turns, more_turns = await _first(client.list_turns(found.session_id), TURNS)
        listed, more_items = await _first(client.list_newest_items(found.session_id, history_only=True), items)
        if full:
            for item in listed:
                await client.complete(found.session_id, item)
        listed.reverse()
        return Page(
            session=found,
            turns=turns,
            more_turns=more_turns,
            items=listed,
            more_items=more_items,
            open=await with_scopes(client, found.required_actions),
        )

    page = calling(address, work)
    at = now()
    for heading, lines in (
        ("", _facts(page.session, at)),
        ("Turns, newest first", _turns(page, at)),
        ("History", _history(page, whole=full)),
        ("Open", _open(page, at, address)),
    ):
        _section(heading, list(lines))


def _section(heading: str, lines: list[str]) -> None:
    if heading and lines:
        out.print()
        out.print(Text(heading, style="bold"))
    for line in lines:
        out.print(Text(f"  {line}" if heading else line))


def _facts(session: session_pb2.Session, at: datetime) -> Iterator[str]:
    yield f"session  {session.session_id}"
    if session.key:
        yield f"key      {one_line(session.key, 256)}"
    yield f"status   {word(session_pb2.SessionStatus, session.status).lower()}"
    yield f"agent    {_agent(session)}"
    if session.history_keeper == session_pb2.HISTORY_KEEPER_MODEL:
        yield "history  kept by the model's API"
    if session.scopes:
        yield f"scopes   {one_line(', '.join(session.scopes), 1000)}"
    for key, value in sorted(session.metadata.items()):
        yield f"label    {one_line(f'{key}={value}', 1000)}"
    yield f"made     {ago(session.created_at, at)}"
    yield f"active   {ago(session.last_active_at, at)}, {counted(session.last_sequence, 'event')}"
    if session.HasField("expires_at"):
        yield f"expires  {ahead(session.expires_at, at)}, if nothing happens"
    if session.usage.requests:
        yield f"used     {usage_words(session.usage)}"


def _agent(session: session_pb2.Session) -> str:
    if not session.HasField("agent"):
        return "none: each turn comes with its own"
    pinned = session.agent
    kept = f" ({pinned.agent_id} revision {pinned.revision})" if pinned.agent_id else ""
    return f"{one_line(pinned.agent.name)}{kept}"


def _turns(page: Page, at: datetime) -> Iterator[str]:
    for turn in page.turns:
        when = ago(turn.ended_at if turn.HasField("ended_at") else turn.created_at, at)
        status = word(event_pb2.TurnStatus, turn.status).lower()
        error = f": {error_words(turn.error)}" if turn.HasField("error") else ""
        yield f"{turn.turn_id}  {status}, {counted(turn.rounds, 'round')}, {when}{error}"
    if page.more_turns:
        yield "… and older ones"


def _history(page: Page, *, whole: bool) -> Iterator[str]:
    if page.more_items:
        yield f"… older items are left out; --items 0 shows all, these are the newest {len(page.items)}"
    for item in page.items:
        yield indented(item_words(item, whole=whole), 4)


def _open(page: Page, at: datetime, address: str | None) -> Iterator[str]:
    for call in page.open:
        yield from call_lines(call, at, address)


async def _first(listed: AsyncIterator[Entry], most: int) -> tuple[list[Entry], bool]:
    """Take the first entries of a list; the flag tells whether there are more. 0: take all."""
    found: list[Entry] = []
    async for one in listed:
        if most and len(found) == most:
            return found, True
        found.append(one)
    return found, False
