"""How functions are executed: what an agent says, and what a handler says where the agent does not."""

from __future__ import annotations

from collections.abc import Sequence

from baton.v1 import agent_pb2, handler_pb2
from baton_server.wire.check.violations import Violations
from baton_server.wire.keys import is_pointer

TIMEOUT_S = (0.001, 24 * 3600.0)
EXPIRES_S = (1.0, 30 * 24 * 3600.0)
MAX_ATTEMPTS = 100
POINTERS = 16
VERSION_CHARACTERS = 64


def execution(found: Violations, path: str, message: agent_pb2.Execution) -> None:
    """Check what an agent says about the execution of a function."""
    if message.HasField("timeout"):
        found.duration(f"{path}.timeout", message.timeout, *TIMEOUT_S)
    if message.HasField("expires"):
        found.duration(f"{path}.expires", message.expires, *EXPIRES_S)
    found.enum(f"{path}.lost_worker", message.lost_worker, agent_pb2.LostWorker)
    if message.HasField("max_attempts"):
        found.between(f"{path}.max_attempts", message.max_attempts, 1, MAX_ATTEMPTS)
    pointers(found, f"{path}.idempotency_fields", message.idempotency_fields)


def handler_execution(found: Violations, path: str, message: handler_pb2.HandlerExecution) -> None:
    """Check what a handler says about the execution of its function."""
    if message.HasField("timeout"):
        found.duration(f"{path}.timeout", message.timeout, *TIMEOUT_S)
    found.enum(f"{path}.side_effects", message.side_effects, handler_pb2.SideEffects)
    pointers(found, f"{path}.idempotency_fields", message.idempotency_fields)


def pointers(found: Violations, path: str, given: Sequence[str]) -> None:
    """Check JSON Pointers to fields of the arguments (RFC 6901)."""
    found.at_most(path, len(given), POINTERS, "fields")
    for index, pointer in enumerate(given):
        if not is_pointer(pointer):
            found.add(
                f"{path}[{index}]", f'is {pointer[:80]!r}, must be a JSON Pointer to a field, such as "/order/id"'
            )
