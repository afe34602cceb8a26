"""What decides at a moment: references to hooks, guardrails, filters, and who is told what happens."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import Message

from baton.v1 import agent_pb2
from baton_server.wire.check.violations import Violations, join

GUARDRAILS, GUARDRAIL_CHARACTERS = 32, 128
TERMS, TERM_CHARACTERS = 256, 256
FILTERS = 8
LIFECYCLE_HOOKS = 8
HOOK_TIMEOUT_S = (0.001, 600.0)
NAMES, QUALIFIED_CHARACTERS = 512, 128
WORDS_CHARACTERS = 4096
"""Of a text that the model is told in place of an output."""

_Guardrail = agent_pb2.Guardrail | agent_pb2.ToolGuardrail


def hook_ref(found: Violations, path: str, message: agent_pb2.HookRef) -> None:
    """Check the name of a program and how long it may take."""
    found.function_name(f"{path}.name", message.name)
    if message.HasField("timeout"):
        found.duration(f"{path}.timeout", message.timeout, *HOOK_TIMEOUT_S)


def hook_fields(found: Violations, path: str, message: Message, *names: str) -> None:
    """Check the references in some fields, those that are there."""
    for name in names:
        if message.HasField(name):
            hook_ref(found, join(path, name), getattr(message, name))


# -- guardrails ----------------------------------------------------------------------------------


def guardrails(found: Violations, path: str, given: Sequence[agent_pb2.Guardrail], *, of_inputs: bool) -> None:
    """Check guardrails, whose names tell them apart. `of_inputs`: they may be blocking."""
    _named(found, path, given)
    for index, guardrail in enumerate(given):
        where = f"{path}[{index}]"
        _check(found, where, guardrail)
        if guardrail.blocking and not of_inputs:
            found.add(f"{where}.blocking", "is for input guardrails only; one of an output always finishes first")


def tool_guardrails(found: Violations, path: str, given: Sequence[agent_pb2.ToolGuardrail]) -> None:
    """Check the guardrails of a function."""
    _named(found, path, given)
    for index, guardrail in enumerate(given):
        where = f"{path}[{index}]"
        _check(found, where, guardrail)
        found.text(f"{where}.message", guardrail.message, WORDS_CHARACTERS)
        if guardrail.message and guardrail.HasField("hook"):
            found.add(f"{where}.message", "is for deny and allow only; a hook's answer says what the model is told")


def _named(found: Violations, path: str, given: Sequence[_Guardrail]) -> None:
    found.at_most(path, len(given), GUARDRAILS, "guardrails")
    first: dict[str, int] = {}
    for index, guardrail in enumerate(given):
        name = guardrail.name
        found.text(f"{path}[{index}].name", name, GUARDRAIL_CHARACTERS, required=True)
        if first.setdefault(name, index) != index:
            found.add(f"{path}[{index}].name", f"is {name[:80]!r} as in {path}[{first[name]}], must be unique")


def _check(found: Violations, path: str, guardrail: _Guardrail) -> None:
    match found.arm(path, guardrail, "check"):
        case "hook":
            hook_ref(found, f"{path}.hook", guardrail.hook)
        case "deny":
            _terms(found, f"{path}.deny.terms", guardrail.deny.terms)
        case "allow":
            _terms(found, f"{path}.allow.terms", guardrail.allow.terms)
        case _:
            pass


def _terms(found: Violations, path: str, terms: Sequence[str]) -> None:
    if not terms:
        found.add(path, "must have at least one term")
    found.at_most(path, len(terms), TERMS, "terms")
    for index, term in enumerate(terms):
        found.text(f"{path}[{index}]", term, TERM_CHARACTERS, required=True)


# -- filters -------------------------------------------------------------------------------------


def filters(found: Violations, path: str, given: Sequence[agent_pb2.InputFilter]) -> None:
    """Check what changes the model's input. One filter may stand twice: they are applied in order."""
    found.at_most(path, len(given), FILTERS, "filters")
    for index, one in enumerate(given):
        where = f"{path}[{index}]"
        match found.arm(where, one, "filter"):
            case "hook":
                hook_ref(found, f"{where}.hook", one.hook)
            case "keep_last":
                found.at_least(f"{where}.keep_last.items", one.keep_last.items, 1)
            case "trim_outputs":
                _trim(found, f"{where}.trim_outputs", one.trim_outputs)
            case _:
                pass


def _trim(found: Violations, path: str, trim: agent_pb2.TrimOutputs) -> None:
    if trim.HasField("recent_messages"):
        found.at_least(f"{path}.recent_messages", trim.recent_messages, 0)
    if trim.HasField("max_chars"):
        found.at_least(f"{path}.max_chars", trim.max_chars, 1)
    if trim.HasField("preview_chars"):
        found.at_least(f"{path}.preview_chars", trim.preview_chars, 0)
    function_names(found, f"{path}.functions", trim.functions)


def function_names(found: Violations, path: str, names: Sequence[str]) -> None:
    """Check names of functions, bare or qualified."""
    found.at_most(path, len(names), NAMES, "names")
    for index, name in enumerate(names):
        found.text(f"{path}[{index}]", name, QUALIFIED_CHARACTERS, required=True)


# -- who is told ---------------------------------------------------------------------------------


def lifecycle_hooks(found: Violations, path: str, given: Sequence[agent_pb2.LifecycleHook]) -> None:
    """Check who is told what happens."""
    found.at_most(path, len(given), LIFECYCLE_HOOKS, "lifecycle hooks")
    for index, one in enumerate(given):
        where = f"{path}[{index}]"
        if one.HasField("hook"):
            hook_ref(found, f"{where}.hook", one.hook)
        else:
            found.add(f"{where}.hook", "is required")
        for number, moment in enumerate(one.moments):
            found.enum(f"{where}.moments[{number}]", moment, agent_pb2.LifecycleMoment, required=True)
