"""Small choices of tools and handoffs: whether one is there, who must allow it, and what the model is told instead."""

from __future__ import annotations

from google.protobuf.message import Message

from baton.v1 import agent_pb2
from baton_server.wire.check.execution import EXPIRES_S
from baton_server.wire.check.hooks import WORDS_CHARACTERS, hook_ref
from baton_server.wire.check.violations import Violations


def approval(found: Violations, path: str, message: agent_pb2.FunctionTool | agent_pb2.AgentTool) -> None:
    """Check whether a person must allow a call, where it is said."""
    if not message.HasField("needs_approval"):
        return
    where, given = f"{path}.needs_approval", message.needs_approval
    if found.arm(where, given, "rule") == "hook":
        hook_ref(found, f"{where}.hook", given.hook)
    if given.HasField("expires"):
        found.duration(f"{where}.expires", given.expires, *EXPIRES_S)


def enabled(
    found: Violations, path: str, message: agent_pb2.FunctionTool | agent_pb2.AgentTool | agent_pb2.Handoff
) -> None:
    """Check whether something is there at the moment, where it is said."""
    if message.HasField("enabled") and found.arm(f"{path}.enabled", message.enabled, "rule") == "hook":
        hook_ref(found, f"{path}.enabled.hook", message.enabled.hook)


def failure_texts(found: Violations, path: str, message: Message, *names: str) -> None:
    """Check what the model is told in place of an output, in the fields that are there."""
    for name in names:
        if message.HasField(name):
            _failure_text(found, f"{path}.{name}", name, getattr(message, name))


def _failure_text(found: Violations, path: str, name: str, given: agent_pb2.FailureText) -> None:
    match found.arm(path, given, "text_source"):
        case "text":
            found.text(f"{path}.text", given.text, WORDS_CHARACTERS, required=True)
        case "hook":
            hook_ref(found, f"{path}.hook", given.hook)
        case "fail_turn":
            found.is_true(f"{path}.fail_turn", given.fail_turn, f"use text or hook, or leave {name} out")
        case _:
            pass
