"""What callers put into a session, before it is known which turn takes it: the arms of `baton.v1.Input`."""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.core.inputs import CallSettled, CancelAsked, DecisionMade, NewItem, RedeliveryAsked


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOf:
    """A decision about a call that waits for one."""

    turn_id: str
    made: DecisionMade


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueOf:
    """A turn that goes on from an ended one: `baton.v1.ContinueInput`.

    `max_turns` None and not `unlimited_turns`: the old limit of rounds, counted anew.
    """

    turn_id: str
    max_turns: int | None = None
    unlimited_turns: bool = False


Submission = NewMessages | ResultFor | CancelOf | RedeliveryOf | DecisionOf | ContinueOf
