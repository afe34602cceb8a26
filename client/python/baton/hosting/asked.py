"""Hooks that this worker is asked: runs each, beside the functions, and sends its answer on the stream that asked."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from baton.agents.tools import for_a_future
from baton.hooks import HookData, is_async
from baton.hooks.kinds import HookKind, facts_of
from baton.hooks.reading import payload_of
from baton.hosting.calling import reason_of
from baton.hosting.execution import STOP_S, Execution, Threads
from baton.items.outputs import result_of_error
from baton.v1 import handler_pb2

THREADS = 16
"""Hooks that are no coroutines and run at a time. Functions have threads of their own, so that neither waits for the
other."""

MOST_TOLD = 1_000
"""Notifications that wait for their function; what comes beyond is lost, as the contract allows."""

_log = logging.getLogger("baton.worker.hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookHandler:
    """What serves a hook: a function of one argument. `agents` by name, `context`: of the run that brought it.

    `raises`: what it raises ends the run, and is raised there once more.
    """

    kind: HookKind
    name: str
    function: Callable[[Any], Any]
    agents: Mapping[str, Any] = field(default_factory=dict)
    context: Any = None
    raises: bool = False


class Stream(Protocol):
    """Where answers go: a `Link`, or what stands for one."""

    def send(self, frame: handler_pb2.ConnectRequest) -> None:
        """Send a frame."""


FindHook = Callable[[handler_pb2.HookBatch, handler_pb2.Hook], HookHandler | None]


@dataclass(slots=True, kw_only=True, eq=False)
class _Asked:
    """A question. `link`: on which its answer goes."""

    link: Stream
    batch_id: str
    hook: handler_pb2.Hook
    handler: HookHandler
    data: HookData[Any]
    execution: Execution
    task: asyncio.Task[None] | None = None


class AskedHooks:
    """All that one worker is asked. A stream that ends takes its questions with it: the server asks again."""

    def __init__(self, find: FindHook) -> None:
        self._find = find
        self._asked: dict[str, _Asked] = {}
        self._told: dict[tuple[str, str], deque[_Asked]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = Threads(THREADS, "baton-hook")
        self.idle = asyncio.Event()
        self.idle.set()

    def ask(self, batch: handler_pb2.HookBatch, link: Stream) -> None:
        """Run what a batch asks, all at once. Notifications of one turn to one function go one after another."""
        for hook in batch.hooks:
            try:
                asked = self._read(batch, hook, link)
            except (ValueError, TypeError, LookupError) as error:
                _log.error("the hook %s cannot be answered: %s", hook.name, error)
                if not hook.notification:
                    self._answer(link, batch.batch_id, hook, error)
                continue
            if hook.notification:
                self._tell(asked, batch.turn_id)
            else:
                self._asked[hook.hook_id] = asked
                asked.task = self._spawn(self._run(asked), partial(self._over, asked))

    def cancel(self, cancel: handler_pb2.Cancel) -> bool:
        """Give up a question whose answer is not needed any more; False: it is none of these."""
        asked = self._asked.get(cancel.call_id)
        if asked is None or asked.hook.attempt != cancel.attempt:
            return False
        self._give_up(asked, reason_of(cancel))
        return True

    def left(self, link: Stream) -> None:
        """Give up what was asked on a stream that is over."""
        for asked in [one for one in self._asked.values() if one.link is link]:
            self._give_up(asked, "not_needed")

    async def close(self) -> None:
        """Stop all that runs."""
        self._told.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_S)
        self._threads.close()

    # -- questions -------------------------------------------------------------------------------

    def _read(self, batch: handler_pb2.HookBatch, hook: handler_pb2.Hook, link: Stream) -> _Asked:
        handler = self._find(batch, hook)
        if handler is None:
            raise LookupError(f"this worker does not serve the hook {hook.name!r}")
        data = handler.kind.read(facts_of(batch, hook), payload_of(batch, hook))
        agent = handler.agents.get(batch.agent)
        data = replace(data, agent=agent, agents=handler.agents, context=handler.context)
        return _Asked(link=link, batch_id=batch.batch_id, hook=hook, handler=handler, data=data, execution=Execution())

    async def _run(self, asked: _Asked) -> None:
        task = asyncio.current_task()
        said: str | BaseException
        try:
            said = asked.handler.kind.write(asked.handler.name, await self._call(asked))
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling():
                raise
            _log_failure(asked.handler, error)
            said = error  # the function's own; nobody gave the question up
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary of user code: that is its answer
            _log_failure(asked.handler, error)
            said = error
        if self._asked.get(asked.hook.hook_id) is asked:  # else it was given up, or is a notification
            self._answer(asked.link, asked.batch_id, asked.hook, said)

    async def _call(self, asked: _Asked) -> Any:
        function = asked.handler.function
        if is_async(function):
            return await asked.execution.of_coroutine(function(asked.data))
        thread = self._threads.pool.submit(copy_context().run, for_a_future, partial(function, asked.data))
        said = await asked.execution.of_thread(thread)
        return await said if inspect.isawaitable(said) else said

    def _answer(self, link: Stream, batch_id: str, hook: handler_pb2.Hook, said: str | BaseException) -> None:
        answer = handler_pb2.HookAnswer(hook_id=hook.hook_id, attempt=hook.attempt)
        if isinstance(said, str):
            answer.answer_json = said
        else:
            failed = result_of_error(said)
            if failed.HasField("crash"):
                answer.crash.CopyFrom(failed.crash)
            else:
                answer.failure = failed.failure
        answers = handler_pb2.HookAnswers(batch_id=batch_id, answers=[answer])
        link.send(handler_pb2.ConnectRequest(hook_answers=answers))

    def _give_up(self, asked: _Asked, reason: str) -> None:
        self._asked.pop(asked.hook.hook_id, None)
        asked.data.cancelled.set(reason)
        if not asked.execution.unstoppable() and asked.task is not None:
            asked.task.cancel()

    def _over(self, asked: _Asked) -> None:
        if self._asked.get(asked.hook.hook_id) is asked:
            del self._asked[asked.hook.hook_id]

    # -- notifications ---------------------------------------------------------------------------

    def _tell(self, asked: _Asked, turn_id: str) -> None:
        if sum(map(len, self._told.values())) >= MOST_TOLD:
            _log.warning("%s is behind by %d notifications; one more is lost", asked.handler.name, MOST_TOLD)
            return
        key = (turn_id, asked.handler.name)
        if key in self._told:
            self._told[key].append(asked)
        else:
            self._told[key] = deque([asked])
            self._spawn(self._tell_all(key), lambda: None)

    async def _tell_all(self, key: tuple[str, str]) -> None:
        while waiting := self._told.get(key):
            await self._run(waiting.popleft())
        self._told.pop(key, None)

    # -- tasks -----------------------------------------------------------------------------------

    def _spawn(self, work: Any, over: Callable[[], None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work, name="baton hook")
        self._tasks.add(task)
        self.idle.clear()

        def ended(_task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            over()
            if not self._tasks:
                self.idle.set()

        task.add_done_callback(ended)
        return task


def _log_failure(handler: HookHandler, error: BaseException) -> None:
    """Tell what a hook raised: where the caller of the run gets it too, its page in the log's fine print alone."""
    if handler.raises:
        _log.error("the hook %s failed: %s: %s", handler.name, type(error).__name__, error)
        _log.debug("the hook %s failed", handler.name, exc_info=error)
    else:
        _log.error("the hook %s failed", handler.name, exc_info=error)
