"""Decisions about calls and what they are bound to: `baton.v1.Decision` and `ApprovalBinding`, and back."""

from __future__ import annotations

from baton.v1 import event_pb2
from baton_server.core.events import Binding, Decision


def write_decision(turn_id: str, decision: Decision) -> event_pb2.Decision:
    """Write a decision about a call of a turn."""
    return event_pb2.Decision(
        turn_id=turn_id,
        call_id=decision.call_id,
        verdict=event_pb2.VERDICT_APPROVE if decision.approve else event_pb2.VERDICT_REJECT,
        always=decision.always,
        always_in_session=decision.always_in_session,
        arguments_digest=decision.arguments_digest,
        definition_digest=decision.definition_digest,
        decided_by=decision.decided_by,
        message=decision.message,
    )


def read_decision(message: event_pb2.Decision) -> Decision:
    """Read a decision about a call. What is no APPROVE is a rejection."""
    return Decision(
        call_id=message.call_id,
        approve=message.verdict == event_pb2.VERDICT_APPROVE,
        always=message.always,
        always_in_session=message.always_in_session,
        arguments_digest=message.arguments_digest,
        definition_digest=message.definition_digest,
        decided_by=message.decided_by,
        message=message.message,
    )


def write_binding(binding: Binding) -> event_pb2.ApprovalBinding:
    """Write what a decision is bound to."""
    return event_pb2.ApprovalBinding(
        arguments_digest=binding.arguments_digest, definition_digest=binding.definition_digest
    )


def read_binding(message: event_pb2.ApprovalBinding) -> Binding:
    """Read what a decision is bound to."""
    return Binding(arguments_digest=message.arguments_digest, definition_digest=message.definition_digest)
