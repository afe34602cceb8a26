"""Events: facts of a session, in the order in which they happened. Frozen; never rewritten.

    words    statuses, kinds and reasons
    turns    of sessions, turns and their runs
    calls    of calls and of questions to programs

Each class is an arm of `baton.v1.Event`. Session, sequence and time are given by the commit and are not
here; `Event` adds the turn and the round. `TurnState.apply` (state.py) is the one place that reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.core.events.calls import (
    ApprovalDecided,
    ApprovalRequested,
    AttemptLost,
    Binding,
    CallReturned,
    Decision,
    EffectDecided,
    EffectUnknown,
    HookSettled,
    OpenCall,
    ResultDiscarded,
)
from baton_server.core.events.turns import (
    AgentChanged,
    CancelRequested,
    GuardrailTripped,
    ItemAdded,
    ItemDone,
    ItemsWithdrawn,
    ModelAttemptFailed,
    NestedRunClosed,
    NestedRunCreated,
    RoundCompleted,
    SessionCreated,
    SessionIdle,
    SessionInProgress,
    SessionRequiresAction,
    SessionUpdated,
    TurnCreated,
    TurnEnded,
    TurnInProgress,
    TurnSnapshot,
)
from baton_server.core.events.words import (
    GUARDRAILS,
    TERMINAL,
    AfterLoss,
    CancelMode,
    HookKind,
    SessionStatus,
    Stage,
    TurnStatus,
    Verdict,
    Withdrawal,
)

__all__ = [
    "GUARDRAILS",
    "TERMINAL",
    "AfterLoss",
    "AgentChanged",
    "ApprovalDecided",
    "ApprovalRequested",
    "AttemptLost",
    "Binding",
    "CallReturned",
    "CancelMode",
    "CancelRequested",
    "Decision",
    "EffectDecided",
    "EffectUnknown",
    "Event",
    "EventBody",
    "GuardrailTripped",
    "HookKind",
    "HookSettled",
    "ItemAdded",
    "ItemDone",
    "ItemsWithdrawn",
    "ModelAttemptFailed",
    "NestedRunClosed",
    "NestedRunCreated",
    "OpenCall",
    "ResultDiscarded",
    "RoundCompleted",
    "SessionCreated",
    "SessionIdle",
    "SessionInProgress",
    "SessionRequiresAction",
    "SessionStatus",
    "SessionUpdated",
    "Stage",
    "TurnCreated",
    "TurnEnded",
    "TurnInProgress",
    "TurnSnapshot",
    "TurnStatus",
    "Verdict",
    "Withdrawal",
]

EventBody = (
    SessionCreated
    | SessionInProgress
    | SessionRequiresAction
    | SessionIdle
    | SessionUpdated
    | TurnCreated
    | TurnInProgress
    | TurnEnded
    | CancelRequested
    | ItemAdded
    | ItemDone
    | ItemsWithdrawn
    | RoundCompleted
    | ModelAttemptFailed
    | AgentChanged
    | GuardrailTripped
    | NestedRunCreated
    | NestedRunClosed
    | HookSettled
    | CallReturned
    | ApprovalRequested
    | ApprovalDecided
    | EffectUnknown
    | EffectDecided
    | AttemptLost
    | ResultDiscarded
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact: what happened, in which turn, run and round. `turn_id` empty and `round` 0: none's.

    `run_path`: the calls that enclose it, outermost first; empty: the turn's own run.
    """

    body: EventBody
    turn_id: str = ""
    round: int = 0
    run_path: tuple[str, ...] = ()
