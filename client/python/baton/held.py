"""Calls that this worker holds: executes each once, and keeps its result until the server has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from baton.context import RunContext
from baton.outputs import MAX_RESULT_BYTES, result_of, result_of_error, within_limit
from baton.tools import FunctionTool
from baton.v1 import error_pb2, handler_pb2

ACK_AFTER_S = 0.5
"""A call that takes longer is acked by itself; a faster one by its result. The server waits for 5 s."""

STOP_S = 2.0
"""How long closing waits for functions that were cancelled and go on all the same."""

CREDIT_SHARE = 4
"""Credit goes back when this part of all of it has gathered: a frame for several calls."""

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
    """An attempt. `task` executes it; `thread` as well, where the function is no coroutine."""

    call: handler_pb2.Call
    context: RunContext[Any]
    handler: Handler
    since: float
    entered: bool = False
    task: asyncio.Task[handler_pb2.Result] | None = None
    thread: ThreadFuture[Any] | None = None
    ack_timer: asyncio.TimerHandle | None = None
    result: handler_pb2.Result | None = None
    cancel: handler_pb2.Cancel | None = None
    replaced: bool = False

    @property
    def begun(self) -> bool:
        """The function's code was entered."""
        if self.thread is not None:
            return self.thread.running() or (self.thread.done() and not self.thread.cancelled())
        return self.entered


