"""A turn that is driven in this process: its state, its mailbox, and what goes on for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from baton_server.app.turns.live import LiveRound
from baton_server.core.agents import RunConfig
from baton_server.core.events import TurnStatus
from baton_server.core.inputs import Input, Steered
from baton_server.core.state import TurnState
from baton_server.ports.store import Committed, InboxRow, TurnRow

KEPT_HISTORY_CHARACTERS = 64 * 1024
"""A history that is longer is read again for the next round, rather than kept while a turn waits."""


@dataclass(slots=True, kw_only=True)
class Mail:
    """Something that this process brings to a turn. `counted` is told, once it is on disk, whether it counted."""

    given: Input
    counted: asyncio.Future[bool]

    def answer(self, counted: bool) -> None:
        """Tell the sender, unless it has gone."""
        if not self.counted.done():
            self.counted.set_result(counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """How a driven turn stands on disk, without asking the disk.

    `open_names`: name and version (empty: any) of the functions that it waits for. `since`: its last change (monotonic
    seconds).
    `created_at`: when it was accepted (wall seconds); 0: by this process, a moment ago.
    """

    session_id: str
    status: TurnStatus
    open_names: tuple[tuple[str, str], ...]
    config: RunConfig
    since: float
    created_at: float = 0.0


@dataclass(slots=True, kw_only=True)
class Driven:
    """A turn in the hands of this process.

    `state` None: to be loaded. `row`: the turn's row as this process last wrote or read it; its version fences.
    `session_version`: the session's version at which no turn was queued behind this one; None: not known.
    `look`: the inbox may hold rows that were not read. `waiting`: steered rows that wait for a model request.
    `history` None: to be loaded when the model is asked. `loaded`: another process may have begun its round, so
    that fragments begin anew. `since`: when it last changed (monotonic seconds). `open_names`: functions of the
    calls that were open then, without those of unknown effect; what the state has besides may not be on disk yet.
    `stepping`: it is being fed. `faults`: of ours, in a row, with what has come. `in_doubt`: calls that a commit
    opened, or not: it was reported as failed, which does not tell. `hooks`: what is asked, by the key of its command.
    """

    turn_id: str
    state: TurnState | None = None
    row: TurnRow | None = None
    session_version: int | None = None
    history: list[str] | None = None
    mailbox: list[Mail] = field(default_factory=list)
    look: bool = True
    waiting: list[tuple[InboxRow, Steered]] = field(default_factory=list)
    model: asyncio.Task[None] | None = None
    model_round: int = 0
    live: LiveRound | None = None
    loaded: bool = False
    since: float = 0.0
    open_names: tuple[tuple[str, str], ...] = ()
    stepping: bool = False
    faults: int = 0
    in_doubt: tuple[str, ...] = ()
    grace: asyncio.Task[None] | None = None
    hooks: dict[str, asyncio.Future[None]] = field(default_factory=dict)

    @property
    def asking(self) -> bool:
        """Tell whether the request of the round that the state owes is under way."""
        return self.model is not None and self.state is not None and self.model_round == self.state.rounds + 1

    @property
    def working(self) -> bool:
        """Tell whether something has come, or is asked, that its events do not tell yet."""
        return self.stepping or self.look or bool(self.mailbox) or bool(self.hooks)

    def _function(self, name: str) -> tuple[str, str]:
        """Say which version of a function the turn's calls are for; empty: any."""
        function = None if self.state is None else self.state.pinned.agent.function(name)
        return name, "" if function is None else function.handler_version

    def stands(self, now: float) -> None:
        """Note that the state is what the disk has, as of now (monotonic seconds)."""
        self.since = now
        calls = self.state.open_calls.values() if self.state is not None else ()
        self.open_names = tuple(self._function(call.name) for call in calls if not call.effect_unknown)
        if calls and sum(map(len, self.history or ())) > KEPT_HISTORY_CHARACTERS:
            self.history = None

    def drop(self) -> None:
        """Forget what is known, so that it is loaded again: another writer was faster."""
        self.state = self.row = self.session_version = None
        self.waiting = []
        self.look = True

    def let_go(self) -> None:
        """Stop what goes on for the turn."""
        for task in (self.model, self.grace, *self.hooks.values()):
            if task is not None:
                task.cancel()
        self.model = self.grace = None
        if self.live is not None:
            self.live.stop()
            self.live = None


def started_row(row: TurnRow, done: Committed) -> TurnRow:
    """Complete the row of a turn that a commit has begun: since when, and from which event on."""
    first = next((event.sequence for event in done.events if event.turn_id == row.turn_id), row.started_sequence)
    return replace(row, started_sequence=first, started_at=done.at)
