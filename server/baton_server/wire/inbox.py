"""Inputs of the Runner as JSON, for the inbox: what `ports.codec.Codec.input` writes.

A value is an object with its kind and the fields that are not at their default, so that a field added later
reads as its default from older rows. Kinds are names of this file's own: renaming a class changes nothing at
rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from baton_server.core import events, inputs, items, jsontext
from baton_server.core.errors import Failure
from baton_server.core.inputs import Input

KINDS: Mapping[str, type] = {
    "begun": inputs.Begun,
    "steered": inputs.Steered,
    "model_replied": inputs.ModelReplied,
    "model_tried": inputs.ModelTried,
    "model_failed": inputs.ModelFailed,
    "call_settled": inputs.CallSettled,
    "attempt_failed": inputs.AttemptFailed,
    "cancel_asked": inputs.CancelAsked,
    "call_timed_out": inputs.CallTimedOut,
    "call_expired": inputs.CallExpired,
    "redelivery_asked": inputs.RedeliveryAsked,
    "decision_made": inputs.DecisionMade,
    "hook_answered": inputs.HookAnswered,
    "calls_unheld": inputs.CallsUnheld,
    "text_cut_off": inputs.TextCutOff,
    "grace_over": inputs.GraceOver,
    "broken": inputs.Broken,
    "item": inputs.NewItem,
    "message": items.Message,
    "reasoning": items.Reasoning,
    "function_call": items.FunctionCall,
    "function_call_output": items.FunctionCallOutput,
    "handoff_call": items.HandoffCall,
    "handoff_output": items.HandoffOutput,
    "hosted": items.Hosted,
    "text": items.TextPart,
    "refusal": items.RefusalPart,
    "image": items.ImagePart,
    "file": items.FilePart,
    "other": items.OtherPart,
    "usage": items.Usage,
    "failure": Failure,
    "decision": events.Decision,
}
_NAMES: Mapping[type, str] = {kind: name for name, kind in KINDS.items()}
_KIND = "kind"

Convert = Callable[[Any], Any]


def write_input(given: Input) -> bytes:
    """Write an input as compact JSON."""
    return jsontext.dump(_write(given)).encode()


def read_input(data: bytes) -> Input:
    """Read it back. Raises ValueError on a kind that is not known here."""
    given: Input = _read_object(json.loads(data))
    return given


def _write(value: Any) -> Any:
    """Write a value of any type that inputs are made of."""
    if isinstance(value, tuple):
        return [_write(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    name = _NAMES.get(type(value))
    if name is None:
        return value
    written: dict[str, Any] = {_KIND: name}
    for key, default in _DEFAULTS[type(value)]:
        held = getattr(value, key)
        if held != default:
            written[key] = _write(held)
    return written


def _read_object(raw: Mapping[str, Any]) -> Any:
    kind = KINDS.get(raw[_KIND])
    if kind is None:
        raise ValueError(f"the inbox holds an input of the kind {raw[_KIND]!r}, which this release does not know")
    readers = _READERS[kind]
    return kind(**{key: readers[key](value) for key, value in raw.items() if key != _KIND})


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else MISSING


def _reader(hint: Any) -> Convert:
    """Make what reads a value of an annotated type; objects say their class themselves."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        arms = [arm for arm in get_args(hint) if arm is not NoneType]
        return _optional(_reader(arms[0]))
    if origin is tuple:
        inner = _reader(get_args(hint)[0])
        return lambda raw: tuple(inner(one) for one in raw)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if hint in _NAMES:
        return _read_object
    return _as_it_is


def _optional(inner: Convert) -> Convert:
    return lambda raw: None if raw is None else inner(raw)


def _as_it_is(raw: Any) -> Any:
    return raw


_DEFAULTS: Mapping[type, tuple[tuple[str, Any], ...]] = {
    kind: tuple((field.name, _default(field)) for field in fields(kind)) for kind in KINDS.values()
}
_READERS: Mapping[type, Mapping[str, Convert]] = {
    kind: {name: _reader(hint) for name, hint in get_type_hints(kind).items()} for kind in KINDS.values()
}
