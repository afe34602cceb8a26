"""What a batch of inputs will do, decided against a session as it was read; and the batch of writes that does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from baton_server.app.busy import busy
from baton_server.app.calls.late import stale
from baton_server.app.continuing import Continuing
from baton_server.app.decisions import Decisions, check_fresh, decision_source, grant_of, shown_state
from baton_server.app.keeping import keeper_after
from baton_server.app.outcomes import IfBusy, InputStatus, Outcome, Submitted
from baton_server.app.requests import Request
from baton_server.app.runtime import ResultKey, Runtime
from baton_server.app.turns.accept import Acceptance, NewTurn, TurnRequest
from baton_server.app.turns.recording import Recording
from baton_server.app.watch import turn_not_found
from baton_server.core.errors import Failure, FieldViolation, Reason, Refused, refuse
from baton_server.core.events import TERMINAL, Decision, ResultDiscarded
from baton_server.core.inputs import CallSettled, NewItem, Steered
from baton_server.core.run_config import RunConfig
from baton_server.core.submissions import (
    CancelOf,
    ContinueOf,
    DecisionOf,
    NewMessages,
    RedeliveryOf,
    ResultFor,
    Submission,
)
from baton_server.ports.store import (
    Batch,
    CallRow,
    CallState,
    GrantRow,
    InboxRow,
    Move,
    SessionRow,
    SessionWrite,
    Settled,
    SettleGuard,
)


class _Rank(IntEnum):
    """In which order a turn takes what one batch brings it."""

    RESULT = 0
    DECISION = 1
    REDELIVERY = 2
    CANCEL = 3
    MESSAGE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """Who decides about what a batch brings, where more must be known than the session."""

    acceptance: Acceptance
    decisions: Decisions
    continuing: Continuing


class Plan:
    """What a batch will do. `add` each input, then `finish`, then `answer` and `batch`.

    `new_turn`: the turn that it makes, None: none; `started`: that one begins at once. `steered`: messages for the
    running turn. `touched`: turns whose inbox it writes. `settled_calls`: by results. `discarded`: results that it
    does not take, and why.
    """

    def __init__(
        self,
        runtime: Runtime,
        judges: Judges,
        session: SessionRow,
        request: Request,
        if_busy: IfBusy,
    ) -> None:
        self._runtime, self._judges = runtime, judges
        self._session, self._request, self._if_busy = session, request, if_busy
        self.recording = Recording(runtime.codec)
        self.new_turn: NewTurn | None = None
        self.started = False
        self.steered: InboxRow | None = None
        self.touched: set[str] = set()
        self.settled_calls: list[str] = []
        self.discarded: list[tuple[ResultKey, Failure]] = []
        self._messages: list[NewItem] = []
        self._continues: ContinueOf | None = None
        self._keeper: str | None = None
        self._message_turn = ""
        self._outcomes: list[Outcome | None] = []
        self._inbox: list[tuple[_Rank, InboxRow]] = []
        self._guards: list[SettleGuard] = []
        self._settles: list[Settled] = []
        self._decided: dict[str, Decision] = {}
        self._grants: list[GrantRow] = []

    async def add(self, given: Submission) -> None:
        """Decide about one input."""
        match given:
            case NewMessages(items=items):
                self._messages.extend(items)
                self._outcomes.append(None)
            case ContinueOf():
                self._continue(given)
                self._outcomes.append(None)
            case ResultFor():
                self._outcomes.append(await self._result(given))
            case DecisionOf():
                self._outcomes.append(await self._decide(given))
            case CancelOf():
                self._outcomes.append(await self._cancel(given))
            case RedeliveryOf():
                self._outcomes.append(await self._redeliver(given))

    async def finish(self) -> None:
        """Decide about the messages of the batch, which all join one turn."""
        if not self._messages and self._continues is None:
            return
        active = self._session.active_turn_id
        if active and self._if_busy is IfBusy.REJECT:
            raise await busy(self._runtime, self._session.session_id, active, self._decided)
        if active and self._if_busy is IfBusy.STEER and self._continues is None:
            status, self._message_turn = InputStatus.STEERED, active
            data = self._runtime.codec.input(Steered(items=tuple(self._messages)))
            self.steered = InboxRow(turn_id=active, source=f"message/{self._request.request_id}", data=data)
            self._put(_Rank.MESSAGE, self.steered)
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
                history_keeper=self._keeper,
            )
        inbox = [row for _, row in sorted(self._inbox, key=lambda ranked: ranked[0])]
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
            moves=tuple(Move(call_id=call_id, state=CallState.HELD) for call_id in self._decided),
            grants=tuple(self._grants),
            inbox_added=(*inbox, *(turn.inbox if turn is not None else ())),
        )

    # -- turns -----------------------------------------------------------------------------------

    def _continue(self, given: ContinueOf) -> None:
        if self._continues is not None:
            path = f"inputs[{len(self._outcomes)}].continues"
            problem = "is the second one of the batch, which makes one turn; send it by itself"
            failure = Failure(reason=Reason.INVALID_REQUEST, message=f"{path} {problem}.", metadata={"fields": "1"})
            raise Refused(failure, (FieldViolation(path=path, problem=problem),))
        self._continues = given

    async def _accept(self, *, begins: bool) -> NewTurn:
        asked = await self._asked(begins=begins)
        self._keeper = keeper_after(self._session, asked.config.mode)
        return self._judges.acceptance.turn(asked, self.recording)

    async def _asked(self, *, begins: bool) -> TurnRequest:
        session = self._session
        if self._continues is not None:
            items = tuple(self._messages)
            return await self._judges.continuing.turn(
                session, self._request.request_id, self._continues, items, begins=begins
            )
        if not session.agent_digest:
            raise refuse(
                Reason.AGENT_MISSING,
                f"The session {session.session_id} has no default agent. Give it one by UpdateSession, or "
                "start the turn by Run with an agent.",
                session_id=session.session_id,
            )
        config = await self._runtime.config(session.config_digest)
        return TurnRequest(
            session_id=session.session_id,
            request_id=self._request.request_id,
            agent=await self._runtime.agent(session.agent_digest),
            config=RunConfig(scopes=session.scopes).under(config),
            items=self._messages,
            begins=begins,
        )

    async def _cancel(self, given: CancelOf) -> Outcome:
        turn = await self._runtime.store.turns.get(given.turn_id)
        if turn is None or turn.session_id != self._session.session_id:
            raise turn_not_found(given.turn_id)
        if turn.status in TERMINAL:
            return Outcome(status=InputStatus.ALREADY_ENDED, turn_id=given.turn_id)
        source = f"cancel/{self._request.request_id}/{len(self._outcomes)}"
        data = self._runtime.codec.input(given.asked)
        self._put(_Rank.CANCEL, InboxRow(turn_id=given.turn_id, source=source, data=data))
        return Outcome(status=InputStatus.CANCELLING, turn_id=given.turn_id)

    # -- calls -----------------------------------------------------------------------------------

    async def _call(self, turn_id: str, call_id: str) -> CallRow:
        """Find a call as the inputs before this one leave it."""
        call = await self._runtime.store.calls.get(call_id)
        known = call is not None and call.session_id == self._session.session_id
        if call is None or not known or call.turn_id != turn_id:
            raise refuse(
                Reason.CALL_NOT_FOUND,
                f"There is no call {call_id!r} in the turn {turn_id!r}. Copy both ids from the required action.",
                turn_id=turn_id,
                call_id=call_id,
            )
        settled = next((one for one in self._settles if one.call_id == call_id), None)
        if settled is not None:
            return replace(call, state=CallState.SETTLED, settled_attempt=0, result_digest=settled.digest)
        return replace(call, state=CallState.HELD) if call_id in self._decided else call

    async def _decide(self, given: DecisionOf) -> Outcome:
        """Have a call go on, or not, as somebody decided; what comes later than the first decision changes nothing."""
        decision = given.made.decision
        call = await self._call(given.turn_id, decision.call_id)
        if call.state is not CallState.AWAITING_DECISION:
            return await self._judges.decisions.late(call, decision, self._decided.get(call.call_id))
        check_fresh(call, decision)
        self._decided[call.call_id] = decision
        self._guards.append(SettleGuard(call_id=call.call_id, state=CallState.AWAITING_DECISION))
        if decision.always_in_session:
            self._grants.append(grant_of(call, decision))
        data = self._runtime.codec.input(given.made)
        self._put(_Rank.DECISION, InboxRow(turn_id=call.turn_id, source=decision_source(call.call_id), data=data))
        return Outcome(status=InputStatus.SETTLED, turn_id=call.turn_id)

    async def _redeliver(self, given: RedeliveryOf) -> Outcome:
        """Have a call of unknown effect delivered again; for one that is settled it comes too late."""
        call = await self._call(given.turn_id, given.asked.call_id)
        if call.state is CallState.SETTLED:
            return Outcome(status=InputStatus.DISCARDED, turn_id=call.turn_id, failure=stale(call, 0))
        if call.state is not CallState.EFFECT_UNKNOWN:
            raise _not_in_doubt(call)
        source = f"redelivery/{call.call_id}/{call.attempt}"
        data = self._runtime.codec.input(given.asked)
        self._put(_Rank.REDELIVERY, InboxRow(turn_id=call.turn_id, source=source, data=data))
        return Outcome(status=InputStatus.SETTLED, turn_id=call.turn_id)

    async def _result(self, given: ResultFor) -> Outcome:
        call = await self._call(given.turn_id, given.settled.call_id)
        if call.state is CallState.SETTLED:
            return self._late(call, given.settled)
        self._guards.append(SettleGuard(call_id=call.call_id))
        self._settles.append(Settled(call_id=call.call_id, digest=given.settled.digest))
        self.settled_calls.append(call.call_id)
        data = self._runtime.codec.input(given.settled)
        self._put(_Rank.RESULT, InboxRow(turn_id=call.turn_id, source=f"result/{call.call_id}", data=data))
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

    def _put(self, rank: _Rank, row: InboxRow) -> None:
        self._inbox.append((rank, row))
        self.touched.add(row.turn_id)


def _not_in_doubt(call: CallRow) -> Refused:
    state = shown_state(call)
    what = "send a decision about it" if state == CallState.AWAITING_DECISION.name else "it is delivered by itself"
    return refuse(
        Reason.CALL_STATE,
        f"The call {call.call_id} is {state}, not EFFECT_UNKNOWN: {what}. Send a tool_result to settle it.",
        call_id=call.call_id,
        state=state,
    )
