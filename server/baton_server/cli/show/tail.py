"""`baton sessions tail`: a session's events as they happen, a line each, and the text that the model writes."""

from __future__ import annotations

import select
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from baton import Client, RawResponsesStreamEvent, ResponseResetEvent
from baton.runs.stream_events import Fragments
from baton.v1 import event_pb2, session_pb2
from baton_server.cli.calling import calling
from baton_server.cli.given.arguments import SessionName
from baton_server.cli.given.naming import find_session
from baton_server.cli.options import Address, Json
from baton_server.cli.show.event_lines import event_words, indented, nested, part_words, short
from baton_server.cli.show.texts import safe
from baton_server.cli.show.times import clock, day, now
from baton_server.cli.talk.connection_notes import BACK, LOST
from baton_server.cli.terminal import err, out, print_json

VOID = "the text above is void: the model is asked anew, or some of it was missed"

_SEQUENCE = 5
"""Columns of a sequence number; longer ones push their line to the right."""


class Until(StrEnum):
    """Until when a session is watched: `baton.v1.Follow`."""

    REST = "rest"
    FOREVER = "forever"
    NONE = "none"


_FOLLOWS = {
    Until.REST: session_pb2.FOLLOW_REST,
    Until.FOREVER: session_pb2.FOLLOW_FOREVER,
    Until.NONE: session_pb2.FOLLOW_NONE,
}


def tail(
    session: SessionName,
    after: Annotated[int, typer.Option(min=0, help="Only events above this sequence.", show_default=False)] = 0,
    follow: Annotated[
        Until,
        typer.Option(case_sensitive=False, help="Until the session rests, for ever, or just what is there."),
    ] = Until.REST,
    turn: Annotated[str, typer.Option(help="Only this turn, turn_….", show_default=False)] = "",
    no_text: Annotated[bool, typer.Option("--no-text", help="Leave out texts while they are written.")] = False,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Show what happens in a session: an event a line, with its sequence, time and turn.

    What the model writes is shown as it comes where a terminal looks on; the event with the whole message follows.
    With --json: each part of the stream, texts and heartbeats included.
    """
    texts = not no_text and (as_json or out.is_terminal)

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        watched = client.watch(
            found.session_id,
            after_sequence=after,
            follow_until=_FOLLOWS[follow],
            deltas=event_pb2.DELTA_LEVEL_FRAGMENTS if texts else event_pb2.DELTA_LEVEL_NONE,
            turn_id=turn,
        )
        await _show(client, watched, as_json=as_json)

    calling(address, work)


async def _show(client: Client, watched: AsyncIterator[event_pb2.StreamPart], *, as_json: bool) -> None:
    """Write what comes until it ends, and on standard error whether it comes."""
    lines = TailLines(now())

    def tell(there: bool) -> None:
        _write(lines.pause())
        err.print(f"baton: {BACK if there else LOST}")

    client.on_connection_change(tell)
    try:
        async for part in watched:
            if as_json:
                print_json(part)
            else:
                _write(lines.feed(part))
            if part.HasField("heartbeat") and _reader_has_gone():
                return
    finally:
        _write(lines.pause())


def _reader_has_gone() -> bool:
    """Tell whether nobody reads the pipe any more that is written to; a quiet session would never find out."""
    try:
        poll = select.poll()
        poll.register(sys.stdout, select.POLLERR)
        return bool(poll.poll(0))
    except (OSError, ValueError, AttributeError):  # no file, or no such call on this system
        return False


def _write(pieces: Iterable[str]) -> None:
    sys.stdout.write("".join(pieces))
    sys.stdout.flush()


class TailLines:
    """Turns the parts of one stream into what is written of them. Pure.

    A text that is being written stands on lines of its own, below the same columns as an event, and is void as soon
    as the stream says so; then it is written anew.
    """

    def __init__(self, at: datetime) -> None:
        self._day = f"{at.astimezone():%Y-%m-%d}"
        self._turn = ""
        self._fragments = Fragments()
        self._writing = ""  # the item whose text is being written; empty: none is unfinished
        self._written: dict[str, str] = {}  # of this turn's items, by id

    def feed(self, part: event_pb2.StreamPart) -> Iterator[str]:
        """Take a part; yield what is to be written now. Whatever is no fragment ends with its line."""
        match part.WhichOneof("part"):
            case "event":
                yield from self._event(part.event)
            case "delta" | "reset" as arm if getattr(part, arm).run_path:
                pass  # runs that go on beside one another would write into each other's lines
            case "delta":
                yield from self._turn_to(part.delta.turn_id)
                yield from self._pieces(self._fragments.delta(part.delta))
            case "reset":
                yield from self._turn_to(part.reset.turn_id)
                yield from self._pieces(self._fragments.reset(part.reset))
            case "heartbeat":
                pass
            case _:
                yield from self._end()
                yield f"{'':{_SEQUENCE}} {part_words(part)}\n"

    def pause(self) -> Iterator[str]:
        """End the line of a text that is being written; more of it goes on below."""
        yield from self._end()

    # -- texts that are being written ------------------------------------------------------------

    def _turn_to(self, turn_id: str) -> Iterator[str]:
        """Begin anew with another turn: rounds are counted in each."""
        if turn_id != self._turn:
            yield from self._end()
            self._turn, self._fragments = turn_id, Fragments()
            self._written.clear()

    def _pieces(self, told: Iterator[RawResponsesStreamEvent]) -> Iterator[str]:
        for event in told:
            if isinstance(event.data, ResponseResetEvent):
                yield from self._end()
                yield f"{self._columns()}({VOID})\n"
                self._written.clear()
                continue
            item_id = event.data.item_id
            if self._writing != item_id:
                yield from self._end()
                yield self._columns()
                self._writing = item_id
            self._written[item_id] = self._written.get(item_id, "") + event.data.delta
            yield indented(safe(event.data.delta), len(self._columns()))

    def _end(self) -> Iterator[str]:
        if self._writing:
            self._writing = ""
            yield "\n"

    def _columns(self) -> str:
        return f"{'':{_SEQUENCE}} {'':8} {short(self._turn):6} "

    # -- events ----------------------------------------------------------------------------------

    def _event(self, event: event_pb2.Event) -> Iterator[str]:
        yield from self._end()
        today = day(event.created_at)
        if today != self._day:
            self._day = today
            yield f"{today}\n"
        columns = f"{event.sequence:{_SEQUENCE}} {clock(event.created_at)} {short(event.turn_id):6} "
        yield f"{columns}{indented(nested(event, self._words(event)), len(columns))}\n"

    def _words(self, event: event_pb2.Event) -> str:
        """Say what happened; a message that was just written is not written twice."""
        message = event.item_done.item.message
        written = self._written.pop(event.item_done.item.item_id, None)
        if written is None or any(part.WhichOneof("part") != "text" for part in message.content):
            return event_words(event)
        if written != "".join(part.text for part in message.content):
            return event_words(event)
        brief = event_pb2.Event()
        brief.CopyFrom(event)
        del brief.item_done.item.message.content[:]
        brief.item_done.item.message.content.add(text=f"(as above, {len(written):,} characters)")
        return event_words(brief)
