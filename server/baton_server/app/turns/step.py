"""One step of a turn: feed what has come, and make the batch that records what follows.

Nothing is awaited here: a `Step` is built from what the driver has read, and the driver commits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import structlog

from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.leases import leased_to
from baton_server.app.calls.registry import Reservation
from baton_server.app.runtime import Runtime
from baton_server.app.turns.call_rows import PARKED, settled_rows, waiting_row
from baton_server.app.turns.recording import Recording
from baton_server.app.turns.turn import Driven, Mail
from baton_server.core import ids
from baton_server.core.commands import StopCalls, pending
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import CancelMode, HookKind, SessionIdle, SessionInProgress, TurnCreated, TurnStatus
from baton_server.core.inputs import (
    AttemptFailed,
    Begun,
    Broken,
    CallSettled,
    CallsUnheld,
    CancelAsked,
    HookAnswered,
    Input,
    ModelReplied,
    NewItem,
    RedeliveryAsked,
    Steered,
    TextCutOff,
)
from baton_server.core.items import FunctionCall
from baton_server.core.state import Phase, TurnState
from baton_server.ports.store import (
    Batch,
    CallRow,
    CallState,
    InboxRow,
    Parked,
    Requeue,
    SessionWrite,
    SettleGuard,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What comes after a turn that ends. `session_version` guards that it still does; None: the session is gone.

    `active`: the turn is its session's active one. `queued`: the next turn of the queue, empty: none.
    """

    session_version: int | None
    active: bool
    queued: str


