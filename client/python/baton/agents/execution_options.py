"""How functions are executed: what a program may say about it, checked, and as the contract carries it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from baton.agents.tool_errors import ErrorWords
from baton.v1 import agent_pb2, handler_pb2

SideEffects = Literal["none", "idempotent", "once"]
LostWorker = Literal["redeliver", "ask"]
TimeoutBehavior = Literal["error_as_result", "raise_exception"]

MOST_FIELDS = 16
MOST_AT_ONCE = 10_000
VERSION_CHARACTERS = 64

_BOUNDS: Mapping[str, tuple[float, float, str]] = {
    "timeout": (0.001, 24 * 3600.0, "0.001 to 86,400 seconds"),
    "expires": (1.0, 30 * 24 * 3600.0, "1 to 2,592,000 seconds"),
    "max_attempts": (1, 100, "1 to 100"),
    "max_concurrency": (1, MOST_AT_ONCE, "1 to 10,000"),
}
"""Least, most, and both in words, of the options that are numbers."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    "side_effects": get_args(SideEffects),
    "lost_worker": get_args(LostWorker),
    "timeout_behavior": get_args(TimeoutBehavior),
}


class FunctionOptions(TypedDict, total=False):
    """How a function is executed; what is left out is not said, and an agent elsewhere may say it.

    `version`: of the definition, to 64 characters; other versions of the name stand beside it. `timeout`: seconds from
    when the call has first arrived, over all attempts, 1 ms to 24 h. `timeout_behavior`: "error_as_result" tells the
    model; "raise_exception" fails the run with ToolTimeoutError. `side_effects`: what it does to the world: "none", it
    only reads; "idempotent", it is harmless twice under one idempotency key; "once", it is harmful twice, so that a
    call whose worker was lost is not delivered again before somebody has said so. `idempotency_fields`: arguments, as
    JSON Pointers such as "/order/id", that make the idempotency key: calls that are equal in them are one. At most 16.
    `max_concurrency`: calls of it at a time in this process, 1 to 10,000. `failure_error_function`: what the model is
    told of an exception: a function `(context, error)` of this process that gives a text; a text; a `RemoteHook`;
    None: nothing, the run fails with UserError; left out: the run's `tool_error_formatter`, else a sentence of the
    server's. A FunctionError stays what it is: words for the model.
    """

    version: str
    timeout: float | None
    timeout_behavior: TimeoutBehavior
    side_effects: SideEffects | None
    idempotency_fields: Sequence[str]
    max_concurrency: int | None
    failure_error_function: ErrorWords | None


def check_options(name: str, options: Any) -> None:
    """Check what an object says of these, as far as it has them. Raises TypeError or ValueError, with the value."""
    for option, (least, most, words) in _BOUNDS.items():
        value = getattr(options, option, None)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"{name}: {option} must be a number, not {value!r}")
        if value is not None and not least <= value <= most:
            raise ValueError(f"{name}: {option} must be {words}, not {value!r}")
    for option, known in _WORDS.items():
        value = getattr(options, option, None)
        if value is not None and value not in known:
            raise ValueError(f"{name}: {option} must be one of {', '.join(map(repr, known))}, not {value!r}")
    if len(options.version) > VERSION_CHARACTERS:
        raise ValueError(f"{name}: version has at most {VERSION_CHARACTERS} characters, not {len(options.version)}")
    _check_fields(name, options.idempotency_fields)


def lost_worker_after(side_effects: SideEffects | None) -> LostWorker | None:
    """Say what the loss of a worker means for a function that does this to the world."""
    if side_effects is None:
        return None
    return "ask" if side_effects == "once" else "redeliver"


def execution_to_pb(
    timeout: float | None,
    lost_worker: LostWorker | None,
    idempotency_fields: Sequence[str],
    *,
    expires: float | None = None,
    max_attempts: int | None = None,
) -> agent_pb2.Execution | None:
    """Write `baton.v1.Execution`; None: nothing is said."""
    made = agent_pb2.Execution(idempotency_fields=idempotency_fields, max_attempts=max_attempts)
    if timeout is not None:
        made.timeout.FromTimedelta(timedelta(seconds=timeout))
    if expires is not None:
        made.expires.FromTimedelta(timedelta(seconds=expires))
    if lost_worker is not None:
        made.lost_worker = agent_pb2.LostWorker.Value(f"LOST_WORKER_{lost_worker.upper()}")
    return made if made != agent_pb2.Execution() else None


def handler_execution_to_pb(
    timeout: float | None, side_effects: SideEffects | None, idempotency_fields: Sequence[str]
) -> handler_pb2.HandlerExecution | None:
    """Write `baton.v1.HandlerExecution`; None: nothing is said."""
    made = handler_pb2.HandlerExecution(idempotency_fields=idempotency_fields)
    if timeout is not None:
        made.timeout.FromTimedelta(timedelta(seconds=timeout))
    if side_effects is not None:
        made.side_effects = handler_pb2.SideEffects.Value(f"SIDE_EFFECTS_{side_effects.upper()}")
    return made if made != handler_pb2.HandlerExecution() else None


def _check_fields(name: str, fields: Sequence[str]) -> None:
    if isinstance(fields, str):
        raise TypeError(f"{name}: idempotency_fields must be a list of texts, not the text {fields!r}")
    if len(fields) > MOST_FIELDS:
        raise ValueError(f"{name}: idempotency_fields are at most {MOST_FIELDS}, not {len(fields)}")
    for field in fields:
        if not field.startswith("/"):
            raise ValueError(f"{name}: an idempotency field is a JSON Pointer such as '/order/id', not {field!r}")
