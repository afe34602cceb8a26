"""What decides at a moment: references to hooks, lists of terms, guardrails and lifecycle hooks, and back."""

from __future__ import annotations

from google.protobuf.message import Message

from baton.v1 import agent_pb2
from baton_server.core.agents import Guardrail, LifecycleHook
from baton_server.core.tools import DEFAULT_HOOK_TIMEOUT_S, Check, HookRef, Terms, ToolGuardrail
from baton_server.wire.names import MOMENTS
from baton_server.wire.times import read_duration, write_duration

Checked = agent_pb2.Guardrail | agent_pb2.ToolGuardrail


def read_ref(message: agent_pb2.HookRef) -> HookRef:
    """Read a reference to a hook."""
    timeout_s = read_duration(message.timeout) if message.HasField("timeout") else DEFAULT_HOOK_TIMEOUT_S
    return HookRef(name=message.name, timeout_s=timeout_s)


def write_ref(ref: HookRef) -> agent_pb2.HookRef:
    """Write a reference. The default timeout is absent: it is part of the contract, and as it was said."""
    message = agent_pb2.HookRef(name=ref.name)
    if ref.timeout_s != DEFAULT_HOOK_TIMEOUT_S:
        message.timeout.CopyFrom(write_duration(ref.timeout_s))
    return message


def read_optional_ref(message: Message, name: str) -> HookRef | None:
    """Read the reference in a field; None: it is absent."""
    return read_ref(getattr(message, name)) if message.HasField(name) else None


def write_optional_ref(ref: HookRef | None) -> agent_pb2.HookRef | None:
    """Write a reference; None is absent."""
    return None if ref is None else write_ref(ref)


def read_guardrail(message: agent_pb2.Guardrail) -> Guardrail:
    """Read a guardrail. Raises ValueError: its check is not known here."""
    return Guardrail(name=message.name, check=_read_check(message), blocking=message.blocking)


def write_guardrail(guardrail: Guardrail) -> agent_pb2.Guardrail:
    """Write a guardrail."""
    message = agent_pb2.Guardrail(name=guardrail.name, blocking=guardrail.blocking)
    _write_check(message, guardrail.check)
    return message


def read_tool_guardrail(message: agent_pb2.ToolGuardrail) -> ToolGuardrail:
    """Read a guardrail of a function. Raises ValueError: its check is not known here."""
    return ToolGuardrail(name=message.name, check=_read_check(message), message=message.message)


def write_tool_guardrail(guardrail: ToolGuardrail) -> agent_pb2.ToolGuardrail:
    """Write a guardrail of a function."""
    message = agent_pb2.ToolGuardrail(name=guardrail.name, message=guardrail.message)
    _write_check(message, guardrail.check)
    return message


def read_lifecycle_hook(message: agent_pb2.LifecycleHook) -> LifecycleHook:
    """Read who is told what happens."""
    return LifecycleHook(
        hook=read_ref(message.hook),
        moments=tuple(MOMENTS.to_core[moment] for moment in message.moments),
        awaited=message.awaited,
    )


def write_lifecycle_hook(one: LifecycleHook) -> agent_pb2.LifecycleHook:
    """Write who is told what happens."""
    moments = [MOMENTS.to_wire[moment] for moment in one.moments]
    return agent_pb2.LifecycleHook(hook=write_ref(one.hook), moments=moments, awaited=one.awaited)


def unknown_arm(what: str) -> ValueError:
    """Say that a definition at rest holds what this release does not know: to leave it out would change it."""
    return ValueError(f"{what} is of a kind that this release does not know; a later release wrote it. Run that one.")


def _read_check(message: Checked) -> Check:
    match message.WhichOneof("check"):
        case "hook":
            return read_ref(message.hook)
        case "deny":
            return Terms(terms=tuple(message.deny.terms), case_sensitive=message.deny.case_sensitive)
        case "allow":
            return Terms(terms=tuple(message.allow.terms), case_sensitive=message.allow.case_sensitive, allow=True)
        case _:
            raise unknown_arm(f"the check of the guardrail {message.name!r}")


def _write_check(message: Checked, check: Check) -> None:
    if isinstance(check, HookRef):
        message.hook.CopyFrom(write_ref(check))
        return
    terms = message.allow if check.allow else message.deny
    terms.SetInParent()
    terms.terms.extend(check.terms)
    terms.case_sensitive = check.case_sensitive
