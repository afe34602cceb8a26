"""Messages made to fit a peer: the largest texts are omitted one by one, and lists close early.

What is omitted here is too large for the peer and not for the log (`INLINE_BYTES`), so only the events have
it; `stream.find_text` finds it there by its digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import Message

from baton.v1 import event_pb2, item_pb2, runner_pb2
from baton_server.wire.slots import WORTH_BYTES, slots, walk
from baton_server.wire.varint import varint_size

M = TypeVar("M", bound=Message)

DEFAULT_MESSAGE_BYTES = 3 * 1024 * 1024
"""Largest message for a peer that names no limit (PROTOCOL.md §5)."""

_PAGE_ENVELOPE = 1024
"""Bytes of a list's answer besides its elements: a page token, a sequence."""


def fit_message(message: Message, limit: int) -> dict[str, bytes]:
    """Make a message at most `limit` bytes, in place; returns what was omitted, by digest.

    Of a RunResponse the oldest new items are left out, and what guardrails told about their reasons. Where omission
    does not suffice, arms go: of an item, then of an event; the reader passes over them and still has ids and
    sequence. What remains above the limit then, such as an agent's instructions, stays.
    """
    if isinstance(message, runner_pb2.RunResponse):
        return _fit_run(message, limit)
    omitted = _omit_largest(message, limit)
    if message.ByteSize() > limit:
        _drop_arms(message, limit)
    return omitted


def close_page(messages: Iterable[M], limit: int) -> list[M]:
    """Take of a list's elements, in order, those that one answer of `limit` bytes holds.

    At least the first, made to fit. Elements are field 1 of every list's answer.
    """
    room = limit - _PAGE_ENVELOPE
    page: list[M] = []
    for message in messages:
        if not page:
            fit_message(message, room - _element_overhead(room))
        size = message.ByteSize()
        room -= size + _element_overhead(size)
        if page and room < 0:
            break
        page.append(message)
    return page


def _element_overhead(size: int) -> int:
    return 1 + varint_size(size)


def _omit_largest(message: Message, limit: int) -> dict[str, bytes]:
    """Omit texts, the largest first, until the message fits or none is left that is worth it."""
    omitted: dict[str, bytes] = {}
    excess = message.ByteSize() - limit
    if excess <= 0:
        return omitted
    for slot in sorted(slots(message), key=lambda slot: len(slot.data), reverse=True):
        omitted[slot.omit()] = slot.data
        excess -= len(slot.data) - WORTH_BYTES
        if excess <= 0:
            break
    return omitted


def _drop_arms(message: Message, limit: int) -> None:
    """Unset the arms of items, then of events, the largest first, until the message fits."""
    excess = message.ByteSize() - limit
    for kind, oneof in ((item_pb2.Item, "item"), (event_pb2.Event, "event")):
        owners = [(owner.ByteSize(), owner) for owner in walk(message) if isinstance(owner, kind)]
        for size, owner in sorted(owners, key=lambda sized: sized[0], reverse=True):
            if excess <= 0:
                return
            owner.ClearField(oneof)  # type: ignore[arg-type]  # the stubs type the name of each message alone
            excess -= size - owner.ByteSize()


def _fit_run(message: runner_pb2.RunResponse, limit: int) -> dict[str, bytes]:
    """Fit what is said once, then as many of the newest items as there is room for."""
    if message.ByteSize() <= limit:
        return {}
    items = list(message.new_items)
    del message.new_items[:]
    message.items_left_out = True
    omitted = _omit_largest(message, limit)
    _drop_infos(message, limit)
    while message.ByteSize() > limit and message.round_usage:
        del message.round_usage[: len(message.round_usage) // 2 + 1]
    kept: list[item_pb2.Item] = []
    room = limit - message.ByteSize()
    for item in reversed(items):
        if not kept:
            omitted |= _omit_largest(item, room - _element_overhead(max(room, 1)))
        size = item.ByteSize()
        room -= size + _element_overhead(size)
        if room < 0:
            break
        kept.append(item)
    message.new_items.extend(reversed(kept))
    message.items_left_out = len(kept) < len(items)
    return omitted


def _drop_infos(message: runner_pb2.RunResponse, limit: int) -> None:
    """Clear what guardrails told about their reasons, the largest first, until the message fits."""
    for result in sorted(message.guardrail_results, key=lambda one: len(one.info_json), reverse=True):
        if message.ByteSize() <= limit:
            return
        result.ClearField("info_json")
