"""What a function may know about its call, beside its arguments, and what it may say while it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import pydantic_core

from baton.context.run_context import RunContextWrapper
from baton.v1 import event_pb2, handler_pb2

TContext = TypeVar("TContext")

MAX_REPORT_BYTES = 64 * 1024
"""Of one report (event.proto, CallProgress)."""

EXTENSION_S = (1.0, 3600.0)
"""Least and most that a lease is extended by at once (handler.proto, Extend)."""

_LOCK = threading.Lock()
"""Of the flags of all cancellations; held for a moment."""


class Cancellation:
    """Whether the result of a call is of no use any more, and why.

    A thread asks `is_set()` or waits with `wait(timeout)`; a coroutine may `await` it. `reason`: the name of the
    `baton.v1.CancelReason` in small letters, such as "turn_ended" or "timeout"; empty: none was given, or not set.
    """

    __slots__ = ("_event", "_flag", "_set", "reason")

    def __init__(self) -> None:
        self._set = False
        self._flag: threading.Event | None = None  # few calls are waited on: both are made when one is
        self._event: asyncio.Event | None = None
        self.reason = ""

    def is_set(self) -> bool:
        """Tell whether it is cancelled. From any thread."""
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Block a thread until it is cancelled, or for so many seconds; tell whether it is. Not on an event loop."""
        with _LOCK:
            flag = self._flag = self._flag or threading.Event()
        return self._set or flag.wait(timeout)

    def __await__(self) -> Generator[Any, None, bool]:
        """Wait in a coroutine until it is cancelled."""
        self._event = self._event or asyncio.Event()
        if self._set:
            self._event.set()
        return self._event.wait().__await__()

    def set(self, reason: str = "") -> None:
        """Cancel, on the event loop whose coroutines wait. Once is enough; the first reason stays."""
        if self._set:
            return
        self.reason = reason
        with _LOCK:
            self._set = True
            flag = self._flag
        if flag is not None:
            flag.set()
        if self._event is not None:
            self._event.set()


class Line(Protocol):
    """How a call that runs reaches the server. From any thread."""

    def report(self, progress: event_pb2.CallProgress) -> None:
        """Report; the call's ids and the number are filled in here."""

    def extend(self, seconds: float) -> None:
        """Ask for a longer lease."""


class _NoLine:
    """Of a context that stands for no call of a server: what is said goes nowhere."""

    def report(self, progress: event_pb2.CallProgress) -> None:
        """Drop it."""

    def extend(self, seconds: float) -> None:
        """Drop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(RunContextWrapper[TContext]):
    """One call of a function. Ask for it with a first parameter that is annotated with this class.

    `tool_arguments` is the model's own text, byte for byte. `idempotency_key` is the same for every attempt of
    the call; `may_have_run` says that an earlier attempt may have done its work already: look before you leap.
    `deadline`: when the server gives the call up, if it was acked at once; None: never. `cancelled` is set when the
    result is of no use any more: a function in a thread has to look at it, a coroutine is cancelled besides.
    `context` is what `Runner.run(context=…)` was given; it never leaves this process. None in a `Worker`.
    """

    call_id: str
    attempt: int
    tool_name: str
    tool_arguments: str
    session_id: str
    turn_id: str
    agent_name: str
    idempotency_key: str
    may_have_run: bool
    deadline: datetime | None = None
    cancelled: Cancellation = field(default_factory=Cancellation)
    line: Line = field(default_factory=_NoLine, repr=False, compare=False)

    @property
    def tool_call_id(self) -> str:
        """The call's id, by the Agents SDK's name. It is Baton's id, not the model's."""
        return self.call_id

    def progress(self, report: Any = None, *, output_so_far: str | None = None) -> None:
        """Tell who watches how it goes. From coroutines and threads; it never waits.

        `report`: words, or data that has a JSON form. `output_so_far`: the output as far as it goes, in place of
        the report before. The model sees none of it. Under load reports are skipped, the newest is not. Texts are
        cut at 64 KiB. Raises ValueError where both or neither is given, or data is larger than that.
        """
        self.line.report(_report(report, output_so_far))

    def extend(self, seconds: float) -> None:
        """Ask for a lease of so many seconds from now, 1 to 3600. From coroutines and threads; it never waits.

        A worker that is alive keeps its calls anyway; this is for a function that stops the whole process from
        answering, such as a long computation that does not let go of the interpreter. It moves no deadline.
        """
        least, most = EXTENSION_S
        if not least <= seconds <= most:
            raise ValueError(f"a lease is extended by {least:g} to {most:g} seconds, not {seconds!r}")
        self.line.extend(seconds)


ToolContext = RunContext


def _report(report: Any, output_so_far: str | None) -> event_pb2.CallProgress:
    if (report is None) == (output_so_far is None):
        raise ValueError("progress takes a report, or output_so_far; exactly one")
    if output_so_far is not None:
        return event_pb2.CallProgress(output_so_far=_cut(output_so_far))
    if isinstance(report, str):
        return event_pb2.CallProgress(text=_cut(report))
    data = pydantic_core.to_json(report, inf_nan_mode="strings")
    if len(data) > MAX_REPORT_BYTES:
        raise ValueError(f"a report has at most {MAX_REPORT_BYTES} bytes of JSON, not {len(data)}")
    return event_pb2.CallProgress(progress_json=data.decode())


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:MAX_REPORT_BYTES].decode("utf-8", "ignore")


def deadline_of(asked: handler_pb2.Call | handler_pb2.Hook) -> datetime | None:
    """Say when the server gives up; None: never."""
    return asked.deadline.ToDatetime(UTC) if asked.HasField("deadline") else None