class Step:
    """What one feeding gave. `replied`: a model's reply is in it, so held-back text goes out with its events.

    Called in this order: `feed`, `end` if the turn is over, `batch`; then, once that is on disk, the rest is read.
    `started`: it began the turn. `reserved`: workers set aside for calls that it opened. `requeued`: attempts that it
    takes back; `parked`: those after which the call waits for an answer. `held`: replies that a guardrail holds up.
    `left`: messages that wait on. `next_turn_id`: the turn that follows the one that it ended.
    """

    def __init__(self, runtime: Runtime, dispatcher: Dispatcher, driven: Driven, state: TurnState) -> None:
        assert driven.row is not None
        self._runtime, self._dispatcher, self._driven = runtime, dispatcher, driven
        self.state, self.row = state, driven.row
        self.recording = Recording(runtime.codec)
        self.replied = self.started = False
        self.reserved: dict[str, Reservation] = {}
        self.requeued: dict[str, Requeue] = {}
        self.parked: dict[str, Parked] = {}
        self.held: list[Mail] = []
        self.answers: list[tuple[Mail, bool]] = []
        self.left: list[tuple[InboxRow, Steered]] = []
        self.next_turn_id = ""
        self._known = set(state.calls)
        self._was_waiting = state.status is TurnStatus.WAITING
        self._was_queued = state.phase is Phase.QUEUED
        self._guards: dict[str, SettleGuard] = {}
        self._unguarded: set[str] = set()
        self._digests: dict[str, str] = {}
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
        for row, given in gathered.rows:
            self._row(row, given)
        for mail in mailbox:
            self._mail(mail)
        held, self.held = self.held, []
        for mail in held:
            self._mail(mail)
        if gathered.begins and self.state.phase is Phase.QUEUED:
            self._begin()
        elif gathered.takes_messages and self.state.takes_messages:
            for row, message in self._take_left():
                self._row(row, message)

    def _row(self, row: InboxRow, given: Input) -> None:
        self._consumed.append((row.turn_id, row.n))
        if isinstance(given, CallSettled):
            self._unguarded.add(given.call_id)
        self._feed(given)

    def _mail(self, mail: Mail) -> None:
        if isinstance(mail.given, ModelReplied) and self.state.holds_reply and not self.state.over:
            self.held.append(mail)
            return
        given = mail.given
        doubtful = isinstance(given, CallSettled) and self._in_doubt(given.call_id)
        counted = self._feed(given)
        if counted and isinstance(given, CallSettled):
            # The result of an attempt in doubt is what everyone waits for, though nobody holds the attempt any more.
            attempt = 0 if doubtful else given.attempt
            self._guards[given.call_id] = SettleGuard(call_id=given.call_id, attempt=attempt)
        self.answers.append((mail, counted))

    def _in_doubt(self, call_id: str) -> bool:
        call = self.state.calls.get(call_id)
        return call is not None and call.doubt is not None

    def _begin(self) -> None:
        """Start a turn that was queued, with all the input that waits for it."""
        items: list[NewItem] = []
        for row, given in self._take_left():
            self._consumed.append((row.turn_id, row.n))
            items.extend(given.items)
        self.started = True
        self._feed(Begun(items=tuple(items)))

    def _break(self, gathered: Gathered, mailbox: Sequence[Mail]) -> None:
        """End a turn over what cannot be fed, which goes with it."""
        self._consumed.extend((row.turn_id, row.n) for row in gathered.unread)
        self._unguarded.update(self.state.open_calls)  # what cannot be fed may have settled any of them
        self.answers.extend((mail, False) for mail in mailbox)
        error_id = self._runtime.ids.new("err")
        message = f"The server failed to take in what came for the turn. Report {error_id}, which is in its log."
        log.error("a turn is ended over what cannot be fed", turn_id=self.row.turn_id, error_id=error_id)
        self._take(Broken(failure=Failure(reason=Reason.INTERNAL, message=message, metadata={"error_id": error_id})))

    def _take_left(self) -> list[tuple[InboxRow, Steered]]:
        taken, self.left = self.left, []
        return taken

    def _feed(self, given: Input) -> bool:
        if isinstance(given, CancelAsked) and given.mode is CancelMode.NOW and self._driven.live is not None:
            self._driven.live.stop()
            self._take(TextCutOff(text=self._driven.live.text()))
        counted = self._take(given)
        if isinstance(given, ModelReplied) and counted:
            self.replied = True
            self._assign()
        if isinstance(given, CallSettled) and counted:
            self._digests[given.call_id] = given.digest
        if isinstance(given, AttemptFailed):
            self._take_back(given.call_id, given.attempt)
        if isinstance(given, HookAnswered | RedeliveryAsked) and counted:
            self._undoubt(given)
        if isinstance(given, CancelAsked) and counted:
            self._cancelled(given)
        return counted

    def _undoubt(self, given: HookAnswered | RedeliveryAsked) -> None:
        """Have calls follow what was found out about their lost attempts."""
        if isinstance(given, RedeliveryAsked):
            self._take_back(given.call_id, self.state.calls[given.call_id].lost_attempt)
        elif given.hook is HookKind.EFFECT_CHECK:
            for call_id, call in self.state.calls.items():
                if self.state.check_of(call) == given.hook_id:
                    self._take_back(call_id, call.lost_attempt)

    def _take_back(self, call_id: str, attempt: int) -> None:
        """Queue a lost attempt again, or have its call wait for an answer; one that is settled is passed over."""
        if call_id not in self.state.open_calls:
            return
        self.requeued.pop(call_id, None)
        self.parked.pop(call_id, None)
        doubt = self.state.calls[call_id].doubt
        if doubt is None:
            self.requeued[call_id] = Requeue(call_id=call_id, attempt=attempt)
        else:
            self.parked[call_id] = Parked(call_id=call_id, attempt=attempt, state=PARKED[doubt])

    def _take(self, given: Input) -> bool:
        events = self._runtime.runner.step(self.state, given)
        self.recording.extend(events)
        return bool(events)

    def _assign(self) -> None:
        """Set workers aside for the calls that have opened; under a cancel those without one are settled."""
        scopes = self.state.pinned.config.lookup
        for call in self.state.open_calls.values():
            # One with an idempotency key of its own is looked up first: it may have succeeded before.
            if call.call_id in self._known or call.key != call.call_id:
                continue
            function = self.state.pinned.agent.function(call.name)
            version = function.handler_version if function is not None else ""
            size = len(call.arguments.encode())
            reservation = self._dispatcher.reserve(call.name, version, scopes, size)
            if reservation is not None:
                self.reserved[call.call_id] = reservation
        if self.state.cancel is not None:
            self._settle_unheld()

    def _cancelled(self, given: CancelAsked) -> None:
        self._settle_unheld()
        if any(isinstance(command, StopCalls) for command in pending(self.state)):
            at = self._runtime.clock.wall() + given.grace_s
            self._timers.append(TimerRow(turn_id=self.state.turn_id, name=CANCEL_TIMER, at=at))

    def _settle_unheld(self) -> None:
        leases = self._dispatcher.leases
        unheld = tuple(c for c in self.state.open_calls if c not in self.reserved and not leases.holds(c))
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
            TurnState.of(self.state.snapshot(), self.state.pinned).snapshot(), turn_id=turn_id, request_id=""
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
            settles=tuple(self._settle_guards()),
            events=tuple(self.recording.events),
            contents=self.recording.contents,
            calls_opened=tuple(self.opened()),
            calls_settled=settled_rows(self.state, self.recording.answered, self._digests),
            requeues=tuple(self.requeued.values()),
            parked=tuple(self.parked.values()),
            timers_set=() if state.over else tuple(self._timers),
            timers_cleared=cleared,
            inbox_added=tuple(self._carried),
            inbox_consumed=tuple(self._consumed),
        )

    def opened(self) -> list[CallRow]:
        """List the calls that the step opened, as rows: leased, queued, or settled at once."""
        answered = {output.call_id for output in self.recording.answered}
        rows = []
        for call in self.recording.opened:
            reservation = self.reserved.get(call.call_id)
            row = self._waiting_row(call)
            if call.call_id in answered:
                row = replace(row, state=CallState.SETTLED)
            elif reservation is not None:
                row = leased_to(reservation, row)
            rows.append(row)
        return rows

    def taken_back(self) -> list[CallRow]:
        """List the calls that the step queued again."""
        return [self._waiting_row(self.state.calls[call_id].call) for call_id in self.requeued]

    def _waiting_row(self, call: FunctionCall) -> CallRow:
        return waiting_row(self.state, call, self._runtime.clock.wall())

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

    def _settle_guards(self) -> Iterable[SettleGuard]:
        """List the calls that must still be open: all that get an output here, but for results of the inbox.

        Those have settled their calls in the store already. So no output of our own, such as a cancel's, comes
        before a result that was acknowledged meanwhile.
        """
        opened = {call.call_id for call in self.recording.opened}
        for output in self.recording.answered:
            if output.call_id not in opened and output.call_id not in self._unguarded:
                yield self._guards.get(output.call_id, SettleGuard(call_id=output.call_id))
