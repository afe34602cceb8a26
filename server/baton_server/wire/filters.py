"""What changes a model's input, as data: `baton.v1.InputFilter` as the core's values, and back."""

from __future__ import annotations

from collections.abc import Iterable

from baton.v1 import agent_pb2
from baton_server.core.agents import InputFilter, KeepLast, RemoveAllTools, TrimOutputs
from baton_server.core.tools import HookRef
from baton_server.wire.refs import read_ref, unknown_arm, write_ref

_TRIM_NUMBERS = ("recent_messages", "max_chars", "preview_chars")
_TRIM_DEFAULTS = TrimOutputs()


def read_filters(messages: Iterable[agent_pb2.InputFilter]) -> tuple[InputFilter, ...]:
    """Read a chain of filters. Raises ValueError: one of them is not known here."""
    return tuple(_read_filter(message) for message in messages)


def write_filters(filters: Iterable[InputFilter]) -> list[agent_pb2.InputFilter]:
    """Write a chain of filters."""
    return [_write_filter(one) for one in filters]


def _read_filter(message: agent_pb2.InputFilter) -> InputFilter:
    match message.WhichOneof("filter"):
        case "hook":
            return read_ref(message.hook)
        case "keep_last":
            return KeepLast(items=message.keep_last.items)
        case "trim_outputs":
            trim = message.trim_outputs
            said = {name: getattr(trim, name) for name in _TRIM_NUMBERS if trim.HasField(name)}  # type: ignore[arg-type]  # one name of three
            return TrimOutputs(functions=tuple(trim.functions), **said)
        case "remove_all_tools":
            return RemoveAllTools()
        case _:
            raise unknown_arm("a filter of the model's input")


def _write_filter(one: InputFilter) -> agent_pb2.InputFilter:
    match one:
        case HookRef():
            return agent_pb2.InputFilter(hook=write_ref(one))
        case KeepLast(items=items):
            return agent_pb2.InputFilter(keep_last=agent_pb2.KeepLast(items=items))
        case TrimOutputs(functions=functions):
            trim = agent_pb2.TrimOutputs(functions=functions)
            for name in _TRIM_NUMBERS:
                # A default is absent: it is part of the contract, and as it was said.
                if getattr(one, name) != getattr(_TRIM_DEFAULTS, name):
                    setattr(trim, name, getattr(one, name))
            return agent_pb2.InputFilter(trim_outputs=trim)
        case RemoveAllTools():
            return agent_pb2.InputFilter(remove_all_tools=agent_pb2.RemoveAllTools())
