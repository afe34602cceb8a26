"""One step of a turn: feed what has come, and make the batch that records what follows.

Nothing is awaited here: a `Step` is built from what the driver has read, and the driver commits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import structlog

from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.runtime import Runtime
from baton_server.app.turns.recording import Recording
from baton_server.app.turns.step_calls import StepCalls
from baton_server.app.turns.turn import Driven, Mail, RunPath
from baton_server.core import ids
from baton_server.core.commands import StopCalls
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import (
    CancelMode,
    HookKind,
    SessionIdle,
    SessionInProgress,
    TurnCreated,
    TurnStatus,
)
from baton_server.core.inputs import (
    AttemptFailed,
    Begun,
    Broken,
    CallSettled,
    CallsUnheld,
    CancelAsked,
    DecisionMade,
    DecisionsMade,
    HookAnswered,
    Input,
    ModelReplied,
    NewItem,
    RedeliveryAsked,
    Steered,
    TextCutOff,
)
from baton_server.core.state import TurnState
from baton_server.ports.store import (
    Batch,
    InboxRow,
    SessionWrite,
    TimerRow,
    TurnRow,
    TurnWrite,
)

log = structlog.get_logger(__name__)

CANCEL_TIMER = "cancel"
"""Name of the timer that ends the grace of a cancel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What has come for a turn from the store. `messages` are steered ones, or the input of a queued turn.

    `begins`: a queued turn may begin. `takes_messages`: no model request is under way. `broken`: what has come
    cannot be fed, for a fault of ours, and the turn is to end over it; then `unread` has all rows of the inbox.
    """

    rows: Sequence[tuple[InboxRow, Input]] = ()
    messages: Sequence[tuple[InboxRow, Steered]] = ()
    begins: bool = False
    takes_messages: bool = False
    broken: bool = False
    unread: Sequence[InboxRow] = ()

    @property
    def nothing(self) -> bool:
        """Tell whether there is nothing to feed."""
        waits = bool(self.messages) and self.takes_messages
        return not (self.rows or self.begins or self.broken or waits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What comes after a turn that ends. `session_version` guards that it still does; None: the session is gone.

    `active`: the turn is its session's active one. `queued`: the next turn of the queue, empty: none.
    """

    session_version: int | None
    active: bool
    queued: str


