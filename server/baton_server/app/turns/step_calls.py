"""What one step does to the calls of its turn: which get rows, which are handed out, kept back, taken back, settled.

A call is kept back while a program is asked about it, while as many others run as may at once, or while somebody must
decide about it: then it has a row that no worker gets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.leases import leased_to
from baton_server.app.calls.registry import Reservation
from baton_server.app.runtime import Runtime
from baton_server.app.turns.call_rows import PARKED, kept_back, returned_rows, settled_rows, waiting_row
from baton_server.app.turns.recording import Recording
from baton_server.core.events import ApprovalDecided, Binding, CancelMode
from baton_server.core.inputs import CallSettled
from baton_server.core.state import TurnState
from baton_server.core.tools import AgentTool, FunctionTool
from baton_server.ports.store import CallRow, CallState, Move, Parked, Requeue, Settled, SettleGuard

_NOWHERE = Binding(arguments_digest="", definition_digest="")
"""Where a call is that was not kept back."""


class StepCalls:
    """The calls of a turn in one step. Made before anything is fed; `assign` is called once all is.

    `reserved`: workers set aside for calls that it opened. `parked`: lost attempts after which the call waits for an
    answer. `kept`: calls that are kept back, with what a decision is bound to; None: none is asked for. `opened`: calls
    that it opened, as rows, once the batch has them.
    """

    def __init__(self, runtime: Runtime, dispatcher: Dispatcher, state: TurnState, recording: Recording) -> None:
        self._runtime, self._dispatcher = runtime, dispatcher
        self._state, self._recording = state, recording
        self.reserved: dict[str, Reservation] = {}
        self.parked: dict[str, Parked] = {}
        self.kept: dict[str, Binding | None] = {}
        self._requeued: dict[str, Requeue] = {}
        self._released: list[str] = []
        self.opened: tuple[CallRow, ...] = ()
        self._known = frozenset(state.open_calls)
        self._kept_before = self._kept_back()
        self._guards: dict[str, SettleGuard] = {}
        self._unguarded: set[str] = set()
        self._decided_in_store: set[str] = set()
        self._digests: dict[str, str] = {}

    # -- while the step is fed -------------------------------------------------------------------

    def settled_in_store(self, call_ids: Iterable[str]) -> None:
        """Note calls that a result of the inbox has settled in the store already."""
        self._unguarded.update(call_ids)

    def decided_in_store(self, call_id: str) -> None:
        """Note a call whose own decision came by the inbox."""
        self._decided_in_store.add(call_id)

    def settled_here(self, given: CallSettled, *, doubtful: bool) -> None:
        """Note a result that this process brings, of an attempt that must still be out.

        `doubtful`: of one that everyone waits for, though nobody holds it any more.
        """
        attempt = 0 if doubtful else given.attempt
        self._guards[given.call_id] = SettleGuard(call_id=given.call_id, attempt=attempt)

    def digest(self, given: CallSettled) -> None:
        """Keep the digest of a result, by which it is recognised when it comes again."""
        self._digests[given.call_id] = given.digest

    def in_doubt(self, call_id: str) -> bool:
        """Tell whether a lost attempt of a call may have taken effect."""
        call = self._state.calls.get(call_id)
        return call is not None and call.doubt is not None

    def take_back(self, call_id: str, attempt: int) -> None:
        """Queue a lost attempt again, or have its call wait for an answer; one that is settled is passed over."""
        if call_id not in self._state.open_calls:
            return
        self._requeued.pop(call_id, None)
        self.parked.pop(call_id, None)
        doubt = self._state.calls[call_id].doubt
        if doubt is None:
            self._requeued[call_id] = Requeue(call_id=call_id, attempt=attempt)
        else:
            self.parked[call_id] = Parked(call_id=call_id, attempt=attempt, state=PARKED[doubt])

    def unheld(self) -> tuple[str, ...]:
        """List the open calls that no worker holds or gets."""
        leases = self._dispatcher.leases
        return tuple(one for one in self._state.open_calls if one not in self.reserved and not leases.holds(one))

    def assign(self) -> None:
        """Look which calls are kept back now, and set workers aside for those that have opened and are not."""
        self.look()
        state = self._state
        if state.over or state.cancel is CancelMode.NOW:
            return
        new = [call for call_id, call in state.open_calls.items() if call_id not in self._known]
        for call in new:
            # One with an idempotency key of its own is looked up first: it may have succeeded before.
            if call.key != call.call_id or call.call_id in self.kept:
                continue
            function = state.function(call.call_id)
            version = function.handler_version if function is not None else ""
            size, scopes = len(call.arguments.encode()), state.pinned.config.lookup
            reservation = self._dispatcher.reserve(call.name, version, scopes, size)
            if reservation is not None:
                self.reserved[call.call_id] = reservation

    def look(self) -> None:
        """Look which calls are kept back now."""
        self.kept = {} if self._state.over else self._kept_back()

    def release(self) -> None:
        """Note which calls are kept back no more, once nothing is fed any more."""
        if self._state.cancel is not CancelMode.NOW:
            self._released = [one for one in self._kept_before if one not in self.kept and self._is_handed_out(one)]

    # -- what is written -------------------------------------------------------------------------

    def open(self) -> tuple[CallRow, ...]:
        """List the calls that the step opened, as rows: leased, queued, kept back, or settled at once."""
        self.opened = tuple(self._opened_row(call_id) for call_id in self._new_calls())
        return self.opened

    def _new_calls(self) -> list[str]:
        """List the calls that get a row: of functions, and what else waits for a decision now."""
        made = [call.call_id for call in self._recording.opened if self._state.function(call.call_id) is not None]
        known = {*self._known, *made}
        return [*made, *(one for one in self._state.open_calls if one not in known)]

    def _opened_row(self, call_id: str) -> CallRow:
        reservation = self.reserved.get(call_id)
        row = self._waiting_row(call_id)
        if call_id not in self._state.open_calls:
            return replace(row, state=CallState.SETTLED)
        if call_id in self.kept:
            return kept_back(row, self.kept[call_id], self._expires(call_id), self._runtime.clock.wall())
        return row if reservation is None else leased_to(reservation, row)

    def moves(self) -> Iterable[Move]:
        """Say where calls go that were kept back before, or are now."""
        for call_id in self._released:
            yield Move(call_id=call_id, state=CallState.QUEUED)
        for call_id, binding in self.kept.items():
            if call_id not in self._known or self._kept_before.get(call_id, _NOWHERE) == binding:
                continue
            row = kept_back(self._waiting_row(call_id), binding, self._expires(call_id), self._runtime.clock.wall())
            yield Move(
                call_id=call_id,
                state=row.state,
                arguments_digest=row.arguments_digest,
                definition_digest=row.definition_digest,
                decide_by=row.decide_by,
            )

    def asked(self) -> list[CallRow]:
        """List the calls that wait for a decision from this step on, with the time until which they do."""
        new = {row.call_id: row for row in self.opened}
        return [
            new.get(call_id) or self._awaiting_row(call_id)
            for call_id, binding in self.kept.items()
            if binding is not None and self._kept_before.get(call_id) is None
        ]

    def decided(self) -> list[str]:
        """List the calls that wait for a decision no more."""
        return [one for one, binding in self._kept_before.items() if binding is not None and not self.kept.get(one)]

    def _awaiting_row(self, call_id: str) -> CallRow:
        return kept_back(
            self._waiting_row(call_id), self.kept[call_id], self._expires(call_id), self._runtime.clock.wall()
        )

    def _expires(self, call_id: str) -> float | None:
        tool = self._state.tool(self._state.calls[call_id])
        return tool.approval.expires_s if isinstance(tool, FunctionTool | AgentTool) else None

    def settled(self) -> tuple[Settled, ...]:
        """Say which calls are settled: by their outputs, by what they gave, or since nobody must decide any more."""
        outputs = settled_rows(self._state, self._recording.answered, self._digests)
        told = {output.call_id for output in self._recording.answered}
        returned = [one for one in self._recording.returned if one.call_id not in told]
        decided = [
            one
            for one in self._kept_before
            if one not in self._state.open_calls and one not in told and self._state.function(one) is None
        ]
        done = {one.call_id for one in returned}
        left = tuple(Settled(call_id=one) for one in decided if one not in done)
        return (*outputs, *returned_rows(returned, self._digests), *left)

    def taken_back(self) -> list[CallRow]:
        """List the calls that the step queued, again or since nothing keeps them back any more."""
        return [self._waiting_row(call_id) for call_id in (*self._requeued, *self._released)]

    def _waiting_row(self, call_id: str) -> CallRow:
        return waiting_row(self._state, self._state.calls[call_id].call, self._runtime.clock.wall())

    def guards(self) -> Iterable[SettleGuard]:
        """List the calls that must still be open: all that get an output here, but for results of the inbox.

        Those have settled their calls in the store already. So no output of our own, such as a cancel's, comes
        before a result that was acknowledged meanwhile; nor does a decision that nobody made about this very call, such
        as the end of its time, come before one that was.
        """
        for call_id in self._decided_unasked():
            self._guards[call_id] = guard = SettleGuard(call_id=call_id, state=CallState.AWAITING_DECISION)
            yield guard
        returned = [one.call_id for one in self._recording.returned]
        told = [
            one.call_id
            for one in self._recording.answered
            if self._state.calls[one.call_id].returned is None  # else its guard was that of what it gave
        ]
        for call_id in dict.fromkeys((*returned, *told)):
            if call_id in self._known and call_id not in self._unguarded:
                yield self._guards.get(call_id, SettleGuard(call_id=call_id))

    def _decided_unasked(self) -> list[str]:
        """List the calls that waited for a decision and got one, not by their own row of the inbox."""
        bodies = [event.body for event in self._recording.bodies]
        decided = [body.decision.call_id for body in bodies if isinstance(body, ApprovalDecided)]
        own = self._decided_in_store | self._unguarded
        return [one for one in decided if one not in own and self._kept_before.get(one) is not None]

    def requeues(self) -> tuple[Requeue, ...]:
        """List the lost attempts that are queued again."""
        return tuple(self._requeued.values())

    # -- inside ----------------------------------------------------------------------------------

    def _kept_back(self) -> dict[str, Binding | None]:
        """List the open calls that are not handed out, with what a decision is bound to; None: none is asked for."""
        state = self._state
        waits: dict[str, Binding | None] = {
            one: call.awaiting for one, call in state.open_calls.items() if call.awaiting is not None
        }
        return waits | dict.fromkeys(self._runtime.runner.held(state)) if state.open_calls else waits

    def _is_handed_out(self, call_id: str) -> bool:
        return call_id in self._state.open_calls and self._state.function(call_id) is not None