class HeldCalls:
    """All that one worker holds, over as many streams as it takes. `send` drops frames while there is none."""

    def __init__(self, send: Send, max_concurrency: int, ack_after_s: float = ACK_AFTER_S) -> None:
        self._send = send
        self._max = max_concurrency
        self._ack_after_s = ack_after_s
        self._held: dict[str, _Held] = {}
        self._running: dict[asyncio.Task[handler_pb2.Result], _Held] = {}
        self._credit_due = 0
        self._threads: ThreadPoolExecutor | None = None
        self.max_result_bytes = MAX_RESULT_BYTES
        self.idle = asyncio.Event()
        self.idle.set()

    # -- what the stream asks --------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._held)

    def manifest(self) -> list[handler_pb2.HeldAttempt]:
        """Name all that is held, for Hello. What ends after this is told on the new stream."""
        return [
            handler_pb2.HeldAttempt(
                call_id=held.call.call_id,
                attempt=held.call.attempt,
                begun=held.begun or held.result is not None,
                finished=held.result is not None,
            )
            for held in self._held.values()
        ]

    def opening_credit(self) -> int:
        """Say how many calls may come on a new stream, on which none has been granted yet."""
        self._credit_due = 0
        return max(self._max - len(self._running), 0)

    def obey(self, verdicts: Iterable[handler_pb2.AttemptVerdict]) -> None:
        """Do what Welcome says about the attempts of the manifest."""
        for verdict in verdicts:
            held = self._find(verdict.call_id, verdict.attempt)
            if held is None:
                continue
            if verdict.verdict == handler_pb2.HELD_VERDICT_CONTINUE:
                self._send_again(held)
            elif verdict.verdict in (
                handler_pb2.HELD_VERDICT_ABANDON,
                handler_pb2.HELD_VERDICT_ALREADY_SETTLED,
            ):
                self._stop(held)
                self._forget(held)
        self._give_credit(0)

    # -- frames of the server --------------------------------------------------------------------

    def accept(self, call: handler_pb2.Call, handler: Handler) -> None:
        """Execute a call, unless it is held already; a higher attempt takes the place of a lower one."""
        held = self._held.get(call.call_id)
        if held is not None and held.call.attempt >= call.attempt:
            self._give_credit(1)
            if held.call.attempt == call.attempt:
                self._send_again(held)
            return
        if held is not None:
            self._stop(held)
            self._forget(held)
        loop = asyncio.get_running_loop()
        held = _Held(call=call, handler=handler, context=_context(call, handler), since=loop.time())
        _log.info("%s begun (%s, attempt %d)", call.name, call.call_id, call.attempt)
        _log.debug("%s: arguments of %s: %s", call.name, call.call_id, call.arguments_json)
        self._held[call.call_id] = held
        self.idle.clear()
        held.task = asyncio.create_task(self._execute(held), name=f"baton call {call.call_id}")
        self._running[held.task] = held
        held.ack_timer = loop.call_later(self._ack_after_s, self._ack, held)
        held.task.add_done_callback(self._ended)

    def cancel(self, cancel: handler_pb2.Cancel) -> None:
        """Stop a call. Its CancelAck is sent when it is known what became of it."""
        held = self._find(cancel.call_id, cancel.attempt)
        if held is None:
            self._ack_cancel(cancel, handler_pb2.CANCEL_OUTCOME_NOT_STOPPED)
            return
        held.cancel = cancel
        held.context.cancelled.set()
        if held.result is not None:
            self._ack_cancel(cancel, handler_pb2.CANCEL_OUTCOME_NOT_STOPPED)
            self._forget(held)
        elif held.thread is not None and not held.thread.cancel():
            self._ack_cancel(cancel, handler_pb2.CANCEL_OUTCOME_NOT_STOPPED)
        elif held.task is not None:
            held.task.cancel()

    def acked(self, ack: handler_pb2.ResultAck) -> None:
        """Forget a result that the server has; send words for the model in place of one that it refuses."""
        held = self._find(ack.call_id, ack.attempt)
        if held is None or held.result is None:
            return
        if ack.verdict == handler_pb2.RESULT_VERDICT_REFUSED:
            self.refused(ack.call_id, ack.attempt, ack.error)
        else:
            self._forget(held)

    def refused(self, call_id: str, attempt: int, error: error_pb2.Error) -> None:
        """Replace a result that cannot be taken as it is; give the call back if that one cannot either."""
        held = self._find(call_id, attempt)
        if held is None or held.result is None:
            return
        _log.error("the result of %s, call %s, was refused: %s", held.call.name, call_id, error.message)
        if held.replaced:
            self._send(
                handler_pb2.ConnectRequest(
                    nack=handler_pb2.Nack(
                        call_id=call_id, attempt=attempt, reason=f"result refused: {error.message}"[:256]
                    )
                )
            )
            self._forget(held)
            return
        held.replaced = True
        held.result = handler_pb2.Result(
            call_id=call_id,
            attempt=attempt,
            failure=f"The function's result could not be delivered: {error.message or 'it was refused'}",
        )
        self._send_again(held)

    def send_result(self, call_id: str, attempt: int) -> None:
        """Send a kept result again."""
        held = self._find(call_id, attempt)
        if held is not None:
            self._send_again(held)

    async def close(self) -> None:
        """Stop all that runs and forget it. The server gives it to another worker."""
        for held in list(self._held.values()):
            self._stop(held)
            self._forget(held)
        if self._running:
            await asyncio.wait(list(self._running), timeout=STOP_S)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    # -- the execution ---------------------------------------------------------------------------

    async def _execute(self, held: _Held) -> handler_pb2.Result:
        task = asyncio.current_task()
        try:
            result = result_of(await self._call(held))
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling():
                raise
            result = result_of_error(error)  # the function's own; nobody cancelled the call
        except Exception as error:  # noqa: BLE001 - the boundary of user code: whatever it raises is its result
            result = result_of_error(error)
            if result.HasField("crash"):
                _log.exception("the function %s failed in call %s", held.call.name, held.call.call_id)
        result.call_id, result.attempt = held.call.call_id, held.call.attempt
        return within_limit(result, self.max_result_bytes)

    async def _call(self, held: _Held) -> Any:
        tool = held.handler.tool
        if tool.in_thread is None:
            held.entered = True
            return await tool.on_invoke_tool(held.context, held.call.arguments_json)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._max, thread_name_prefix="baton-function")
        held.thread = tool.in_thread.begin(held.context, held.call.arguments_json, self._threads)
        return await asyncio.wrap_future(held.thread)

    def _ended(self, task: asyncio.Task[handler_pb2.Result]) -> None:
        held = self._running.pop(task)
        if held.ack_timer is not None:
            held.ack_timer.cancel()
        result = None if task.cancelled() else task.result()
        _log_end(held, result)
        if self._held.get(held.call.call_id) is held:
            if result is None:
                self._stopped(held)
            else:
                self._finished(held, result)
        self._give_credit(1)

    def _finished(self, held: _Held, result: handler_pb2.Result) -> None:
        held.result = result
        if held.cancel is None:
            self._send_again(held)
            return
        if held.thread is None:  # a thread's was answered at once
            self._ack_cancel(held.cancel, handler_pb2.CANCEL_OUTCOME_NOT_STOPPED)
        if held.cancel.grace.ToTimedelta():
            self._send(handler_pb2.ConnectRequest(result=result))
        self._forget(held)

    def _stopped(self, held: _Held) -> None:
        self._forget(held)
        if held.cancel is not None:
            stopped, not_begun = (
                handler_pb2.CANCEL_OUTCOME_STOPPED,
                handler_pb2.CANCEL_OUTCOME_NOT_BEGUN,
            )
            self._ack_cancel(held.cancel, stopped if held.begun else not_begun)

    # -- small moves -----------------------------------------------------------------------------

    def _find(self, call_id: str, attempt: int) -> _Held | None:
        held = self._held.get(call_id)
        return held if held is not None and held.call.attempt == attempt else None

    def _stop(self, held: _Held) -> None:
        held.context.cancelled.set()
        if held.task is not None:
            held.task.cancel()

    def _forget(self, held: _Held) -> None:
        self._held.pop(held.call.call_id, None)
        if not self._held:
            self.idle.set()

    def _send_again(self, held: _Held) -> None:
        if held.result is not None:
            self._send(handler_pb2.ConnectRequest(result=held.result))
        else:
            self._ack(held)

    def _ack(self, held: _Held) -> None:
        ack = handler_pb2.CallAck(call_id=held.call.call_id, attempt=held.call.attempt)
        self._send(handler_pb2.ConnectRequest(call_ack=ack))

    def _ack_cancel(self, cancel: handler_pb2.Cancel, outcome: handler_pb2.CancelOutcome.ValueType) -> None:
        ack = handler_pb2.CancelAck(call_id=cancel.call_id, attempt=cancel.attempt, outcome=outcome)
        self._send(handler_pb2.ConnectRequest(cancel_ack=ack))

    def _give_credit(self, calls: int) -> None:
        self._credit_due += calls
        if self._credit_due >= max(self._max // CREDIT_SHARE, 1):
            credit = handler_pb2.Credit(messages=self._credit_due)
            self._credit_due = 0
            self._send(handler_pb2.ConnectRequest(credit=credit))


def _log_end(held: _Held, result: handler_pb2.Result | None) -> None:
    """Tell how an execution ended. What was returned is private, and told at DEBUG alone."""
    outcome = result.WhichOneof("outcome") if result is not None else None
    word = _OUTCOMES.get(outcome or "", "answered") if result is not None else "stopped"
    took_s = asyncio.get_running_loop().time() - held.since
    took = f"{took_s * 1000:.0f} ms" if took_s < 1 else f"{took_s:.1f} s"
    _log.info("%s %s after %s (%s, attempt %d)", held.call.name, word, took, held.call.call_id, held.call.attempt)
    if outcome not in (None, "crash") and _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s: %s of %s: %s", held.call.name, outcome, held.call.call_id, getattr(result, outcome))


def _context(call: handler_pb2.Call, handler: Handler) -> RunContext[Any]:
    return RunContext(
        call_id=call.call_id,
        attempt=call.attempt,
        tool_name=call.name,
        tool_arguments=call.arguments_json,
        session_id=call.session_id,
        turn_id=call.turn_id,
        agent_name=call.agent,
        idempotency_key=call.idempotency_key,
        may_have_run=call.may_have_run,
        context=handler.context,
    )
