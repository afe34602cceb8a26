"""What callers put into a session, before it is known which turn takes it: the arms of `baton.v1.Input`."""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.core.inputs import CallSettled, CancelAsked, NewItem, RedeliveryAsked


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessages:
    """Items that join or start a turn, in order."""

    items: tuple[NewItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFor:
    """A result from outside, for a call of a turn."""

    turn_id: str
    settled: CallSettled


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelOf:
    """A cancel of a turn."""

    turn_id: str
    asked: CancelAsked


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryOf:
    """A call of unknown effect, to be delivered again."""

    turn_id: str
    asked: RedeliveryAsked


Submission = NewMessages | ResultFor | CancelOf | RedeliveryOf
