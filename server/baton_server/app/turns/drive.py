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
from baton_server.app.turns import beside
from baton_server.app.turns.asking import Asking
from baton_server.app.turns.carrying import Carried, carried
from baton_server.app.turns.gathering import Gathering, count_fault
from baton_server.app.turns.granting import Granting
from baton_server.app.turns.hooking import Hooking
from baton_server.app.turns.loading import Loading
from baton_server.app.turns.step import CANCEL_TIMER, Step
from baton_server.app.turns.telling import Telling
from baton_server.app.turns.turn import Driven, Glimpse, Mail, RunPath, started_row
from baton_server.core.commands import CallModel, CheckEffect, StopCalls
from baton_server.core.events import TERMINAL, CancelMode, TurnStatus
from baton_server.core.hooks.question import Question
from baton_server.core.inputs import GraceOver, Input
from baton_server.core.items import Settlement, Usage
from baton_server.core.state import TurnState
from baton_server.ports.bus import Part
from baton_server.ports.engine import Engine
from baton_server.ports.observer import Observer
from baton_server.ports.store import Committed, Conflict, StoreUnavailable, TurnRow

log = structlog.get_logger(__name__)

MAX_CONFLICTS = 20
"""In a row, before a turn takes a pause: each means that another writer got through meanwhile."""


