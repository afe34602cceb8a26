"""References to hooks: guardrails, filters of the model's input, and who is told what happens."""

from __future__ import annotations

from collections.abc import Sequence

from baton.v1 import agent_pb2, run_config_pb2
from baton_server.wire.check.violations import Violations, join

GUARDRAILS, GUARDRAIL_CHARACTERS = 32, 128
FILTERS = 8
LIFECYCLE_HOOKS = 8
HOOK_TIMEOUT_S = (0.001, 600.0)


def hook_ref(found: Violations, path: str, message: agent_pb2.HookRef) -> None:
    """Check the name of a program and how long it may take."""
    found.function_name(f"{path}.name", message.name)
    if message.HasField("timeout"):
        found.duration(f"{path}.timeout", message.timeout, *HOOK_TIMEOUT_S)


def guardrails(found: Violations, path: str, given: Sequence[agent_pb2.Guardrail]) -> None:
    """Check guardrails, whose names tell them apart."""
    if len(given) > GUARDRAILS:
        found.add(path, f"has {len(given)} guardrails, at most {GUARDRAILS} are allowed")
    first: dict[str, int] = {}
    for index, guardrail in enumerate(given):
        where, name = f"{path}[{index}]", guardrail.name
        found.text(f"{where}.name", name, GUARDRAIL_CHARACTERS, required=True)
        if first.setdefault(name, index) != index:
            found.add(f"{where}.name", f"is {name[:80]!r} as in {path}[{first[name]}], must be unique")
        if found.arm(where, guardrail, "check") is not None:
            hook_ref(found, f"{where}.hook", guardrail.hook)


def filters(found: Violations, path: str, given: Sequence[run_config_pb2.InputFilter]) -> None:
    """Check what changes the model's input. One filter may stand twice: they are applied in order."""
    if len(given) > FILTERS:
        found.add(path, f"has {len(given)} filters, at most {FILTERS} are allowed")
    for index, one in enumerate(given):
        if found.arm(f"{path}[{index}]", one, "filter") is not None:
            hook_ref(found, f"{path}[{index}].hook", one.hook)


def lifecycle_hooks(found: Violations, path: str, given: Sequence[run_config_pb2.LifecycleHook]) -> None:
    """Check who is told what happens."""
    if len(given) > LIFECYCLE_HOOKS:
        found.add(path, f"has {len(given)} lifecycle hooks, at most {LIFECYCLE_HOOKS} are allowed")
    for index, one in enumerate(given):
        where = f"{path}[{index}]"
        if one.HasField("hook"):
            hook_ref(found, f"{where}.hook", one.hook)
        else:
            found.add(join(where, "hook"), "is required")
        for number, moment in enumerate(one.moments):
            found.enum(f"{where}.moments[{number}]", moment, run_config_pb2.LifecycleMoment, required=True)
