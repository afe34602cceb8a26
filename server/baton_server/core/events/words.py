"""Words of events: statuses, kinds and reasons, each an enum of the contract."""

from __future__ import annotations

from enum import StrEnum


class TurnStatus(StrEnum):
    """Where a turn stands: `baton.v1.TurnStatus`."""

    QUEUED = "QUEUED"
    IN_PROGRESS = "IN_PROGRESS"
    WAITING = "WAITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TERMINAL = frozenset({TurnStatus.COMPLETED, TurnStatus.FAILED, TurnStatus.CANCELLED})
"""A turn never leaves these."""


class SessionStatus(StrEnum):
    """Where a session stands: `baton.v1.SessionStatus`."""

    IDLE = "IDLE"
    IN_PROGRESS = "IN_PROGRESS"
    REQUIRES_ACTION = "REQUIRES_ACTION"


class CancelMode(StrEnum):
    """How a turn is cancelled: `baton.v1.CancelMode`."""

    NOW = "NOW"
    AFTER_ROUND = "AFTER_ROUND"


class AfterLoss(StrEnum):
    """What follows a lost attempt: `baton.v1.AfterLoss`.

    EFFECT_UNKNOWN: none by itself; CHECKED: the handler's check decides; FAILED: no other one, the output says why.
    """

    REDELIVERED = "REDELIVERED"
    EFFECT_UNKNOWN = "EFFECT_UNKNOWN"
    CHECKED = "CHECKED"
    FAILED = "FAILED"


class HookKind(StrEnum):
    """What a hook is asked: `baton.v1.HandlerKind`, without functions."""

    EFFECT_CHECK = "EFFECT_CHECK"
    INPUT_GUARDRAIL = "INPUT_GUARDRAIL"
    OUTPUT_GUARDRAIL = "OUTPUT_GUARDRAIL"
    TOOL_INPUT_GUARDRAIL = "TOOL_INPUT_GUARDRAIL"
    TOOL_OUTPUT_GUARDRAIL = "TOOL_OUTPUT_GUARDRAIL"
    INSTRUCTIONS = "INSTRUCTIONS"
    TOOL_ENABLED = "TOOL_ENABLED"
    HANDOFF_ENABLED = "HANDOFF_ENABLED"
    NEEDS_APPROVAL = "NEEDS_APPROVAL"
    ON_HANDOFF = "ON_HANDOFF"
    HANDOFF_INPUT_FILTER = "HANDOFF_INPUT_FILTER"
    HANDOFF_HISTORY = "HANDOFF_HISTORY"
    SESSION_INPUT = "SESSION_INPUT"
    MODEL_INPUT_FILTER = "MODEL_INPUT_FILTER"
    TOOL_ERROR = "TOOL_ERROR"
    TOOL_USE = "TOOL_USE"
    ERROR_HANDLER = "ERROR_HANDLER"
    AGENT_OUTPUT = "AGENT_OUTPUT"
    AGENT_INPUT = "AGENT_INPUT"
    CUSTOM_DATA = "CUSTOM_DATA"
    BLOCKED_OUTPUT = "BLOCKED_OUTPUT"
    MODEL_RETRY = "MODEL_RETRY"
    LIFECYCLE = "LIFECYCLE"
    SESSION_STORE = "SESSION_STORE"


GUARDRAILS = frozenset(
    {
        HookKind.INPUT_GUARDRAIL,
        HookKind.OUTPUT_GUARDRAIL,
        HookKind.TOOL_INPUT_GUARDRAIL,
        HookKind.TOOL_OUTPUT_GUARDRAIL,
    }
)
"""Kinds of hooks that are guardrails."""


class Stage(StrEnum):
    """Where a guardrail stands: `baton.v1.GuardrailStage`."""

    INPUT = "INPUT"
    OUTPUT = "OUTPUT"
    TOOL_INPUT = "TOOL_INPUT"
    TOOL_OUTPUT = "TOOL_OUTPUT"


class Verdict(StrEnum):
    """What a guardrail did: `baton.v1.GuardrailVerdict`."""

    PASSED = "PASSED"
    TRIPPED = "TRIPPED"
    CONTENT_REJECTED = "CONTENT_REJECTED"


class Withdrawal(StrEnum):
    """Why items left the history: `baton.v1.WithdrawalReason`. MERGED: a merge of history and input left them out,
    or moved them; FILTERED: a handoff's filter did; FAILED: the turn failed over the reply that they belong to;
    UNANSWERED: their outputs left it.
    """

    REMOVED = "REMOVED"
    GUARDRAIL = "GUARDRAIL"
    MERGED = "MERGED"
    FILTERED = "FILTERED"
    FAILED = "FAILED"
    UNANSWERED = "UNANSWERED"
