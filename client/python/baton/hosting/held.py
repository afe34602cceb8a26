"""Calls that this worker holds: executes each once, and keeps its result until the server has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from baton.agents.tools import FunctionTool
from baton.context.call_context import RunContext
from baton.hosting.calling import CallLine, context_of, not_begun, reason_of
from baton.hosting.credit import Credit
from baton.hosting.execution import STOP_S, Execution, Gates, Threads
from baton.hosting.failures import result_of_failure
from baton.hosting.journal import Journal
from baton.hosting.kept import Kept
from baton.hosting.reports import REPORT_EVERY_S, Reports
from baton.items.outputs import MAX_RESULT_BYTES, result_of, within_limit
from baton.v1 import error_pb2, handler_pb2

ACK_AFTER_S = 0.5
"""A call that takes longer is acked by itself; a faster one by its result. The server waits for 5 s."""

ACK_TIMED_AFTER_S = 0.01
"""The same of a call that times out: the time runs from its ack."""

MOST_KEPT_BYTES = 64 * 1024 * 1024
"""Payload of results without their ack beyond which no more calls are asked for."""

UNWRITABLE_S = 5
"""How long a call is not delivered again that was given back because the journal cannot be written."""

_log = logging.getLogger("baton.worker.calls")

_OUTCOMES = {"failure": "failed", "crash": "crashed"}
"""How logs call an execution that gave no result."""

Send = Callable[[handler_pb2.ConnectRequest], None]


@dataclass(frozen=True, slots=True)
class Handler:
    """What serves a name: a function, and the application's context of the run that brought it."""

    tool: FunctionTool
    context: Any = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Held:
    """An attempt that waits for its place or runs. `extended_until`: by the loop's clock; 0: it never asked."""

    call: handler_pb2.Call
    context: RunContext[Any]
    handler: Handler
    since: float
    size_bytes: int
    reports: Reports
    execution: Execution = field(default_factory=Execution)
    task: asyncio.Task[handler_pb2.Result | None] | None = None
    ack_timer: asyncio.TimerHandle | None = None
    cancel: handler_pb2.Cancel | None = None
    extended_until: float = 0.0


