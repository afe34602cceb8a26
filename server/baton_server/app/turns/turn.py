"""A turn that is driven in this process: its state, its mailbox, and what goes on for it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from baton_server.app.turns.live import LiveRound
from baton_server.core.events import TurnStatus
from baton_server.core.inputs import Input, Steered
from baton_server.core.run_config import RunConfig
from baton_server.core.state import TurnState
from baton_server.ports.store import Committed, InboxRow, TurnRow

KEPT_HISTORY_CHARACTERS = 64 * 1024
"""A history that is longer is read again for the next round, rather than kept while a turn waits."""

RunPath = tuple[str, ...]


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
    seconds). `created_at`: when it was accepted (wall seconds); 0: by this process, a moment ago. `last_sequence`: of
    the last event that was committed here; 0: none was.
    """

    session_id: str
    status: TurnStatus
    open_names: tuple[tuple[str, str], ...]
    config: RunConfig
    since: float
    created_at: float = 0.0
    last_sequence: int = 0


@dataclass(slots=True, kw_only=True)
class UnderWay:
    """A model request of a run that is under way, for the reply of a round. `live`: what it has written so far."""

    round: int
    task: asyncio.Task[None]
    live: LiveRound

    def stop(self) -> None:
        """End it; nothing more of it is told."""
        self.task.cancel()
        self.live.stop()


@dataclass(slots=True, kw_only=True)
class Driven:
    """A turn in the hands of this process.

    `state` None: to be loaded. `row`: the turn's row as this process last wrote or read it; its version fences.
    `came`: set when something comes into the mailbox. `session_version`: the session's version at which no turn was
    queued behind this one; None: not known. `look`: the inbox may hold rows that were not read. `waiting`: steered rows
    that wait for a model request.
    `history` None: to be loaded when the model is asked. `loaded`: another process may have begun its rounds, so
    that fragments begin anew. `since`: when it last changed (monotonic seconds). `open_names`: functions of the
    calls that were open then, without those that wait for people or are held; what the state has besides may not be on
    disk yet. `stepping`: it is being fed. `faults`: of ours, in a row, with what has come. `in_doubt`: calls that a
    commit opened, or not: it was reported as failed, which does not tell. `requests`: of the model, by run. `hooks`:
    what is asked, by the key of its command. `granted`: calls about which the session was asked for a decision.
    `last_sequence`: of the last event that was committed here, 0: none was.
    """

    turn_id: str
    state: TurnState | None = None
    row: TurnRow | None = None
    session_version: int | None = None
    history: list[str] | None = None
    mailbox: list[Mail] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    look: bool = True
    waiting: list[tuple[InboxRow, Steered]] = field(default_factory=list)
    requests: dict[RunPath, UnderWay] = field(default_factory=dict)
    loaded: bool = False
    since: float = 0.0
    open_names: tuple[tuple[str, str], ...] = ()
    stepping: bool = False
    faults: int = 0
    in_doubt: tuple[str, ...] = ()
    grace: asyncio.Task[None] | None = None
    hooks: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    granted: set[str] = field(default_factory=set)
    last_sequence: int = 0

    def asks(self, run_path: RunPath) -> bool:
        """Tell whether the request of the round that a run owes is under way."""
        under_way = self.requests.get(run_path)
        run = None if self.state is None else self.state.runs.get(run_path)
        return under_way is not None and run is not None and under_way.round == run.round

    @property
    def asking(self) -> bool:
        """Tell whether any request that the state owes is under way."""
        return any(self.asks(run_path) for run_path in self.requests)

    @property
    def takes_messages(self) -> bool:
        """Tell whether nothing is under way yet that a message would come too late for."""
        return not self.asks(()) and not self.hooks

    @property
    def working(self) -> bool:
        """Tell whether something has come, or is asked, that its events do not tell yet."""
        return self.stepping or self.look or bool(self.mailbox) or bool(self.hooks)

    def _function(self, call_id: str, name: str) -> tuple[str, str]:
        """Say which version of a function the turn's calls are for; empty: any."""
        function = None if self.state is None else self.state.function(call_id)
        return name, "" if function is None else function.handler_version

    def stands(self, now: float, held: Collection[str] = ()) -> None:
        """Note that the state is what the disk has, as of now (monotonic seconds). `held`: calls kept back."""
        self.since = now
        calls = self.state.open_calls.values() if self.state is not None else ()
        waits = (call for call in calls if not call.effect_unknown and call.awaiting is None)
        self.open_names = tuple(self._function(c.call_id, c.name) for c in waits if c.call_id not in held)
        if calls and sum(map(len, self.history or ())) > KEPT_HISTORY_CHARACTERS:
            self.history = None

    def stop_requests(self, but: Collection[RunPath]) -> None:
        """Stop requests whose replies nobody waits for: their runs have ended before the turn."""
        for run_path in [one for one in self.requests if one not in but]:
            self.requests.pop(run_path).stop()

    def drop(self) -> None:
        """Forget what is known, so that it is loaded again: another writer was faster."""
        self.state = self.row = self.session_version = None
        self.waiting = []
        self.look = True

    def let_go(self) -> None:
        """Stop what goes on for the turn."""
        for under_way in self.requests.values():
            under_way.stop()
        for task in (self.grace, *self.hooks.values()):
            if task is not None:
                task.cancel()
        self.requests.clear()
        self.grace = None


def started_row(row: TurnRow, done: Committed) -> TurnRow:
    """Complete the row of a turn that a commit has begun: since when, and from which event on."""
    first = next((event.sequence for event in done.events if event.turn_id == row.turn_id), row.started_sequence)
    return replace(row, started_sequence=first, started_at=done.at)
