"""Driving: `advance(turn_id)` loads, feeds, commits, performs. One task per turn at a time sees to that.

A turn's state is its events. What this process keeps of it is what its own last commit left, and the version
proves it: after a Conflict it is dropped, loaded and fed again. What a state owes is asked of
`commands.pending`, so that a first pass and a recovery after a crash take one path.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.frames import CancelReason
from baton_server.app.calls.hooks import Hooks
from baton_server.app.publish import publish
from baton_server.app.runtime import Runtime
from baton_server.app.turns.asking import Asking
from baton_server.app.turns.hooking import Filters, Hooking
from baton_server.app.turns.loading import Loading
from baton_server.app.turns.step import CANCEL_TIMER, Following, Gathered, Step
from baton_server.app.turns.telling import Telling
from baton_server.app.turns.turn import Driven, Glimpse, Mail, started_row
from baton_server.core.commands import AskGuardrails, CallModel, CheckEffect, StopCalls, pending
from baton_server.core.events import TERMINAL, CancelMode, TurnStatus
from baton_server.core.inputs import CallSettled, GraceOver, Input, Steered
from baton_server.core.items import Settlement
from baton_server.core.state import Phase, TurnState
from baton_server.ports.bus import Part
from baton_server.ports.engine import Engine
from baton_server.ports.observer import Observer
from baton_server.ports.store import Committed, Conflict, InboxRow, StoreUnavailable, TurnRow

log = structlog.get_logger(__name__)

MAX_CONFLICTS = 20
"""In a row, before a turn takes a pause: each means that another writer got through meanwhile."""

MAX_FAULTS = 5
"""Faults of ours in a row with what has come for a turn, before the turn is ended with INTERNAL."""


class Driver:
    """Drives turns. `engine` and `dispatcher` are given after it is made, since they need it too."""

    engine: Engine
    dispatcher: Dispatcher

    def __init__(self, runtime: Runtime, observer: Observer, hooks: Hooks) -> None:
        self._runtime, self._observer = runtime, observer
        self._turns: dict[str, Driven] = {}
        self.loading = Loading(runtime)
        self._calm = asyncio.Event()
        self.draining = False
        self._filters = Filters(runtime, hooks, self.feed)
        self._asking = Asking(runtime, self._filters, self.feed)
        self._hooking = Hooking(runtime, hooks, self._asking.history, self.feed)
        self._telling = Telling(hooks, runtime.ids)

    # -- what others tell it ---------------------------------------------------------------------

    def feed(self, turn_id: str, given: Input) -> asyncio.Future[bool]:
        """Bring an input to a turn. The future tells, once that is on disk, whether it counted."""
        counted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._driven(turn_id).mailbox.append(Mail(given=given, counted=counted))
        self.engine.wake(turn_id)
        return counted

    def look(self, turn_id: str) -> None:
        """Have the inbox of a turn read: a row was written."""
        self._driven(turn_id).look = True
        self.engine.wake(turn_id)

    def adopt(self, state: TurnState, row: TurnRow, done: Committed, *, new_session: bool = False) -> None:
        """Drive on a turn that this process has just accepted and begun, with no other one queued.

        `new_session`: made in the same commit, so that there is no history to read.
        """
        self._turns[row.turn_id] = Driven(
            turn_id=row.turn_id,
            state=state,
            row=started_row(replace(row, version=done.turn_version), done),
            session_version=done.session_version,
            look=False,
            history=[] if new_session else None,
        )
        self._turns[row.turn_id].stands(self._runtime.clock.monotonic())
        self._telling.began(state)
        self.engine.wake(row.turn_id)

    def peek(self, turn_id: str) -> Glimpse | None:
        """Look at a turn that is driven here, as its last commit left it; None: ask the store."""
        driven = self._turns.get(turn_id)
        if driven is None or driven.row is None or driven.state is None:
            return None
        return Glimpse(
            session_id=driven.row.session_id,
            status=driven.row.status,
            open_names=driven.open_names,
            config=driven.state.pinned.config,
            since=driven.since,
            created_at=driven.row.created_at,
        )

    def working(self, turn_id: str) -> bool:
        """Tell whether something has come for a turn that is not on disk yet, as its events: it does not rest."""
        driven = self._turns.get(turn_id)
        return driven is not None and driven.working

    def round_of(self, turn_id: str) -> int:
        """Say in which round a turn is that is driven here; 0: it is not."""
        driven = self._turns.get(turn_id)
        return 0 if driven is None or driven.state is None else driven.state.rounds

    def resets(self, session_id: str, turn_id: str) -> list[Part]:
        """Make the resets that a newcomer needs for what is being written; empty turn_id: all turns."""
        return [
            driven.live.reset("ATTACHED")
            for driven in self._turns.values()
            if driven.live is not None
            and driven.state is not None
            and driven.state.session_id == session_id
            and turn_id in ("", driven.turn_id)
        ]

    async def quiet(self) -> None:
        """Wait, while draining, until no model request is under way and no attached worker holds a call."""
        while self._busy():
            self._calm.clear()
            await self._calm.wait()

    def _busy(self) -> bool:
        asking = any(driven.asking or driven.mailbox for driven in self._turns.values())
        held_by = (lease.worker for _, lease in self.dispatcher.leases)
        return asking or any(worker is not None and worker.lost_at is None for worker in held_by)

    def eased(self) -> None:
        """Have `quiet` look again: less may go on than before."""
        self._calm.set()

    def stop(self) -> None:
        """Stop what goes on for every turn; nothing of it is lost."""
        for driven in self._turns.values():
            driven.let_go()

    # -- advance ---------------------------------------------------------------------------------

    async def advance(self, turn_id: str) -> None:
        """Feed a turn what has come, commit, and perform what it owes then. Raises StoreUnavailable."""
        driven = self._driven(turn_id)
        driven.stepping = True
        try:
            await self._settle(driven)
        finally:
            driven.stepping = False
        state = driven.state
        if state is None or state.over:
            self._end(driven)
        else:
            await self._perform(driven, state)
        self.eased()
        if driven.row is not None and driven.row.status is not TurnStatus.IN_PROGRESS:
            self._runtime.bus.publish(driven.row.session_id, ())  # it may rest: who waits for that looks again

    async def _settle(self, driven: Driven) -> None:
        """Load, feed and commit until there is nothing more to feed. Raises Conflict after many in a row."""
        tries = 0
        while driven.state is not None or await self._load(driven):
            try:
                if not await self._step(driven):
                    return
                tries = 0
            except Conflict as conflict:
                tries += 1
                log.info("another writer was faster", turn_id=driven.turn_id, conflict=str(conflict))
                if tries >= MAX_CONFLICTS:
                    raise

    async def _step(self, driven: Driven) -> bool:
        """Feed and commit once; False: there was nothing to feed.

        First everything is read, which changes nothing; then it is fed, and what follows is committed. Whatever
        fails until that is on disk is undone: the mail is put back, and the state is loaded again.
        """
        state = driven.state
        if state is None or state.over:
            return False
        gathered = await self._gather(driven, state)
        mailbox, driven.mailbox = driven.mailbox, []
        step = Step(self._runtime, self.dispatcher, driven, state)
        try:
            step.feed(gathered, mailbox)
            if step.idle:
                driven.mailbox[:0] = step.held
                self._queue_again(step)
                self._answer(step)
                return False
            if state.over:
                step.end(await self._following(driven))
            done = await self._runtime.store.commit(step.batch())
        except BaseException as error:
            self._undo(driven, step, mailbox, error)
            raise
        driven.faults = 0
        self._committed(driven, step, done)
        return True

    async def _gather(self, driven: Driven, state: TurnState) -> Gathered:
        """Read what has come: rows of the inbox where there may be new ones, and whether a queued turn may begin."""
        look, driven.look = driven.look, False
        try:
            if driven.faults >= MAX_FAULTS:
                unread = await self._runtime.store.inbox.rows(driven.turn_id)
                return Gathered(broken=True, unread=unread)
            fed, messages = await self._rows(driven) if look else ([], driven.waiting)
            begins = state.phase is Phase.QUEUED and await self._is_active(driven, state)
        except BaseException as error:
            driven.look = True
            self._count_fault(driven, error)
            raise
        driven.waiting = messages
        return Gathered(rows=fed, messages=messages, begins=begins, takes_messages=not driven.asking)

    async def _rows(self, driven: Driven) -> tuple[list[tuple[InboxRow, Input]], list[tuple[InboxRow, Steered]]]:
        """Read what is new in the inbox: what is fed at once, and messages, which wait until a request can take them.

        What was read before and is still there are messages.
        """
        fed: list[tuple[InboxRow, Input]] = []
        messages = list(driven.waiting)
        last = messages[-1][0].n if messages else 0
        for row in await self._runtime.store.inbox.rows(driven.turn_id, last):
            given = self._runtime.codec.read_input(row.data)
            if isinstance(given, Steered):
                messages.append((row, given))
            else:
                fed.append((row, given))
        # Results were acknowledged as settling their calls, so a cancel beside them must not settle these first.
        return sorted(fed, key=lambda one: not isinstance(one[1], CallSettled)), messages

    async def _is_active(self, driven: Driven, state: TurnState) -> bool:
        session = await self._runtime.store.sessions.get(state.session_id)
        return session is not None and session.active_turn_id == driven.turn_id

    async def _following(self, driven: Driven) -> Following:
        """Find out what comes after a turn that ends."""
        if driven.session_version is not None or driven.row is None:
            return Following(session_version=driven.session_version, active=True, queued="")
        session_id = driven.row.session_id
        session = await self._runtime.store.sessions.get(session_id)
        waiting = await self._runtime.store.turns.queued(session_id)
        return Following(
            session_version=session.version if session is not None else None,
            active=session is None or session.active_turn_id == driven.turn_id,
            queued=next((row.turn_id for row in waiting if row.turn_id != driven.turn_id), ""),
        )

    def _count_fault(self, driven: Driven, error: BaseException) -> None:
        """Count a fault of ours; that the store is away, or that another was faster, is none."""
        if not isinstance(error, Conflict | StoreUnavailable | asyncio.CancelledError):
            driven.faults += 1

    def _undo(self, driven: Driven, step: Step, mailbox: list[Mail], error: BaseException) -> None:
        for reservation in step.reserved.values():
            self.dispatcher.release(reservation)
        driven.mailbox[:0] = mailbox
        driven.drop()
        if isinstance(error, StoreUnavailable):  # it may be on disk all the same
            driven.in_doubt += tuple(call.call_id for call in step.recording.opened)
        self._count_fault(driven, error)

    def _committed(self, driven: Driven, step: Step, done: Committed) -> None:
        """Tell everyone what is on disk now."""
        driven.row = replace(step.new_row, version=done.turn_version)
        if step.started:
            driven.row = started_row(driven.row, done)
        driven.waiting = step.left
        driven.mailbox[:0] = step.held
        driven.stands(self._runtime.clock.monotonic())
        before: list[Part] = []
        if step.replied and driven.live is not None:
            before, driven.live = driven.live.held_back(), None
        publish(self._runtime, step.row.session_id, step.recording, done, before)
        self._hand_out(step)
        for output in step.recording.answered:
            self.dispatcher.forget(output.call_id, output.attempt, _reason(step.state, output.settlement))
        for call_id in step.parked:
            self.dispatcher.parked(call_id)
        self._queue_again(step)
        self._telling.events(step.state, step.recording.bodies)
        self._answer(step)
        driven.look = driven.look or done.inbox_left > len(driven.waiting)
        if step.state.over:
            self._over(driven, step, done)

    def _hand_out(self, step: Step) -> None:
        """Give the calls that a step opened to the workers set aside for them, or have them wait for any."""
        for call in step.opened():
            reservation = step.reserved.get(call.call_id)
            if call.call_id not in step.state.open_calls:
                continue
            self.dispatcher.opened(call)
            if reservation is not None:
                self.dispatcher.deliver(call, reservation)
            else:
                self.dispatcher.wait_for_worker(call)

    def _over(self, driven: Driven, step: Step, done: Committed) -> None:
        if step.next_turn_id:
            self.look(step.next_turn_id)
        row = driven.row
        started = row.started_at if row is not None and row.started_at is not None else done.at
        try:
            self._observer.turn_ended(step.state.snapshot(), step.state.pinned, started, done.at)
        except Exception:
            log.exception("the observer failed; the turn is over all the same", turn_id=driven.turn_id)

    def _queue_again(self, step: Step) -> None:
        """Have calls wait whose attempts were lost.

        An idle step has them too, where an earlier one took them back by a commit that was reported as failed.
        """
        for call in step.taken_back():
            self.dispatcher.wait_for_worker(call)

    def _answer(self, step: Step) -> None:
        for mail, counted in step.answers:
            mail.answer(counted)

    # -- performing ------------------------------------------------------------------------------

    async def _perform(self, driven: Driven, state: TurnState) -> None:
        """Begin what the state owes and does not get yet. Calls are the dispatcher's from their commit on."""
        for command in pending(state):
            if isinstance(command, CallModel) and not driven.asking and not self.draining:
                self._telling.model_start(state, command.round)
                self._asking.begin(driven, state, command.round)
            elif isinstance(command, StopCalls) and driven.grace is None:
                await self._stop_calls(driven, command)
            elif isinstance(command, AskGuardrails | CheckEffect) and command.key not in driven.hooks:
                self._hooking.begin(driven, state, command)

    async def _stop_calls(self, driven: Driven, command: StopCalls) -> None:
        timers = await self._runtime.store.timers.all()
        at = next((t.at for t in timers if (t.turn_id, t.name) == (driven.turn_id, CANCEL_TIMER)), 0.0)
        left = max(0.0, at - self._runtime.clock.wall())
        self.dispatcher.stop(command.call_ids, left)
        driven.grace = asyncio.ensure_future(self._end_grace(driven.turn_id, left))

    async def _end_grace(self, turn_id: str, left_s: float) -> None:
        await self._runtime.clock.sleep(left_s)
        self.feed(turn_id, GraceOver())

    # -- loading ---------------------------------------------------------------------------------

    async def _load(self, driven: Driven) -> bool:
        """Rebuild the state from the log; False: the turn is over, or gone."""
        row = await self._runtime.store.turns.get(driven.turn_id)
        if row is None or (row.status in TERMINAL and not driven.in_doubt):
            return False
        state = await self.loading.read(row)
        for call_id in driven.in_doubt:
            call = await self._runtime.store.calls.get(call_id)
            if call is not None:
                self.dispatcher.take_on(call)
        driven.in_doubt = ()
        driven.state, driven.row, driven.loaded = state, row, True
        driven.stands(self._runtime.clock.monotonic())
        return not state.over

    # -- the table -------------------------------------------------------------------------------

    def _driven(self, turn_id: str) -> Driven:
        if turn_id not in self._turns:
            self._turns[turn_id] = Driven(turn_id=turn_id)
        return self._turns[turn_id]

    def _end(self, driven: Driven) -> None:
        """Let go of a turn that is over; what still came for it came too late."""
        row, state = driven.row, driven.state
        if row is not None and state is not None and self._runtime.bus.heard(row.session_id):
            self.loading.keep(row, state)
        driven.let_go()
        for mail in driven.mailbox:
            mail.answer(False)
        driven.mailbox.clear()
        self._turns.pop(driven.turn_id, None)


_REASONS = {Settlement.TIMEOUT: CancelReason.TIMEOUT, Settlement.EXPIRED: CancelReason.EXPIRED}


def _reason(state: TurnState, settlement: Settlement | None) -> CancelReason:
    """Say why a worker that still works on a call is to stop, now that it is settled."""
    if state.cancel is CancelMode.NOW or settlement is Settlement.CANCELLED:
        return CancelReason.TURN_ENDED
    return _REASONS.get(settlement, CancelReason.SETTLED_ELSEWHERE) if settlement else CancelReason.SETTLED_ELSEWHERE
