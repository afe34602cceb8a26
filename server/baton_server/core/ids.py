"""Ids that follow from a turn: the core makes them without chance or clock.

A turn's id carries the time; the items and calls of the turn are numbered behind it, so that all
ids sort by time and a replay makes the same ones.
"""

from __future__ import annotations

_DIGITS = 6
"""Hex digits of a number: 16 million items in one turn keep their order as text."""


def item_id(turn_id: str, number: int) -> str:
    """Name item `number` (from 0) of a turn, `item_…`."""
    return f"item_{turn_id.removeprefix('turn_')}_{number:0{_DIGITS}x}"


def call_id(turn_id: str, number: int) -> str:
    """Name the call whose function-call item has `number`, `call_…`."""
    return f"call_{turn_id.removeprefix('turn_')}_{number:0{_DIGITS}x}"


def hook_id(turn_id: str, moment: str) -> str:
    """Name the hook that a turn asks at a moment, `hook_…`: the same in every process that drives the turn."""
    return f"hook_{turn_id.removeprefix('turn_')}_{moment}"


def number_of(item_or_call_id: str) -> int:
    """Read the number back out of an id that `item_id` or `call_id` made."""
    return int(item_or_call_id.rpartition("_")[2], 16)
