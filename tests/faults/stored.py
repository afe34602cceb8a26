"""What a store holds after everything, read through the product's own reads, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from baton.v1 import event_pb2, item_pb2
from baton_server.ports.store import CallRow, Page, SessionRow, Store, TurnRow
from baton_server.store.sqlite import open_sqlite
from baton_server.wire.codec import stamp

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """All of it. `events`, `history` and `last` (the session's last sequence) by session; `turns`, `calls` by id."""

    events: Mapping[str, Sequence[event_pb2.Event]] = field(default_factory=dict)
    history: Mapping[str, Sequence[item_pb2.Item]] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)
    turns: Mapping[str, TurnRow] = field(default_factory=dict)
    calls: Mapping[str, CallRow] = field(default_factory=dict)


def calls_in(events: Iterable[event_pb2.Event]) -> Iterator[item_pb2.FunctionCall]:
    """Give the calls that a log opened. Those of a reply that was not taken are owed nothing."""
    for event in events:
        item = event.item_added.item
        if item.HasField("function_call") and item.status != item_pb2.ITEM_STATUS_REJECTED:
            yield item.function_call


def outputs_in(events: Iterable[event_pb2.Event]) -> Iterator[item_pb2.FunctionCallOutput]:
    """Give the outputs that a log recorded, in its order."""
    for event in events:
        if event.item_added.item.HasField("function_call_output"):
            yield event.item_added.item.function_call_output


def decisions_in(events: Iterable[event_pb2.Event]) -> Iterator[event_pb2.Decision]:
    """Give the decisions that a log recorded."""
    for event in events:
        if event.HasField("approval_decided"):
            yield event.approval_decided.decision


def returns_in(events: Iterable[event_pb2.Event]) -> Iterator[event_pb2.CallReturned]:
    """Give what calls returned before guardrails had looked at it."""
    for event in events:
        if event.HasField("call_returned"):
            yield event.call_returned


def waits_in(events: Iterable[event_pb2.Event]) -> Iterator[str]:
    """Give the calls that waited for people, and those whose nested runs had such a call."""
    for event in events:
        if event.HasField("approval_requested"):
            yield event.approval_requested.call_id
            yield from event.run_path


async def read_store(file: Path) -> Stored:
    """Read a store that nobody else has open. Raises StoreHeld, StoreUnavailable."""
    store = await open_sqlite(file, stamp=stamp, holder={"program": "tests.faults"})
    try:
        return await _read(store)
    finally:
        await store.close()


async def _read(store: Store) -> Stored:
    sessions = [row async for row in _sessions(store)]
    events = {row.session_id: [event async for event in _events(store, row.session_id)] for row in sessions}
    history = {row.session_id: [item async for item in _history(store, row.session_id)] for row in sessions}
    turns = {turn.turn_id: turn for row in sessions async for turn in _turns(store, row.session_id)}
    calls = {
        call.call_id: await store.calls.get(call.call_id) for logged in events.values() for call in calls_in(logged)
    }
    return Stored(
        events=events,
        history=history,
        last={row.session_id: row.last_sequence for row in sessions},
        turns=turns,
        calls={call_id: row for call_id, row in calls.items() if row is not None},
    )


async def _sessions(store: Store) -> AsyncIterator[SessionRow]:
    after = ""
    while rows := await store.sessions.newest(Page(size=PAGE, after=after)):
        for row in rows:
            yield row
        after = rows[-1].session_id


async def _turns(store: Store, session_id: str) -> AsyncIterator[TurnRow]:
    after = ""
    while rows := await store.turns.newest(session_id, Page(size=PAGE, after=after)):
        for row in rows:
            yield row
        after = rows[-1].turn_id


async def _events(store: Store, session_id: str) -> AsyncIterator[event_pb2.Event]:
    after = 0
    while rows := await store.events.after(session_id, after, PAGE):
        for row in rows:
            yield event_pb2.Event.FromString(row.data)
        after = rows[-1].sequence


async def _history(store: Store, session_id: str) -> AsyncIterator[item_pb2.Item]:
    after = ""
    while rows := await store.items.page(session_id, Page(size=PAGE, after=after), history_only=True):
        for row in rows:
            yield item_pb2.Item.FromString(row.data)
        after = rows[-1].item_id