class HeldCalls:
    """All that one worker holds, over as many streams as it takes. `send` drops frames while there is none.

    `max_argument_bytes` None: the server may send any. `ready`: whether the stream takes reports at the moment.
    """

    def __init__(
        self,
        send: Send,
        max_concurrency: int,
        ack_after_s: float = ACK_AFTER_S,
        *,
        max_argument_bytes: int | None = None,
        journal: Journal | None = None,
        ready: Callable[[], bool] = lambda: True,
        report_every_s: float = REPORT_EVERY_S,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._ready = ready
        self._ack_after_s = ack_after_s
        self._report_every_s = report_every_s
        self._journal = journal
        self._held: dict[str, _Held] = {}
        self._running: dict[asyncio.Task[handler_pb2.Result | None], _Held] = {}
        self._kept = Kept(send, self._fewer, journal)
        self._credit = Credit(max_concurrency, max_argument_bytes)
        self._busy = self._busy_bytes = 0
        self._granting = False
        self._threads = Threads(max_concurrency, "baton-function")
        self._gates = Gates()
        self.max_result_bytes = MAX_RESULT_BYTES
        self.idle = asyncio.Event()
        self.idle.set()
        if journal is not None:
            self._kept.remember(journal.remembered())
            self._fewer()

    # -- what the stream asks --------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._held) + len(self._kept)

    def manifest(self) -> list[handler_pb2.HeldAttempt]:
        """Name all that is held, for Hello. What ends after this is told on the new stream."""
        return [
            handler_pb2.HeldAttempt(call_id=held.call.call_id, attempt=held.call.attempt, begun=held.execution.begun)
            for held in self._held.values()
        ] + self._kept.manifest()

    def opening_credit(self) -> handler_pb2.Credit:
        """Say how many calls may come on a new stream, on which none has been granted yet. None is, before `obey`."""
        self._granting = False
        return self._credit.opening(self._busy, self._busy_bytes, len(self))

    def obey(self, verdicts: Iterable[handler_pb2.AttemptVerdict]) -> None:
        """Do what Welcome says about the attempts of the manifest."""
        for verdict in verdicts:
            held = self._find(verdict.call_id, verdict.attempt)
            if held is None:
                self._kept.obey(verdict)
            elif verdict.verdict == handler_pb2.HELD_VERDICT_CONTINUE:
                self._ack(held)
                self._send_extension(held)
            elif verdict.verdict in (
                handler_pb2.HELD_VERDICT_ABANDON,
                handler_pb2.HELD_VERDICT_ALREADY_SETTLED,
            ):
                self._leave(held)
        self._granting = True
        self._grant()

    # -- frames of the server --------------------------------------------------------------------

    def accept(self, call: handler_pb2.Call, handler: Handler) -> None:
        """Execute a call, unless it is held already; a higher attempt takes the place of a lower one."""
        size = len(call.arguments_json.encode())
        self._credit.use(size)
        former = self._held.get(call.call_id)
        known = former.call.attempt if former is not None else self._kept.attempt(call.call_id)
        if known >= call.attempt:
            self._credit.free(size)
            self._grant()
            if former is not None and known == call.attempt:
                self._ack(former)
            elif known == call.attempt:
                self._kept.send_again(call.call_id, known)
            return
        self._begin(call, handler, size)
        if former is not None:
            self._stop(former, "lease_lost")
        self._kept.forget(call.call_id)

    def refuse(self, call: handler_pb2.Call, reason: str) -> None:
        """Give back a call that nothing here serves, its credit included."""
        size = len(call.arguments_json.encode())
        self._credit.use(size)
        self._credit.free(size)
        self._send(handler_pb2.ConnectRequest(nack=not_begun(call, reason)))
        self._grant()

    def cancel(self, cancel: handler_pb2.Cancel) -> None:
        """Stop a call. Its CancelAck is sent when it is known what became of it."""
        held = self._find(cancel.call_id, cancel.attempt)
        if held is None:
            self._ack_cancel(cancel, handler_pb2.CANCEL_OUTCOME_NOT_STOPPED)
            return
        held.cancel = cancel
        why = reason_of(cancel)
        _log.info(
            "%s cancelled (%s, attempt %d): %s", held.call.name, cancel.call_id, cancel.attempt, why or "no reason"
        )
        held.context.cancelled.set(why)
        if held.execution.unstoppable():
            self._ack_cancel(cancel, handler_pb2.CANCEL_OUTCOME_NOT_STOPPED)
        elif held.task is not None:
            held.task.cancel()

    def acked(self, ack: handler_pb2.ResultAck) -> None:
        """Forget a result that the server has; send words for the model in place of one that it refuses."""
        self._kept.acked(ack)

    def extended(self, ack: handler_pb2.ExtendAck) -> None:
        """Stop a call that the server says is not this worker's any more."""
        held = self._find(ack.call_id, ack.attempt)
        if held is not None and ack.HasField("error"):
            _log.warning("%s has no lease any more (%s): %s", held.call.name, ack.call_id, ack.error.message)
            self._leave(held)

    def refused(self, call_id: str, attempt: int, error: error_pb2.Error) -> None:
        """Replace a result that cannot be taken as it is; give the call back if that one cannot either."""
        self._kept.refused(call_id, attempt, error)

    def send_result(self, call_id: str, attempt: int) -> None:
        """Send a kept result again."""
        self._kept.send_again(call_id, attempt)

    async def close(self) -> None:
        """Stop all that runs and forget it. The server gives it to another worker."""
        given_up = list(self._held.values())
        self._held.clear()
        for held in given_up:
            self._stop(held)
        if self._running:
            await asyncio.wait(list(self._running), timeout=STOP_S)
        self._threads.close()

    # -- the execution ---------------------------------------------------------------------------

    def _begin(self, call: handler_pb2.Call, handler: Handler, size: int) -> None:
        reports = Reports(call, self._send, self._ready, self._report_every_s, self._loop)
        line = CallLine(reports, lambda seconds: self._extend(held, seconds), self._loop)
        held = _Held(
            call=call,
            handler=handler,
            context=context_of(call, handler.context, line),
            since=self._loop.time(),
            size_bytes=size,
            reports=reports,
        )
        _log.info("%s begun (%s, attempt %d)", call.name, call.call_id, call.attempt)
        _log.debug("%s: arguments of %s: %s", call.name, call.call_id, call.arguments_json)
        self._held[call.call_id] = held
        self._busy, self._busy_bytes = self._busy + 1, self._busy_bytes + size
        self.idle.clear()
        held.task = self._loop.create_task(self._execute(held), name=f"baton call {call.call_id}")
        self._running[held.task] = held
        ack_after_s = min(self._ack_after_s, ACK_TIMED_AFTER_S) if call.HasField("deadline") else self._ack_after_s
        held.ack_timer = self._loop.call_later(ack_after_s, self._ack, held)
        held.task.add_done_callback(self._ended)

    async def _execute(self, held: _Held) -> handler_pb2.Result | None:
        """Execute a call. None: it cannot begin, since the journal cannot be told."""
        task, tool = asyncio.current_task(), held.handler.tool
        if tool.max_concurrency is not None:
            await self._gates.enter(tool)
        try:
            error = await self._journal.begun(held.call) if self._journal is not None else None
            if error is not None:
                _log.error("%s; %s is given back", error, held.call.name)
                return None
            result = result_of(await self._call(held))
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling():
                raise
            result = await _failed(held, error)  # the function's own; nobody cancelled the call
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary of user code: that is its result
            result = await _failed(held, error)
        finally:
            if tool.max_concurrency is not None:
                held.execution.when_over(partial(self._gates.leave, tool), self._loop)
        result.call_id, result.attempt = held.call.call_id, held.call.attempt
        return within_limit(result, self.max_result_bytes)

    async def _call(self, held: _Held) -> Any:
        tool = held.handler.tool
        if tool.in_thread is None:
            return await held.execution.of_coroutine(tool.on_invoke_tool(held.context, held.call.arguments_json))
        thread = tool.in_thread.begin(held.context, held.call.arguments_json, self._threads.pool)
        return await held.execution.of_thread(thread)

    def _ended(self, task: asyncio.Task[handler_pb2.Result | None]) -> None:
        held = self._running.pop(task)
        if held.ack_timer is not None:
            held.ack_timer.cancel()
        held.reports.end()
        result = None if task.cancelled() else task.result()
        _log_end(held, result, self._loop.time() - held.since)
        if self._held.get(held.call.call_id) is held:
            if task.cancelled():
                self._stopped(held)
            elif result is None:
                self._send(handler_pb2.ConnectRequest(nack=not_begun(held.call, "no journal", UNWRITABLE_S)))
                self._leave(held)
            else:
                self._finished(held, result)
        held.execution.when_over(partial(self._free, held), self._loop)

    def _finished(self, held: _Held, result: handler_pb2.Result) -> None:
        """Keep a result, but for one that is of no use any more."""
        if held.cancel is not None and not held.execution.in_thread:  # a thread's was answered at once
            self._ack_cancel(held.cancel, handler_pb2.CANCEL_OUTCOME_NOT_STOPPED)
        if held.cancel is None or held.cancel.grace.ToTimedelta():
            self._kept.keep(result, held.call.name)
        else:
            self._kept.give_up(held.call.call_id, held.call.attempt)
        self._drop(held)

    def _stopped(self, held: _Held) -> None:
        outcome: handler_pb2.CancelOutcome.ValueType
        if held.execution.begun:
            self._kept.give_up(held.call.call_id, held.call.attempt)
            outcome = handler_pb2.CANCEL_OUTCOME_STOPPED
        else:
            self._kept.erase(held.call.call_id, held.call.attempt)
            outcome = handler_pb2.CANCEL_OUTCOME_NOT_BEGUN
        self._drop(held)
        if held.cancel is not None:
            self._ack_cancel(held.cancel, outcome)

    # -- small moves -----------------------------------------------------------------------------

    def _find(self, call_id: str, attempt: int) -> _Held | None:
        held = self._held.get(call_id)
        return held if held is not None and held.call.attempt == attempt else None

    def _stop(self, held: _Held, reason: str = "") -> None:
        held.context.cancelled.set(reason)
        if held.task is not None:
            held.task.cancel()

    def _leave(self, held: _Held) -> None:
        """Stop and forget an attempt that is not this worker's any more."""
        self._stop(held, "lease_lost")
        self._kept.erase(held.call.call_id, held.call.attempt)
        self._drop(held)

    def _drop(self, held: _Held) -> None:
        self._held.pop(held.call.call_id, None)
        self._fewer()

    def _fewer(self) -> None:
        if len(self):
            self.idle.clear()
        else:
            self.idle.set()
        self._grant()

    def _free(self, held: _Held) -> None:
        """Give back the place of a call whose code has ended."""
        self._busy, self._busy_bytes = self._busy - 1, self._busy_bytes - held.size_bytes
        self._credit.free(held.size_bytes)
        self._grant()

    def _grant(self) -> None:
        credit = None
        if self._granting and self._kept.size_bytes <= MOST_KEPT_BYTES:
            credit = self._credit.due(len(self))
        if credit is not None:
            self._send(handler_pb2.ConnectRequest(credit=credit))

    def _ack(self, held: _Held) -> None:
        ack = handler_pb2.CallAck(call_id=held.call.call_id, attempt=held.call.attempt)
        self._send(handler_pb2.ConnectRequest(call_ack=ack))

    def _ack_cancel(self, cancel: handler_pb2.Cancel, outcome: handler_pb2.CancelOutcome.ValueType) -> None:
        ack = handler_pb2.CancelAck(call_id=cancel.call_id, attempt=cancel.attempt, outcome=outcome)
        self._send(handler_pb2.ConnectRequest(cancel_ack=ack))

    def _extend(self, held: _Held, seconds: float) -> None:
        held.extended_until = max(held.extended_until, self._loop.time() + seconds)
        if self._held.get(held.call.call_id) is held:
            self._send_extension(held)

    def _send_extension(self, held: _Held) -> None:
        """Ask for what is left of a lease that was asked for; on a new stream too, for the server may be another."""
        left = round(held.extended_until - self._loop.time(), 3)
        if left >= 1:
            extend = handler_pb2.Extend(call_id=held.call.call_id, attempt=held.call.attempt)
            extend.lease.FromTimedelta(timedelta(seconds=left))
            self._send(handler_pb2.ConnectRequest(extend=extend))


async def _failed(held: _Held, error: BaseException) -> handler_pb2.Result:
    """Write what a function raised; a crash is told here too."""
    result = await result_of_failure(held.handler.tool, held.context, error)
    if result.HasField("crash"):
        _log.error("the function %s failed in call %s", held.call.name, held.call.call_id, exc_info=error)
    return result


def _log_end(held: _Held, result: handler_pb2.Result | None, took_s: float) -> None:
    """Tell how an execution ended. What was returned is private, and told at DEBUG alone."""
    outcome = result.WhichOneof("outcome") if result is not None else None
    word = _OUTCOMES.get(outcome or "", "answered") if result is not None else "stopped"
    took = f"{took_s * 1000:.0f} ms" if took_s < 1 else f"{took_s:.1f} s"
    _log.info("%s %s after %s (%s, attempt %d)", held.call.name, word, took, held.call.call_id, held.call.attempt)
    if outcome not in (None, "crash") and _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s: %s of %s: %s", held.call.name, outcome, held.call.call_id, getattr(result, outcome))
