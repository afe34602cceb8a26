"""A process that hosts functions, and runs no agents."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Self, overload

from baton.attachment import MAX_CONCURRENCY, Attachment
from baton.connection import Connection, connection_for
from baton.errors import AgentsException, UserError
from baton.held import Handler
from baton.options import refusing_unknown
from baton.tools import FunctionTool, function_tool, parameters_json
from baton.tools import Handler as Function
from baton.v1 import handler_pb2

DRAIN_S = 30.0
"""How long functions may run on when a worker is stopped."""

MAX_SCOPES = 8
"""Scopes of a worker, by the contract (handler.proto, Hello.scopes)."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

hosted_elsewhere: ContextVar[bool] = ContextVar("hosted_elsewhere", default=False)
"""True while a command imports a program to host its functions: then the program itself must not."""


class Worker:
    """Hosts functions for every run that looks into its scopes; without scopes, for every run.

        worker = Worker()

        @worker.function
        def get_weather(city: str) -> str: ...

        worker.run_sync()

    Reconnects for ever, so it may be started before the server. Agents name its functions by
    `RemoteFunction("get_weather")`. Many workers may serve one name; a call is executed by one of them.
    `address` None: the default server. `scopes`: at most 8. `max_concurrency`: calls at a time, 1 to 10,000.
    """

    @refusing_unknown("Worker")
    def __init__(
        self,
        address: str | None = None,
        *,
        scopes: Sequence[str] = (),
        max_concurrency: int = MAX_CONCURRENCY,
    ) -> None:
        if isinstance(scopes, str):
            raise TypeError(f"scopes must be a list of texts, not the text {scopes!r}")
        if len(scopes) > MAX_SCOPES:
            raise ValueError(f"a worker has at most {MAX_SCOPES} scopes, not {len(scopes)}")
        if not 1 <= max_concurrency <= 10_000:
            raise ValueError(f"max_concurrency must be 1 to 10,000, not {max_concurrency}")
        self._address = address
        self._scopes = tuple(scopes)
        self._max_concurrency = max_concurrency
        self._tools: dict[str, FunctionTool] = {}
        self._attachment: Attachment | None = None
        self._connection: Connection | None = None

    @property
    def address(self) -> str | None:
        """The server that was named; None: the default one."""
        return self._address

    @property
    def scopes(self) -> tuple[str, ...]:
        """Scopes that it serves; empty: every run may find its functions."""
        return self._scopes

    @property
    def max_concurrency(self) -> int:
        """Calls that it executes at a time."""
        return self._max_concurrency

    @property
    def tools(self) -> tuple[FunctionTool, ...]:
        """Functions that it hosts, in the order in which they were added."""
        return tuple(self._tools.values())

    @property
    def held(self) -> int:
        """Calls that it has and whose results the server does not have yet."""
        return self._attachment.held if self._attachment is not None else 0

    @overload
    def function(self, function: Function, /) -> FunctionTool: ...

    @overload
    def function(
        self,
        function: None = None,
        /,
        *,
        name_override: str | None = None,
        description_override: str | None = None,
        strict_mode: bool = True,
    ) -> Callable[[Function], FunctionTool]: ...

    @refusing_unknown("Worker.function")
    def function(
        self,
        function: Function | None = None,
        /,
        *,
        name_override: str | None = None,
        description_override: str | None = None,
        strict_mode: bool = True,
    ) -> FunctionTool | Callable[[Function], FunctionTool]:
        """Host a function; everything else is as with `function_tool`, whose result this is."""

        def make(target: Function) -> FunctionTool:
            tool = function_tool(
                name_override=name_override,
                description_override=description_override,
                strict_mode=strict_mode,
            )(target)
            self.add(tool)
            return tool

        return make if function is None else make(function)

    def add(self, tool: FunctionTool) -> None:
        """Host a tool. Raises ValueError for a second one of the same name, RuntimeError once it is started."""
        if self._attachment is not None:
            raise RuntimeError(f"the worker is started; add {tool.name!r} before")
        if tool.name in self._tools:
            raise ValueError(f"the worker serves a function named {tool.name!r} already")
        self._tools[tool.name] = tool

    async def start(self) -> None:
        """Attach; return when the server has taken all functions. Waits for a server that is not there yet.

        Raises HandlerRefusedError where it refuses one, BatonError where it refuses the worker.
        """
        if self._attachment is not None:
            raise RuntimeError("the worker is started already")
        if not self._tools:
            raise RuntimeError("the worker has no functions; decorate some with @worker.function")
        self._connection = connection_for(self._address)
        attachment = self._attachment = Attachment(
            self._connection.handlers,
            self._find,
            scopes=self._scopes,
            max_concurrency=self._max_concurrency,
            timing=self._connection.timing,
            server=self._connection.address,
        )
        attachment.start()
        try:
            await attachment.register([_spec(tool) for tool in self._tools.values()])
        except BaseException:
            self._attachment = None
            await attachment.close()
            raise
        self._connection.contacted()

    async def wait_attached(self) -> None:
        """Wait until it is attached, or is again after a break. Raises what ended it for good, or if not started."""
        if self._attachment is None:
            raise RuntimeError("the worker is not started")
        await self._attachment.wait_attached()

    async def stop(self, grace_s: float = DRAIN_S) -> int:
        """Take no new calls, finish those that run, for at most so long, and detach. Nothing if not started.

        Returns how many calls were not finished; the server gives them to another worker.
        """
        attachment, self._attachment = self._attachment, None
        if attachment is None:
            return 0
        await attachment.stop(grace_s)
        return attachment.given_up

    async def run(self, *, handle_signals: bool = False) -> None:
        """Host until `stop` is called or, with `handle_signals`, SIGTERM or SIGINT comes; both finish what runs.

        Raises what `start` raises, and what ends the attachment for good.
        """
        async with _stop_asked(handle_signals) as asked:
            waits = [asyncio.create_task(asked.wait()), asyncio.create_task(self._start_and_wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if waits[1].done():
                    waits[1].result()
            finally:
                await self.stop()
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)

    def run_sync(self) -> None:
        """Host from a program without an event loop, until SIGTERM or SIGINT; both finish what runs.

        Raises UserError while a command such as `baton worker` imports the program.
        """
        if hosted_elsewhere.get():
            raise UserError(
                "this program is imported by a command that hosts its functions; put what is to run by itself below "
                '`if __name__ == "__main__":`'
            )
        asyncio.run(self.run(handle_signals=True))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start_and_wait(self) -> None:
        await self.start()
        attachment = self._attachment
        if attachment is not None:
            try:
                await attachment.wait_over()
            except AgentsException:
                if self._attachment is attachment:  # else `stop` was called
                    raise

    def _find(self, call: handler_pb2.Call) -> Handler | None:
        tool = self._tools.get(call.name)
        return Handler(tool) if tool is not None else None


@asynccontextmanager
async def _stop_asked(handle_signals: bool) -> AsyncIterator[asyncio.Event]:
    """Give an event that the signals set."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    for number in _SIGNALS if handle_signals else ():
        loop.add_signal_handler(number, asked.set)
    try:
        yield asked
    finally:
        for number in _SIGNALS if handle_signals else ():
            loop.remove_signal_handler(number)


def _spec(tool: FunctionTool) -> handler_pb2.HandlerSpec:
    return handler_pb2.HandlerSpec(
        name=tool.name,
        description=tool.description,
        parameters_json=parameters_json(tool.params_json_schema),
    )