class Step:
    """What one feeding gave. `replied`: runs with a model's reply in it, whose held-back text goes out with its events.

    Called in this order: `feed`, `end` if the turn is over, `batch`; then, once that is on disk, the rest is read.
    `started`: it began the turn. `calls`: what it does to calls. `held`: replies that a guardrail holds up. `left`:
    messages that wait on. `next_turn_id`: the turn that follows the one that it ended.
    """

    def __init__(self, runtime: Runtime, dispatcher: Dispatcher, driven: Driven, state: TurnState) -> None:
        assert driven.row is not None
        self._runtime, self._dispatcher, self._driven = runtime, dispatcher, driven
        self.state, self.row = state, driven.row
        self.recording = Recording(runtime.codec)
        self.replied: set[RunPath] = set()
        self.started = False
        self.calls = StepCalls(runtime, dispatcher, state, self.recording)
        self.held: list[Mail] = []
        self.answers: list[tuple[Mail, bool]] = []
        self.left: list[tuple[InboxRow, Steered]] = []
        self.next_turn_id = ""
        self._was_waiting = state.status is TurnStatus.WAITING
        self._was_queued = state.queued
        self._consumed: list[tuple[str, int]] = []
        self._timers: list[TimerRow] = []
        self._carried: list[InboxRow] = []
        self._next_write: TurnWrite | None = None
        self._following = Following(session_version=None, active=True, queued="")

    @property
    def idle(self) -> bool:
        """Tell whether there is nothing to write."""
        return not self.recording.events and not self._consumed

    # -- feeding ---------------------------------------------------------------------------------

    def feed(self, gathered: Gathered, mailbox: Sequence[Mail]) -> None:
        """Feed what has come: rows of the inbox first, since they were acknowledged, then mail, then messages."""
        self.left = list(gathered.messages)
        if gathered.broken:
            self._break(gathered, mailbox)
            return
        for decides, rows in groupby(gathered.rows, key=lambda one: isinstance(one[1], DecisionMade)):
            if decides:
                self._decisions(rows)
                continue
            for row, given in rows:
                self._row(row, given)
        for mail in mailbox:
            self._mail(mail)
        held, self.held = self.held, []
        for mail in held:
            self._mail(mail)
        if gathered.begins and self.state.queued:
            self._begin()
        elif self.left and gathered.takes_messages and self._runtime.runner.takes_messages(self.state):
            for row, message in self._take_left():
                self._row(row, message)
        self.calls.assign()
        if self.state.cancel is not None and self.replied:
            self._settle_unheld()
            self.calls.look()
        self.calls.release()

    def _row(self, row: InboxRow, given: Input) -> None:
        self._consumed.append((row.turn_id, row.n))
        if isinstance(given, CallSettled):
            self.calls.settled_in_store((given.call_id,))
        self._feed(given)

    def _decisions(self, rows: Iterable[tuple[InboxRow, Input]]) -> None:
        """Feed decisions that came together at once: in which order they came says nothing."""
        made: list[DecisionMade] = []
        for row, given in rows:
            assert isinstance(given, DecisionMade)
            self._consumed.append((row.turn_id, row.n))
            self.calls.decided_in_store(given.decision.call_id)
            made.append(given)
        self._feed(DecisionsMade(made=tuple(made)))

    def _mail(self, mail: Mail) -> None:
        if isinstance(mail.given, ModelReplied) and self._is_held_up(mail.given) and not self.state.over:
            self.held.append(mail)
            return
        given = mail.given
        doubtful = isinstance(given, CallSettled) and self.calls.in_doubt(given.call_id)
        counted = self._feed(given)
        if counted and isinstance(given, CallSettled):
            self.calls.settled_here(given, doubtful=doubtful)
        self.answers.append((mail, counted))

    def _is_held_up(self, given: ModelReplied) -> bool:
        return self._runtime.runner.holds_reply(self.state, given.run_path)

    def _begin(self) -> None:
        """Start a turn that was queued, with all the input that waits for it."""
        items: list[NewItem] = []
        carried: list[NewItem] = []
        for row, given in self._take_left():
            self._consumed.append((row.turn_id, row.n))
            items.extend(given.items)
            carried.extend(given.carried)
        self.started = True
        self._feed(Begun(items=tuple(items), carried=tuple(carried)))

    def _break(self, gathered: Gathered, mailbox: Sequence[Mail]) -> None:
        """End a turn over what cannot be fed, which goes with it."""
        self._consumed.extend((row.turn_id, row.n) for row in gathered.unread)
        self.calls.settled_in_store(self.state.open_calls)  # what cannot be fed may have settled any of them
        self.answers.extend((mail, False) for mail in mailbox)
        error_id = self._runtime.ids.new("err")
        message = f"The server failed to take in what came for the turn. Report {error_id}, which is in its log."
        log.error("a turn is ended over what cannot be fed", turn_id=self.row.turn_id, error_id=error_id)
        self._take(Broken(failure=Failure(reason=Reason.INTERNAL, message=message, metadata={"error_id": error_id})))

    def _take_left(self) -> list[tuple[InboxRow, Steered]]:
        taken, self.left = self.left, []
        return taken

    def _feed(self, given: Input | DecisionsMade) -> bool:
        if isinstance(given, CancelAsked) and given.mode is CancelMode.NOW:
            self._cut_off()
        counted = self._take(given)
        if isinstance(given, ModelReplied) and counted:
            self.replied.add(given.run_path)
        if isinstance(given, CallSettled) and counted:
            self.calls.digest(given)
        if isinstance(given, AttemptFailed):
            self.calls.take_back(given.call_id, given.attempt)
        if isinstance(given, HookAnswered | RedeliveryAsked) and counted:
            self._undoubt(given)
        if isinstance(given, CancelAsked) and counted:
            self._cancelled(given)
        return counted

    def _cut_off(self) -> None:
        """Keep what the model has written so far, in every run that it writes for."""
        for run_path, under_way in self._driven.requests.items():
            under_way.live.stop()
            if self._driven.asks(run_path):
                self._take(TextCutOff(text=under_way.live.text(), run_path=run_path))

    def _undoubt(self, given: HookAnswered | RedeliveryAsked) -> None:
        """Have calls follow what was found out about their lost attempts."""
        if isinstance(given, RedeliveryAsked):
            self.calls.take_back(given.call_id, self.state.calls[given.call_id].lost_attempt)
        elif given.hook is HookKind.EFFECT_CHECK:
            for call_id, call in self.state.calls.items():
                if self.state.check_of(call) == given.hook_id:
                    self.calls.take_back(call_id, call.lost_attempt)

    def _take(self, given: Input | DecisionsMade) -> bool:
        events = self._runtime.runner.step(self.state, given)
        self.recording.extend(events)
        return bool(events)

    def _cancelled(self, given: CancelAsked) -> None:
        self._settle_unheld()
        if any(isinstance(command, StopCalls) for command in self._runtime.runner.pending(self.state)):
            at = self._runtime.clock.wall() + given.grace_s
            self._timers.append(TimerRow(turn_id=self.state.turn_id, name=CANCEL_TIMER, at=at))

    def _settle_unheld(self) -> None:
        unheld = self.calls.unheld()
        if unheld:
            self._take(CallsUnheld(call_ids=unheld))

    # -- the end of the turn ---------------------------------------------------------------------

    def end(self, following: Following) -> None:
        """Say what comes after the turn: messages that it did not take, a queued turn, or rest.

        A turn that ends before it began takes its input with it; one that was not the session's active turn
        changes nothing else of the session.
        """
        self._following = following
        carried = self._take_left()
        if self._was_queued and not self.started:
            self._consumed.extend((row.turn_id, row.n) for row, _ in carried)
            carried = []
        if not following.active:
            return
        if carried:
            self._carry(carried)
        else:
            self.next_turn_id = following.queued
        if not self.next_turn_id:
            self.recording.add(SessionIdle())
        elif self._was_waiting:
            self.recording.add(SessionInProgress())

    def _carry(self, carried: list[tuple[InboxRow, Steered]]) -> None:
        """Make the turn that takes steered messages which this one did not take any more."""
        turn_id = self._runtime.ids.new("turn")
        snapshot = replace(
            TurnState.of(self.state.snapshot(), self.state.pinned).snapshot(),
            turn_id=turn_id,
            request_id="",
            continues="",
        )
        count = sum(len(given.items) for _, given in carried)
        self.recording.add(
            TurnCreated(turn=snapshot, carried_item_ids=tuple(ids.item_id(turn_id, n) for n in range(count))),
            turn_id=turn_id,
        )
        for row, _ in carried:
            self._consumed.append((row.turn_id, row.n))
            self._carried.append(InboxRow(turn_id=turn_id, source=row.source, data=row.data))
        self.next_turn_id = turn_id
        self._next_write = TurnWrite(
            row=TurnRow(
                turn_id=turn_id,
                session_id=self.row.session_id,
                status=TurnStatus.QUEUED,
                snapshot=self._runtime.codec.turn(snapshot),
                agent_digest=self.row.agent_digest,
                config_digest=self.row.config_digest,
                request_id="",
            )
        )

    # -- the batch -------------------------------------------------------------------------------

    def batch(self) -> Batch:
        """Make the batch that records the step."""
        state = self.state
        self.new_row = replace(self.row, status=state.status, snapshot=self._runtime.codec.turn(state.snapshot()))
        cleared = ((state.turn_id, CANCEL_TIMER),) if state.over and state.cancel is not None else ()
        return Batch(
            session_id=self.row.session_id,
            session=self._session_write(),
            turn=TurnWrite(
                row=self.new_row,
                expected_version=self.row.version,
                starts=self.started,
                ends=state.over,
            ),
            next_turn=self._next_write,
            settles=tuple(self.calls.guards()),
            events=tuple(self.recording.events),
            contents=self.recording.contents,
            calls_opened=self.calls.open(),
            calls_settled=self.calls.settled(),
            moves=tuple(self.calls.moves()),
            withdrawn=tuple(self.recording.withdrawn),
            requeues=self.calls.requeues(),
            parked=tuple(self.calls.parked.values()),
            timers_set=() if state.over else tuple(self._timers),
            timers_cleared=cleared,
            inbox_added=tuple(self._carried),
            inbox_consumed=tuple(self._consumed),
        )

    def _session_write(self) -> SessionWrite:
        """Say what becomes of the session's row; only a turn that ends needs the session to be as it was."""
        write = SessionWrite(status=self.recording.status)
        if not self.state.over:
            return write
        return replace(
            write,
            expected_version=self._following.session_version,
            bump=True,
            active_turn_id=self.next_turn_id if self._following.active else None,
            add_usage=self.state.usage,
        )