class Driver:
    """Drives turns. `engine` and `dispatcher` are given after it is made, since they need it too."""

    engine: Engine
    dispatcher: Dispatcher

    def __init__(self, runtime: Runtime, observer: Observer, hooks: Hooks) -> None:
        self._runtime, self._observer = runtime, observer
        self._turns: dict[str, Driven] = {}
        self.loading = Loading(runtime)
        self._gathering = Gathering(runtime)
        self._calm = asyncio.Event()
        self.draining = False
        self._asking = Asking(runtime, self.feed)
        self._hooking = self._asking.hooking = Hooking(runtime, hooks, self._asking.history, self.feed)
        self._granting = Granting(runtime, self.feed)
        self._telling = Telling(hooks, runtime.ids)

    # -- what others tell it ---------------------------------------------------------------------

    def feed(self, turn_id: str, given: Input) -> asyncio.Future[bool]:
        """Bring an input to a turn. The future tells, once that is on disk, whether it counted."""
        counted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        driven = self._driven(turn_id)
        driven.mailbox.append(Mail(given=given, counted=counted))
        driven.came.set()
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
        if row.turn_id in self._turns:  # who sent the same request found it on disk first, and it is driven already
            self.engine.wake(row.turn_id)
            return
        self._turns[row.turn_id] = Driven(
            turn_id=row.turn_id,
            state=state,
            row=started_row(replace(row, version=done.turn_version), done),
            session_version=done.session_version,
            look=False,
            history=[] if new_session else None,
            last_sequence=done.last_sequence,
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
            last_sequence=driven.last_sequence,
        )

    def working(self, turn_id: str) -> bool:
        """Tell whether something has come for a turn that is not on disk yet, as its events: it does not rest."""
        driven = self._turns.get(turn_id)
        return driven is not None and driven.working

    def where_is(self, turn_id: str, call_id: str) -> tuple[RunPath, int]:
        """Say in which run and round a call was made, of a turn that is driven here; round 0: it is not."""
        driven = self._turns.get(turn_id)
        state = None if driven is None else driven.state
        call = None if state is None else state.calls.get(call_id)
        run = None if state is None or call is None else state.runs.get(call.run_path)
        return ((), 0) if run is None else (run.path, run.rounds)

    def usage_of(self, turn_id: str) -> Usage | None:
        """Say what a turn that is driven here has used so far; None: it is not."""
        driven = self._turns.get(turn_id)
        return None if driven is None or driven.state is None else driven.state.usage

    def resets(self, session_id: str, turn_id: str) -> list[Part]:
        """Make the resets that a newcomer needs for what is being written; empty turn_id: all turns."""
        return [
            under_way.live.reset("ATTACHED")
            for driven in self._turns.values()
            if driven.state is not None and driven.state.session_id == session_id and turn_id in ("", driven.turn_id)
            for under_way in driven.requests.values()
        ]

    async def carried(self, row: TurnRow) -> Carried:
        """Say what a turn that goes on from an ended one takes from it."""
        return await carried(self._runtime, await self.loading.read(row), row)

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
                if not await self._step(driven) and not await self._granting.look(driven):
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
        await beside.come(driven, state, self.dispatcher.leases)
        gathered = await self._gathering.come(driven, state)
        if gathered.nothing and not driven.mailbox:
            return False
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
                step.end(await self._gathering.following(driven))
            done = await self._runtime.store.commit(step.batch())
        except BaseException as error:
            self._undo(driven, step, mailbox, error)
            raise
        driven.faults = 0
        self._committed(driven, step, done)
        return True

    def _undo(self, driven: Driven, step: Step, mailbox: list[Mail], error: BaseException) -> None:
        for reservation in step.calls.reserved.values():
            self.dispatcher.release(reservation)
        driven.mailbox[:0] = mailbox
        driven.drop()
        if isinstance(error, StoreUnavailable):  # it may be on disk all the same
            driven.in_doubt += tuple(call.call_id for call in step.recording.opened)
        count_fault(driven, error)

    def _committed(self, driven: Driven, step: Step, done: Committed) -> None:
        """Tell everyone what is on disk now."""
        driven.row = replace(step.new_row, version=done.turn_version)
        if step.started:
            driven.row = started_row(driven.row, done)
        driven.last_sequence = done.last_sequence
        driven.waiting = step.left
        driven.mailbox[:0] = step.held
        driven.stands(self._runtime.clock.monotonic(), step.calls.kept)
        before: list[Part] = []
        for run_path in step.replied:
            under_way = driven.requests.pop(run_path, None)
            before += [] if under_way is None else under_way.live.held_back()
        publish(self._runtime, step.row.session_id, step.recording, done, before, step.state.pinned)
        self._hand_out(step)
        for came in step.recording.returned:
            self.dispatcher.forget(came.call_id, came.attempt, _reason(step.state, came.settlement))
        for output in step.recording.answered:
            self.dispatcher.forget(output.call_id, output.attempt, _reason(step.state, output.settlement))
        self._ask_for_decisions(step)
        for call_id in step.calls.parked:
            self.dispatcher.parked(call_id)
        self._queue_again(step)
        self._telling.events(step.state, step.recording.bodies)
        self._answer(step)
        driven.look = driven.look or done.inbox_left > len(driven.waiting)
        if step.state.over:
            self._over(step)

    def _hand_out(self, step: Step) -> None:
        """Give the calls that a step opened to the workers set aside for them, or have them wait for any."""
        for call in step.calls.opened:
            reservation = step.calls.reserved.get(call.call_id)
            if call.call_id not in step.state.open_calls:
                continue
            self.dispatcher.opened(call)
            if reservation is not None:
                self.dispatcher.deliver(call, reservation)
            elif call.call_id not in step.calls.kept:
                self.dispatcher.wait_for_worker(call)

    def _ask_for_decisions(self, step: Step) -> None:
        """Set and clear the clocks of decisions."""
        for row in step.calls.asked():
            self.dispatcher.asked(row)
        for call_id in step.calls.decided():
            self.dispatcher.decided(call_id)

    def _over(self, step: Step) -> None:
        if step.next_turn_id:
            self.look(step.next_turn_id)

    def _queue_again(self, step: Step) -> None:
        """Have calls wait whose attempts were lost.

        An idle step has them too, where an earlier one took them back by a commit that was reported as failed.
        """
        for call in step.calls.taken_back():
            self.dispatcher.wait_for_worker(call)

    def _answer(self, step: Step) -> None:
        for mail, counted in step.answers:
            mail.answer(counted)

    # -- performing ------------------------------------------------------------------------------

    async def _perform(self, driven: Driven, state: TurnState) -> None:
        """Begin what the state owes and does not get yet. Calls are the dispatcher's from their commit on."""
        owed = self._runtime.runner.pending(state)
        self._hooking.ask(driven, state, [one for one in owed if isinstance(one, Question)])
        driven.stop_requests({one.run_path for one in owed if isinstance(one, CallModel)})
        for command in owed:
            if isinstance(command, CallModel) and not driven.asks(command.run_path) and not self.draining:
                self._telling.model_start(state, command)
                self._asking.begin(driven, state, command)
            elif isinstance(command, StopCalls) and driven.grace is None:
                await self._stop_calls(driven, command)
            elif isinstance(command, CheckEffect):
                self._hooking.check(driven, state, command)

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
        driven.stands(self._runtime.clock.monotonic(), self._runtime.runner.held(state))
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
        self._observer.left(driven.turn_id)


_REASONS = {Settlement.TIMEOUT: CancelReason.TIMEOUT, Settlement.EXPIRED: CancelReason.EXPIRED}


def _reason(state: TurnState, settlement: Settlement | None) -> CancelReason:
    """Say why a worker that still works on a call is to stop, now that it is settled."""
    if state.cancel is CancelMode.NOW or settlement is Settlement.CANCELLED:
        return CancelReason.TURN_ENDED
    return _REASONS.get(settlement, CancelReason.SETTLED_ELSEWHERE) if settlement else CancelReason.SETTLED_ELSEWHERE
