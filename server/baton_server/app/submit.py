"""SubmitInput: a batch of messages, results and cancels, all of it on disk when it is answered, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import structlog

from baton_server.app.calls.frames import CancelReason
from baton_server.app.calls.late import stale
from baton_server.app.publish import publish
from baton_server.app.requests import Request, once
from baton_server.app.runtime import ResultKey, Runtime
from baton_server.app.turns.accept import Acceptance, NewTurn, TurnRequest
from baton_server.app.turns.drive import Driver
from baton_server.app.turns.recording import Recording
from baton_server.app.turns.steering import Steering
from baton_server.app.watch import gone, turn_not_found
from baton_server.core.agents import RunConfig
from baton_server.core.errors import BatonError, Failure, Reason, refuse
from baton_server.core.events import TERMINAL, CancelMode, ResultDiscarded
from baton_server.core.inputs import CallSettled, CancelAsked, NewItem, Steered
from baton_server.core.submissions import CancelOf, NewMessages, RedeliveryOf, ResultFor, Submission
from baton_server.ports.store import (
    Batch,
    CallRow,
    CallState,
    InboxRow,
    SessionRow,
    SessionWrite,
    Settled,
    SettleGuard,
    StoreUnavailable,
)

log = structlog.get_logger(__name__)


class IfBusy(StrEnum):
    """What a message does while a turn runs: `baton.v1.IfBusy`."""

    STEER = "STEER"
    QUEUE = "QUEUE"
    REJECT = "REJECT"


class InputStatus(StrEnum):
    """What became of one input: `baton.v1.InputStatus`."""

    STARTED = "STARTED"
    QUEUED = "QUEUED"
    STEERED = "STEERED"
    SETTLED = "SETTLED"
    DISCARDED = "DISCARDED"
    DUPLICATE = "DUPLICATE"
    CANCELLING = "CANCELLING"
    ALREADY_ENDED = "ALREADY_ENDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one input. `failure`: what came before a result that was DISCARDED or a DUPLICATE."""

    status: InputStatus
    turn_id: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The answer: `baton.v1.SubmitInputResponse`. `turn_id` empty: the batch held no message."""

    turn_id: str
    sequence: int
    outcomes: tuple[Outcome, ...]


class Submissions:
    """Takes batches of inputs."""

    def __init__(self, runtime: Runtime, acceptance: Acceptance, driver: Driver) -> None:
        self._runtime, self._acceptance, self._driver = runtime, acceptance, driver
        self._abandoning: set[asyncio.Task[None]] = set()
        self._steering = Steering(runtime)

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

        Raises Refused(SESSION_NOT_FOUND, SESSION_BUSY, AGENT_MISSING, FUNCTION_UNDECLARED, TURN_NOT_FOUND,
        CALL_NOT_FOUND); then nothing of the batch was taken.
        """

        async def attempt() -> Submitted:
            session = await self._runtime.store.sessions.get(session_id)
            if session is None:
                raise gone(session_id)
            plan = _Plan(self._runtime, self._acceptance, session, request, if_busy)
            for given in inputs:
                await plan.add(given)
            await plan.finish()
            answer = plan.answer()
            async with self._steering.room_for(plan.steered):
                done = await self._runtime.store.commit(plan.batch(_written(answer)))
            publish(self._runtime, session_id, plan.recording, done)
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
            first = _read(answer)
            for turn_id in {outcome.turn_id for outcome in first.outcomes}:
                self._driver.look(turn_id)  # the commit may have been reported as failed, and be on disk
            return first

        return await once(self._runtime, request, attempt, again)


