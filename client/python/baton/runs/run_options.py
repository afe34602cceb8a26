"""What a run is told beside its configuration: its limit, its memory, what stands for errors, who is told.

`Runner` makes it of its arguments; `run_config.config_to_pb` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from baton.v1 import run_config_pb2

if TYPE_CHECKING:
    from baton.agents.lifecycle import RunHooks

DEFAULT_MAX_TURNS = 10
"""Rounds of a run, as with the Agents SDK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The arguments of one run. `max_turns` None: no limit. `scopes`: this process's own, before those of the config.

    `history` None: the session's (RunConfig.history absent). `error_handlers`: functions or fixed outputs, by error,
    as `error_handlers.checked_handlers` takes them. `hooks` None: nobody is told.
    """

    max_turns: int | None = DEFAULT_MAX_TURNS
    scopes: Sequence[str] = ()
    history: run_config_pb2.History | None = None
    error_handlers: Mapping[str, Any] | None = None
    hooks: RunHooks[Any] | None = None
