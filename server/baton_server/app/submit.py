"""SubmitInput: a batch of messages, results, decisions and cancels, all of it on disk when it is answered, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from baton_server.app.calls.frames import CancelReason
from baton_server.app.continuing import Continuing
from baton_server.app.decisions import Decisions
from baton_server.app.outcomes import IfBusy, Submitted, read_submitted, write_submitted
from baton_server.app.plan import Judges, Plan
from baton_server.app.publish import publish
from baton_server.app.requests import Request, once
from baton_server.app.runtime import Runtime
from baton_server.app.turns.accept import Acceptance
from baton_server.app.turns.drive import Driver
from baton_server.app.turns.steering import Steering
from baton_server.app.watch import gone
from baton_server.core.errors import BatonError
from baton_server.core.events import CancelMode
from baton_server.core.inputs import CancelAsked
from baton_server.core.submissions import CancelOf, Submission
from baton_server.ports.store import StoreUnavailable

log = structlog.get_logger(__name__)


class Submissions:
    """Takes batches of inputs."""

    def __init__(self, runtime: Runtime, acceptance: Acceptance, driver: Driver) -> None:
        self._runtime, self._driver = runtime, driver
        self._abandoning: set[asyncio.Task[None]] = set()
        self._steering = Steering(runtime)
        self._judges = Judges(
            acceptance=acceptance,
            decisions=Decisions(runtime, driver.loading),
            continuing=Continuing(runtime, driver),
        )

    def abandon(self, session_id: str, turn_id: str) -> None:
        """Cancel the turn of a caller who went away and had asked for that. Never waits.

        While the server drains it is the server that goes: then the turn is left to the next process.
        """
        if self._driver.draining:
            return
        task = asyncio.ensure_future(self._abandon(session_id, turn_id))
        self._abandoning.add(task)
        task.add_done_callback(self._abandoning.discard)

    async def _abandon(self, session_id: str, turn_id: str) -> None:
        request = Request(rpc="Abandon", session_id=session_id, request_id=turn_id, digest="")
        asked = CancelAsked(mode=CancelMode.NOW, reason="the caller went away")
        try:
            await self.submit(request, session_id, (CancelOf(turn_id=turn_id, asked=asked),), IfBusy.STEER)
        except (BatonError, StoreUnavailable) as error:
            log.warning("the turn of a caller who went away goes on", turn_id=turn_id, error=str(error))

    async def submit(
        self, request: Request, session_id: str, inputs: Sequence[Submission], if_busy: IfBusy
    ) -> Submitted:
        """Put a batch into a session.

        Raises Refused(SESSION_NOT_FOUND, SESSION_BUSY, AWAITING_DECISION, AGENT_MISSING, FUNCTION_UNDECLARED,
        TURN_NOT_FOUND, CALL_NOT_FOUND, CALL_STATE, APPROVAL_STALE, HISTORY_MIXED, TURN_NOT_CONTINUABLE); then nothing
        of the batch was taken.
        """

        async def attempt() -> Submitted:
            session = await self._runtime.store.sessions.get(session_id)
            if session is None:
                raise gone(session_id)
            plan = Plan(self._runtime, self._judges, session, request, if_busy)
            for given in inputs:
                await plan.add(given)
            await plan.finish()
            answer = plan.answer()
            async with self._steering.room_for(plan.steered):
                done = await self._runtime.store.commit(plan.batch(write_submitted(answer)))
            pinned = None if plan.new_turn is None else plan.new_turn.state.pinned
            publish(self._runtime, session_id, plan.recording, done, pinned=pinned)
            if plan.new_turn is not None and plan.started:
                self._driver.adopt(plan.new_turn.state, plan.new_turn.row, done)
            for call_id in plan.settled_calls:
                self._driver.dispatcher.forget(call_id, 0, CancelReason.SETTLED_ELSEWHERE)
            for key, failure in plan.discarded:
                self._runtime.discarded.put(key, failure)
            for turn_id in plan.touched:
                self._driver.look(turn_id)
            return answer

        async def again(answer: Mapping[str, Any]) -> Submitted:
            first = read_submitted(answer)
            for turn_id in {outcome.turn_id for outcome in first.outcomes}:
                self._driver.look(turn_id)  # the commit may have been reported as failed, and be on disk
            return first

        return await once(self._runtime, request, attempt, again)