class _Plan:
    """What a batch of inputs will do, decided against the session as it was read."""

    def __init__(
        self,
        runtime: Runtime,
        acceptance: Acceptance,
        session: SessionRow,
        request: Request,
        if_busy: IfBusy,
    ) -> None:
        self._runtime, self._acceptance = runtime, acceptance
        self._session, self._request, self._if_busy = session, request, if_busy
        self.recording = Recording(runtime.codec)
        self.new_turn: NewTurn | None = None
        self.started = False
        self.steered: InboxRow | None = None
        self.touched: set[str] = set()
        self.settled_calls: list[str] = []
        self.discarded: list[tuple[ResultKey, Failure]] = []
        self._messages: list[NewItem] = []
        self._message_turn = ""
        self._outcomes: list[Outcome | None] = []
        self._inbox: list[InboxRow] = []
        self._guards: list[SettleGuard] = []
        self._settles: list[Settled] = []

    async def add(self, given: Submission) -> None:
        """Decide about one input."""
        match given:
            case NewMessages(items=items):
                self._messages.extend(items)
                self._outcomes.append(None)
            case ResultFor():
                self._outcomes.append(await self._result(given))
            case CancelOf():
                self._outcomes.append(await self._cancel(given))
            case RedeliveryOf():
                self._outcomes.append(await self._redeliver(given))

    async def finish(self) -> None:
        """Decide about the messages of the batch, which all join one turn."""
        if not self._messages:
            return
        active = self._session.active_turn_id
        if active and self._if_busy is IfBusy.REJECT:
            raise busy(active)
        if active and self._if_busy is IfBusy.STEER:
            status, self._message_turn = InputStatus.STEERED, active
            data = self._runtime.codec.input(Steered(items=tuple(self._messages)))
            self.steered = InboxRow(turn_id=active, source=f"message/{self._request.request_id}", data=data)
            self._put(self.steered)
        else:
            self.new_turn = await self._accept(begins=not active)
            self.started = not active
            status = InputStatus.QUEUED if active else InputStatus.STARTED
            self._message_turn = self.new_turn.row.turn_id
        outcome = Outcome(status=status, turn_id=self._message_turn)
        self._outcomes = [outcome if known is None else known for known in self._outcomes]

    def answer(self) -> Submitted:
        """Make the answer."""
        return Submitted(
            turn_id=self._message_turn,
            sequence=self._session.last_sequence,
            outcomes=tuple(outcome for outcome in self._outcomes if outcome is not None),
        )

    def batch(self, answer: Mapping[str, Any]) -> Batch:
        """Make the batch that takes it all in."""
        turn = self.new_turn
        session = None
        if turn is not None:
            session = SessionWrite(
                expected_version=self._session.version,
                bump=True,
                status=self.recording.status,
                active_turn_id=turn.active_turn_id if self.started else None,
            )
        return Batch(
            session_id=self._session.session_id,
            request=self._request.row(**answer),
            session=session,
            turn=turn.write if turn is not None else None,
            settles=tuple(self._guards),
            events=tuple(self.recording.events),
            documents=turn.documents if turn is not None else {},
            contents=self.recording.contents,
            calls_settled=tuple(self._settles),
            inbox_added=(*self._inbox, *(turn.inbox if turn is not None else ())),
        )

    async def _accept(self, *, begins: bool) -> NewTurn:
        session = self._session
        if not session.agent_digest:
            raise refuse(
                Reason.AGENT_MISSING,
                f"The session {session.session_id} has no default agent. Give it one by UpdateSession, or "
                "start the turn by Run with an agent.",
                session_id=session.session_id,
            )
        config = await self._runtime.config(session.config_digest)
        asked = TurnRequest(
            session_id=session.session_id,
            request_id=self._request.request_id,
            agent=await self._runtime.agent(session.agent_digest),
            config=RunConfig(scopes=session.scopes).under(config),
            items=self._messages,
            begins=begins,
        )
        return self._acceptance.turn(asked, self.recording)

    async def _call(self, turn_id: str, call_id: str) -> CallRow:
        call = await self._runtime.store.calls.get(call_id)
        known = call is not None and call.session_id == self._session.session_id
        if call is None or not known or call.turn_id != turn_id:
            raise refuse(
                Reason.CALL_NOT_FOUND,
                f"There is no call {call_id!r} in the turn {turn_id!r}. Copy both ids from the required action.",
                turn_id=turn_id,
                call_id=call_id,
            )
        return call

    async def _redeliver(self, given: RedeliveryOf) -> Outcome:
        """Have a call of unknown effect delivered again; for one that is settled it comes too late."""
        call = await self._call(given.turn_id, given.asked.call_id)
        if call.state is CallState.SETTLED:
            return Outcome(status=InputStatus.DISCARDED, turn_id=call.turn_id, failure=stale(call, 0))
        if call.state is not CallState.EFFECT_UNKNOWN:
            state = call.state.name
            raise refuse(
                Reason.CALL_STATE,
                f"The call {call.call_id} is {state}, not EFFECT_UNKNOWN: it is delivered by itself. "
                "Send a tool_result to settle it.",
                call_id=call.call_id,
                state=state,
            )
        source = f"redelivery/{call.call_id}/{call.attempt}"
        self._put(InboxRow(turn_id=call.turn_id, source=source, data=self._runtime.codec.input(given.asked)))
        return Outcome(status=InputStatus.SETTLED, turn_id=call.turn_id)

    async def _result(self, given: ResultFor) -> Outcome:
        call = await self._call(given.turn_id, given.settled.call_id)
        earlier = next((one for one in self._settles if one.call_id == call.call_id), None)
        if earlier is not None:  # by an earlier input of this very batch
            call = replace(call, state=CallState.SETTLED, settled_attempt=0, result_digest=earlier.digest)
        if call.state is CallState.SETTLED:
            return self._late(call, given.settled)
        self._guards.append(SettleGuard(call_id=call.call_id))
        self._settles.append(Settled(call_id=call.call_id, digest=given.settled.digest))
        self.settled_calls.append(call.call_id)
        data = self._runtime.codec.input(given.settled)
        self._put(InboxRow(turn_id=call.turn_id, source=f"result/{call.call_id}", data=data))
        return Outcome(status=InputStatus.SETTLED, turn_id=call.turn_id)

    def _late(self, call: CallRow, settled: CallSettled) -> Outcome:
        failure = stale(call, 0)
        if call.settled_attempt == 0 and call.result_digest == settled.digest:
            words = f"The call {call.call_id} was settled before by this very result; nothing has changed."
            failure = replace(failure, message=words)
            return Outcome(status=InputStatus.DUPLICATE, turn_id=call.turn_id, failure=failure)
        key = (call.call_id, 0, settled.digest)
        known = self._runtime.discarded.get(key) or dict(self.discarded).get(key)
        if known is not None:
            return Outcome(status=InputStatus.DISCARDED, turn_id=call.turn_id, failure=known)
        self.discarded.append((key, failure))
        self.recording.add(
            ResultDiscarded(
                call_id=call.call_id,
                attempt=0,
                worker_id="",
                failure=failure,
                result_digest=settled.digest,
            ),
            turn_id=call.turn_id,
        )
        return Outcome(status=InputStatus.DISCARDED, turn_id=call.turn_id, failure=failure)

    async def _cancel(self, given: CancelOf) -> Outcome:
        turn = await self._runtime.store.turns.get(given.turn_id)
        if turn is None or turn.session_id != self._session.session_id:
            raise turn_not_found(given.turn_id)
        if turn.status in TERMINAL:
            return Outcome(status=InputStatus.ALREADY_ENDED, turn_id=given.turn_id)
        source = f"cancel/{self._request.request_id}/{len(self._outcomes)}"
        self._put(InboxRow(turn_id=given.turn_id, source=source, data=self._runtime.codec.input(given.asked)))
        return Outcome(status=InputStatus.CANCELLING, turn_id=given.turn_id)

    def _put(self, row: InboxRow) -> None:
        self._inbox.append(row)
        self.touched.add(row.turn_id)


def busy(turn_id: str) -> Exception:
    """Say that a turn runs and that the input did not want to wait."""
    return refuse(
        Reason.SESSION_BUSY,
        f"The turn {turn_id} of the session still runs or waits. Wait for it, or say QUEUE.",
        turn_id=turn_id,
    )


def _written(answer: Submitted) -> dict[str, Any]:
    return {
        "turn_id": answer.turn_id,
        "sequence": answer.sequence,
        "outcomes": [
            [
                outcome.status,
                outcome.turn_id,
                None
                if outcome.failure is None
                else [outcome.failure.reason, outcome.failure.message, dict(outcome.failure.metadata)],
            ]
            for outcome in answer.outcomes
        ],
    }


def _read(answer: Mapping[str, Any]) -> Submitted:
    return Submitted(
        turn_id=answer["turn_id"],
        sequence=answer["sequence"],
        outcomes=tuple(
            Outcome(
                status=InputStatus(status),
                turn_id=turn_id,
                failure=failure and Failure(reason=Reason(failure[0]), message=failure[1], metadata=failure[2]),
            )
            for status, turn_id, failure in answer["outcomes"]
        ),
    )
