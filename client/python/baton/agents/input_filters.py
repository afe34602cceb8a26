"""Filters of what a model request carries, or the receiver of a handoff sees: functions, hooks elsewhere, and data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from baton.checks import check_whole
from baton.handoff_filters import remove_all_tools
from baton.hooks import RemoteHook
from baton.hooks.refs import RefOf, hook_use
from baton.options import options
from baton.v1 import agent_pb2

MOST_FILTERS = 8
"""One after another (agent.proto, Handoff.input_filters)."""


@options
@dataclass(frozen=True)
class KeepLast:
    """A filter without a program: only the newest items. An output whose call is cut off goes with it."""

    items: int

    def __post_init__(self) -> None:
        check_whole("KeepLast: items", self.items, 1)


@options
@dataclass(frozen=True)
class ToolOutputTrimmer:
    """A filter without a program: old, long outputs of functions are replaced by a preview, if that is shorter.

    Items from the last `recent_turns` user messages on stay whole, and outputs up to `max_output_chars`. The preview
    has `preview_chars`. `trimmable_tools`: names of functions, one or several; None: all.
    """

    recent_turns: int = 2
    max_output_chars: int = 500
    preview_chars: int = 200
    trimmable_tools: str | Iterable[str] | None = None

    def __post_init__(self) -> None:
        for name in ("recent_turns", "max_output_chars", "preview_chars"):
            check_whole(f"ToolOutputTrimmer: {name}", getattr(self, name), 1)
        given = self.trimmable_tools
        listed = (given,) if isinstance(given, str) else None if given is None else tuple(sorted(given))
        object.__setattr__(self, "trimmable_tools", listed)


TrimOutputs = ToolOutputTrimmer
"""By the contract's name."""

DataFilter = KeepLast | ToolOutputTrimmer
AnyFilter = Callable[[Any], Any] | RemoteHook | DataFilter


def listed_filters(option: str, given: object) -> list[Any]:
    """List filters that are given as one or as a list. Raises TypeError, or ValueError for too many."""
    filters = list(given) if isinstance(given, list | tuple) else [] if given is None else [given]
    for one in filters:
        if not isinstance(one, RemoteHook | DataFilter) and not callable(one):
            raise TypeError(
                f"{option} must be a function or a RemoteHook, not {one!r}; or one that is data, as KeepLast"
            )
    if len(filters) > MOST_FILTERS:
        raise ValueError(f"{option} has at most {MOST_FILTERS} filters, not {len(filters)}")
    return filters


def filters_to_pb(
    filters: Iterable[Any],
    kind: str,
    ref_of: RefOf,
    arguments: Callable[[Any], tuple[Any, ...]] | None = None,
    answer: Callable[[Any, Any], Any] | None = None,
) -> list[agent_pb2.InputFilter]:
    """Write `baton.v1.InputFilter`s. `kind`, `arguments`, `answer`: of those that are programs, as of `hook_use`."""
    written: list[agent_pb2.InputFilter] = []
    for one in filters:
        data = _data_to_pb(one)
        if data is None:
            data = agent_pb2.InputFilter(hook=ref_of(hook_use(kind, one, arguments, answer)))
        written.append(data)
    return written


def _data_to_pb(given: object) -> agent_pb2.InputFilter | None:
    """Write a filter that is data; None: it is a program."""
    match given:
        case KeepLast(items=items):
            return agent_pb2.InputFilter(keep_last=agent_pb2.KeepLast(items=items))
        case ToolOutputTrimmer():
            trim = agent_pb2.TrimOutputs(
                recent_messages=given.recent_turns,
                max_chars=given.max_output_chars,
                preview_chars=given.preview_chars,
                functions=given.trimmable_tools or (),
            )
            return agent_pb2.InputFilter(trim_outputs=trim)
        case _ if given is remove_all_tools:
            return agent_pb2.InputFilter(remove_all_tools=agent_pb2.RemoveAllTools())
        case _:
            return None
