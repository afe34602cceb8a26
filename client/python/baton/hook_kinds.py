"""The kinds of hooks: from the JSON of a question to a function's data, and from what it returns to JSON. Pure.

PROTOCOL.md §6 has payload and answer of each. Fields that are not known here are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import pydantic_core

from baton.calling import deadline_of
from baton.hooks import (
    CallModelData,
    EffectCheckData,
    GuardrailFunctionOutput,
    HookData,
    InputGuardrailData,
    LifecycleData,
    ModelInputData,
    Moment,
    TookEffect,
)
from baton.outputs import result_of
from baton.raw_items import write_items
from baton.v1 import event_pb2, handler_pb2, run_config_pb2

Payload = Mapping[str, Any]
Facts = Mapping[str, Any]
"""The fields of HookData."""

EFFECTS = frozenset({"none", "took_effect", "unknown"})


@dataclass(frozen=True, slots=True)
class HookKind:
    """`read` makes a function's data of facts and payload; `write` makes JSON of what the function `name` returned.

    `write` raises TypeError for what is no answer of the kind.
    """

    number: event_pb2.HandlerKind.ValueType
    read: Callable[[Facts, Payload], HookData[Any]]
    write: Callable[[str, Any], str]


def facts_of(batch: handler_pb2.HookBatch, hook: handler_pb2.Hook) -> dict[str, Any]:
    """Say whose moment a hook is asked in."""
    return {
        "session_id": batch.session_id,
        "turn_id": batch.turn_id,
        "agent_name": batch.agent,
        "round": batch.round,
        "deadline": deadline_of(hook),
    }


def payload_of(batch: handler_pb2.HookBatch, hook: handler_pb2.Hook) -> Payload:
    """Read a question. Raises ValueError where it is no JSON object."""
    shared = json.loads(batch.shared_payload_json or "{}")
    own = json.loads(hook.payload_json or "{}")
    if not isinstance(shared, dict) or not isinstance(own, dict):
        raise ValueError("the question is no JSON object")
    return {**shared, **own}


# -- the kinds -----------------------------------------------------------------------------------


def _read_guardrail(facts: Facts, payload: Payload) -> HookData[Any]:
    return InputGuardrailData(**facts, input=list(payload.get("input") or ()))


def _write_guardrail(name: str, said: Any) -> str:
    output = GuardrailFunctionOutput(None, said) if isinstance(said, bool) else said
    if not isinstance(output, GuardrailFunctionOutput):
        raise TypeError(f"the guardrail {name!r} must return a GuardrailFunctionOutput or a bool, not {_kind(said)}")
    if not isinstance(output.tripwire_triggered, bool):
        raise TypeError(f"the guardrail {name!r} says {output.tripwire_triggered!r} for tripwire_triggered, not a bool")
    tripped = "true" if output.tripwire_triggered else "false"
    return f'{{"tripped":{tripped},"info":{_dump(output.output_info)}}}'


def _read_filter(facts: Facts, payload: Payload) -> HookData[Any]:
    data = ModelInputData(input=list(payload.get("input") or ()), instructions=payload.get("instructions"))
    return CallModelData(**facts, model_data=data)


def _write_filter(name: str, said: Any) -> str:
    if not isinstance(said, ModelInputData):
        raise TypeError(f"the model input filter {name!r} must return a ModelInputData, not {_kind(said)}")
    if not isinstance(said.input, list | tuple):
        raise TypeError(f"the model input filter {name!r} must give a list of items, not {_kind(said.input)}")
    if said.instructions is not None and not isinstance(said.instructions, str):
        raise TypeError(
            f"the model input filter {name!r} must give instructions as a text or None, not {_kind(said.instructions)}"
        )
    return f'{{"instructions":{_dump(said.instructions)},"input":{write_items(said.input)}}}'


def _read_lifecycle(facts: Facts, payload: Payload) -> HookData[Any]:
    told = {name: value for name, value in payload.items() if name not in ("moment", "agent")}
    return LifecycleData(**facts, moment=str(payload.get("moment", "")), facts=told)


def _write_nothing(_name: str, _said: Any) -> str:
    return "{}"


def _read_check(facts: Facts, payload: Payload) -> HookData[Any]:
    return EffectCheckData(
        **facts,
        call_id=str(payload.get("call_id", "")),
        attempt=int(payload.get("attempt", 0)),
        tool_name=str(payload.get("tool", "")),
        tool_arguments=str(payload.get("arguments_json", "")),
        idempotency_key=str(payload.get("idempotency_key", "")),
    )


def _write_check(name: str, said: Any) -> str:
    if isinstance(said, str) and said in EFFECTS:
        return _dump({"effect": said})
    if not isinstance(said, TookEffect):
        raise TypeError(
            f'the check of {name!r} must return "none", "took_effect", "unknown" or a TookEffect, not {said!r}'[:500]
        )
    result = result_of(said.output)
    match result.WhichOneof("outcome"):
        case "output":
            output = _dump(result.output)
        case "output_json":
            output = result.output_json
        case _:
            raise TypeError(f"the check of {name!r} gives content parts; only a text or data can stand for an output")
    return f'{{"effect":"took_effect","output":{output}}}'


HOOK_KINDS: Mapping[str, HookKind] = {
    "input_guardrail": HookKind(event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, _read_guardrail, _write_guardrail),
    "model_input_filter": HookKind(event_pb2.HANDLER_KIND_MODEL_INPUT_FILTER, _read_filter, _write_filter),
    "lifecycle": HookKind(event_pb2.HANDLER_KIND_LIFECYCLE, _read_lifecycle, _write_nothing),
    "effect_check": HookKind(event_pb2.HANDLER_KIND_EFFECT_CHECK, _read_check, _write_check),
}
"""Every kind by its name here."""

MOMENTS: Mapping[str, run_config_pb2.LifecycleMoment.ValueType] = {
    name: run_config_pb2.LifecycleMoment.Value(f"LIFECYCLE_MOMENT_{name.upper()}") for name in get_args(Moment)
}


def kind_word(number: event_pb2.HandlerKind.ValueType) -> str:
    """Say a kind by its name here, such as "lifecycle"."""
    return event_pb2.HandlerKind.Name(number).removeprefix("HANDLER_KIND_").lower()


def _dump(value: Any) -> str:
    try:
        return pydantic_core.to_json(value, inf_nan_mode="strings").decode()
    except pydantic_core.PydanticSerializationError as error:
        raise TypeError(f"{_kind(value)} has no JSON form: {error}") from error


def _kind(value: Any) -> str:
    return type(value).__name__
