"""Decisions about calls that wait for them: what each is worth, against what was decided before.

The first decision about a call holds. Until its turn has been fed it, it is in the turn's inbox, under a source that
is the call's; from then on it is in the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.app.calls.late import stale
from baton_server.app.outcomes import InputStatus, Outcome
from baton_server.app.runtime import Runtime
from baton_server.app.turns.loading import Loading
from baton_server.core.errors import Failure, Reason, Refused, refuse
from baton_server.core.events import Decision
from baton_server.core.inputs import DecisionMade
from baton_server.ports.store import CallRow, CallState, GrantRow


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What is known about a call that does not wait for a decision. `asked`: it did once. `expired`: in vain."""

    asked: bool
    decision: Decision | None = None
    expired: bool = False


class Decisions:
    """Judges decisions."""

    def __init__(self, runtime: Runtime, loading: Loading) -> None:
        self._runtime, self._loading = runtime, loading

    async def late(self, call: CallRow, given: Decision, earlier: Decision | None = None) -> Outcome:
        """Say what a decision is worth that a call does not wait for. `earlier`: of the same batch, None: none.

        Raises Refused(CALL_STATE): the call never waited for one.
        """
        before = _Before(asked=True, decision=earlier) if earlier is not None else await self._before(call)
        if not before.asked:
            raise _never_asked(call)
        return _outcome(call, given, before)

    async def _before(self, call: CallRow) -> _Before:
        source = decision_source(call.call_id)
        for waiting in await self._runtime.store.inbox.rows(call.turn_id):
            made = self._runtime.codec.read_input(waiting.data) if waiting.source == source else None
            if isinstance(made, DecisionMade):
                return _Before(asked=True, decision=made.decision)
        turn = await self._runtime.store.turns.get(call.turn_id)
        known = None if turn is None else (await self._loading.read(turn)).calls.get(call.call_id)
        if known is None:
            return _Before(asked=False)
        return _Before(asked=known.awaiting is not None, decision=known.decision, expired=known.expired)


def decision_source(call_id: str) -> str:
    """Name the place of a call's decision in the inbox of its turn: there is one."""
    return f"decision/{call_id}"


def check_fresh(call: CallRow, given: Decision) -> None:
    """Refuse a decision about something else than what the call is now. Raises Refused(APPROVAL_STALE)."""
    bound = (
        ("arguments", "arguments_digest", given.arguments_digest, call.arguments_digest),
        ("the function's definition", "definition_digest", given.definition_digest, call.definition_digest),
    )
    wrong = [(words, name, now) for words, name, seen, now in bound if seen and seen != now]
    if wrong:
        raise refuse(
            Reason.APPROVAL_STALE,
            f"The decision about {call.call_id} was made about other {' and '.join(words for words, _, _ in wrong)} "
            "than the call has. Read the required action again, and decide about what it says.",
            call_id=call.call_id,
            **{name: now for _, name, now in wrong},
        )


def grant_of(call: CallRow, given: Decision) -> GrantRow:
    """Make what a decision means for later calls of the session."""
    return GrantRow(
        session_id=call.session_id,
        agent=call.agent,
        tool=call.name,
        definition_digest=call.definition_digest,
        approve=given.approve,
        message=given.message,
        decided_by=given.decided_by,
    )


def _outcome(call: CallRow, given: Decision, before: _Before) -> Outcome:
    if before.decision is None:  # a result, or the end of the turn, came first
        return Outcome(status=InputStatus.DISCARDED, turn_id=call.turn_id, failure=_settled(call))
    if before.decision.approve is given.approve:
        return Outcome(status=InputStatus.DUPLICATE, turn_id=call.turn_id, failure=_same(call, before))
    holds = "APPROVE" if before.decision.approve else "REJECT"
    who = f"by {before.decision.decided_by}" if before.decision.decided_by else "by an earlier decision"
    how = "rejected, since nobody decided in time" if before.expired else f"{_PAST[holds]} before, {who}"
    failure = Failure(
        reason=Reason.DECISION_CONFLICT,
        message=f"The call {call.call_id} was {how}; that holds.",
        metadata={"call_id": call.call_id, "decision": holds},
    )
    return Outcome(status=InputStatus.DISCARDED, turn_id=call.turn_id, failure=failure)


_PAST = {"APPROVE": "approved", "REJECT": "rejected"}


def _same(call: CallRow, before: _Before) -> Failure:
    """Say that a decision was there before."""
    if call.state is CallState.SETTLED:
        return stale(call, 0)
    approved = before.decision is not None and before.decision.approve
    return Failure(
        reason=Reason.CALL_STATE,
        message=f"The call {call.call_id} was {'approved' if approved else 'rejected'} before; nothing has changed.",
        metadata={"call_id": call.call_id, "state": shown_state(call)},
    )


def _settled(call: CallRow) -> Failure:
    if call.state is CallState.SETTLED:
        return stale(call, 0)
    return Failure(
        reason=Reason.CALL_SETTLED,
        message=f"The call {call.call_id} was settled before anybody decided about it.",
        metadata={"call_id": call.call_id, "settled_by": "outside"},
    )


def _never_asked(call: CallRow) -> Refused:
    state = shown_state(call)
    return refuse(
        Reason.CALL_STATE,
        f"The call {call.call_id} is {state}, and never waited for a decision. Decide about calls that are "
        "AWAITING_DECISION.",
        call_id=call.call_id,
        state=state,
    )


def shown_state(call: CallRow) -> str:
    """Name where a call is as the contract does, as far as its row tells."""
    return "QUEUED" if call.state in (CallState.HELD, CallState.CHECKED) else call.state.name
