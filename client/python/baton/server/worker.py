"""A process that hosts functions and hooks, and runs no agents."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, get_args, overload

from baton.agents.execution_options import FunctionOptions, handler_execution_to_pb
from baton.agents.tool_guardrails import GUARDED
from baton.agents.tool_writing import parameters_json
from baton.agents.tools import FunctionTool, function_tool
from baton.agents.tools import Handler as Function
from baton.errors import AgentsException, UserError
from baton.hooks import adapted, name_of
from baton.hooks.kinds import HOOK_KINDS, HookName, kind_word
from baton.hosting.asked import HookHandler
from baton.hosting.attachment import MAX_CONCURRENCY, Attachment, Options
from baton.hosting.held import Handler
from baton.hosting.journal import Journal
from baton.options import refusing_unknown
from baton.server.connection import Connection, connection_for
from baton.signals import stop_asked
from baton.v1 import handler_pb2

DRAIN_S = 30.0
"""How long functions may run on when a worker is stopped."""

MAX_SCOPES = 8
"""Scopes of a worker, by the contract (handler.proto, Hello.scopes)."""

HookFunction = TypeVar("HookFunction", bound=Callable[[Any], Any])

_log = logging.getLogger("baton.worker")

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
    `max_argument_bytes`: arguments that are held at a time; one call may exceed it; None: no limit. `journal`: a file
    in which results wait for the server also while the process is restarted, and which calls had begun; one process
    at a time has it. It costs a write to disk before each function begins, and one before its result is sent.
    `metadata`: labels for `Client.workers`, at most 16.
    """

    @refusing_unknown("Worker")
    def __init__(
        self,
        address: str | None = None,
        *,
        scopes: Sequence[str] = (),
        max_concurrency: int = MAX_CONCURRENCY,
        max_argument_bytes: int | None = None,
        journal: str | os.PathLike[str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(scopes, str):
            raise TypeError(f"scopes must be a list of texts, not the text {scopes!r}")
        if len(scopes) > MAX_SCOPES:
            raise ValueError(f"a worker has at most {MAX_SCOPES} scopes, not {len(scopes)}")
        if not 1 <= max_concurrency <= 10_000:
            raise ValueError(f"max_concurrency must be 1 to 10,000, not {max_concurrency}")
        if max_argument_bytes is not None and not 1 <= max_argument_bytes <= 2**40:
            raise ValueError(f"max_argument_bytes must be 1 to 2^40, or None, not {max_argument_bytes}")
        self._address = address
        self._scopes = tuple(scopes)
        self._max_concurrency = max_concurrency
        self._max_argument_bytes = max_argument_bytes
        self._journal_path = journal
        self._metadata = dict(metadata or {})
        self._tools: dict[tuple[str, str], FunctionTool] = {}
        self._hooks: dict[tuple[int, str], HookHandler] = {}
        self._attachment: Attachment | None = None
        self._connection: Connection | None = None
        self._journal: Journal | None = None

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
    def hooks(self) -> tuple[tuple[str, str], ...]:
        """Hooks that it serves, in the order in which they were added: kind, such as "lifecycle", and name.

        The kind of a check is "effect_check", its name that of the function.
        """
        return tuple((kind_word(hook.kind.number), hook.name) for hook in self._hooks.values())

    @property
    def held(self) -> int:
        """Calls that it has and whose results the server does not have yet."""
        return self._attachment.held if self._attachment is not None else 0

    @property
    def trouble(self) -> str:
        """Why it is not attached at the moment, as far as that is known; empty: it is, or was not told to yet."""
        return self._attachment.trouble if self._attachment is not None else ""

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
        **options: Unpack[FunctionOptions],
    ) -> Callable[[Function], FunctionTool]: ...

    @refusing_unknown("Worker.function", FunctionOptions.__annotations__)
    def function(
        self,
        function: Function | None = None,
        /,
        *,
        name_override: str | None = None,
        description_override: str | None = None,
        strict_mode: bool = True,
        **options: Unpack[FunctionOptions],
    ) -> FunctionTool | Callable[[Function], FunctionTool]:
        """Host a function; everything else is as with `function_tool`, whose result this is."""

        def make(target: Function) -> FunctionTool:
            tool = function_tool(
                name_override=name_override,
                description_override=description_override,
                strict_mode=strict_mode,
                **options,
            )(target)
            self.add(tool)
            return tool

        return make if function is None else make(function)

    def add(self, tool: FunctionTool) -> None:
        """Host a tool. Raises ValueError for a second one of the same name, RuntimeError once it is started.

        Of one name it may host several versions; the server chooses. Raises UserError for a tool that says what only an
        agent can, such as `needs_approval`.
        """
        said = tool.of_agents()
        if said:
            raise UserError(
                f"{tool.name}: a worker cannot say {', '.join(said)}: the agent does; say it in its RemoteFunction"
            )
        if self._attachment is not None:
            raise RuntimeError(f"the worker is started; add {tool.name!r} before")
        if (tool.name, tool.version) in self._tools:
            version = f" in version {tool.version!r}" if tool.version else ""
            raise ValueError(f"the worker serves a function named {tool.name!r}{version} already")
        self._tools[tool.name, tool.version] = tool

    def hook(self, kind: HookName, *, name: str | None = None) -> Callable[[HookFunction], HookFunction]:
        """Serve a hook with a function of one argument, sync or async; it stays as it is.

        What it gets is the data of its kind (`baton.hooks.data`), whose class says what is answered: "input_guardrail"
        gets InputGuardrailData and gives a GuardrailFunctionOutput, or True where it trips; "model_input_filter" gets
        CallModelData and gives a ModelInputData; "tool_input_guardrail" gets ToolInputGuardrailData; "lifecycle" gets
        LifecycleData and gives nothing. One that raises fails what it was asked for. `name` None: the function's.
        Agents and runs name it by `RemoteHook`.
        """
        if kind not in get_args(HookName):
            raise ValueError(f"a worker's hook is one of {', '.join(get_args(HookName))}, not {kind!r}")

        def make(function: HookFunction) -> HookFunction:
            self._add_hook(kind, name or name_of(function), function)
            return function

        return make

    def check(self, function: str | FunctionTool) -> Callable[[HookFunction], HookFunction]:
        """Serve the check of a function, named or given: did a lost attempt take effect?

        Gets EffectCheckData; gives "none", "took_effect", "unknown" or a TookEffect (`baton.Effect`). The server
        asks it before it delivers a call again that may have run.
        """
        checked = function.name if isinstance(function, FunctionTool) else function

        def make(check: HookFunction) -> HookFunction:
            self._add_hook("effect_check", checked, check)
            return check

        return make

    def copy(
        self,
        *,
        address: str | None = None,
        scopes: Sequence[str] | None = None,
        max_concurrency: int | None = None,
    ) -> Worker:
        """Make a worker, not started, that hosts the same; None, or no scopes: as this one."""
        made = Worker(
            address or self._address,
            scopes=scopes or self._scopes,
            max_concurrency=max_concurrency or self._max_concurrency,
            max_argument_bytes=self._max_argument_bytes,
            journal=self._journal_path,
            metadata=self._metadata,
        )
        made._tools.update(self._tools)
        made._hooks.update(self._hooks)
        return made

    async def start(self) -> None:
        """Attach; return when the server has taken all functions. Waits for a server that is not there yet.

        Raises HandlerRefusedError where it refuses one, BatonError where it refuses the worker, JournalError where the
        journal cannot be used.
        """
        if self._attachment is not None:
            raise RuntimeError("the worker is started already")
        if not self._tools and not self._hooks:
            raise RuntimeError("the worker has no functions and no hooks; decorate some with @worker.function")
        self._connection = connection_for(self._address)
        self._journal = Journal.open(self._journal_path) if self._journal_path is not None else None
        try:
            attachment = self._attachment = self._attach(self._connection)
            attachment.start()
            await attachment.register(self._specs())
        except BaseException:
            await self._detach(None)
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
        return await self._detach(grace_s)

    async def run(self, *, handle_signals: bool = False) -> None:
        """Host until `stop` is called or, with `handle_signals`, SIGTERM or SIGINT comes; both finish what runs.

        A second signal ends the process at once. Raises what `start` raises, and what ends the attachment for good.
        """
        async with stop_asked(handle_signals) as asked:
            waits = [asyncio.create_task(asked.wait()), asyncio.create_task(self._start_and_wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if waits[1].done():
                    waits[1].result()
                else:
                    waited = "1 call is" if self.held == 1 else f"{self.held} calls are"
                    _log.info("stopping; %s finished first; a second signal ends at once", waited)
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

    # -- inside ----------------------------------------------------------------------------------

    def _attach(self, connection: Connection) -> Attachment:
        options = Options(
            scopes=self._scopes,
            max_concurrency=self._max_concurrency,
            max_argument_bytes=self._max_argument_bytes,
            journal=self._journal,
            labels=self._metadata,
        )
        return Attachment(
            connection.door,
            self._find,
            lambda _batch, hook: self._hooks.get((hook.kind, hook.name)),
            options=options,
            timing=connection.timing,
            server=connection.address,
        )

    async def _detach(self, grace_s: float | None) -> int:
        """End the attachment and the journal's use; `grace_s` None: at once. Returns how many calls are given up."""
        attachment, self._attachment = self._attachment, None
        journal, self._journal = self._journal, None
        try:
            if attachment is not None and grace_s is None:
                await attachment.close()
            elif attachment is not None and grace_s is not None:
                await attachment.stop(grace_s)
        finally:
            if journal is not None:
                await journal.close()
        return attachment.given_up if attachment is not None else 0

    def _add_hook(self, kind: str, name: str, function: HookFunction) -> None:
        if self._attachment is not None:
            raise RuntimeError(f"the worker is started; add the hook {name!r} before")
        if not callable(function):
            raise TypeError(f"the hook {name!r} must be a function, not {function!r}")
        found = HOOK_KINDS[kind]
        if (found.number, name) in self._hooks:
            raise ValueError(f"the worker serves a hook {name!r} of the kind {kind!r} already")
        given = GUARDED.get(kind)
        asked = function if given is None else adapted(function, given, lambda _data, said: said)
        self._hooks[found.number, name] = HookHandler(kind=found, name=name, function=asked)

    def _specs(self) -> list[handler_pb2.HandlerSpec]:
        return [_spec(tool) for tool in self._tools.values()] + [
            handler_pb2.HandlerSpec(kind=hook.kind.number, name=hook.name) for hook in self._hooks.values()
        ]

    def _find(self, call: handler_pb2.Call) -> Handler | None:
        tool = self._tools.get((call.name, call.version))
        return Handler(tool) if tool is not None else None


def _spec(tool: FunctionTool) -> handler_pb2.HandlerSpec:
    return handler_pb2.HandlerSpec(
        name=tool.name,
        version=tool.version,
        description=tool.description,
        parameters_json=parameters_json(tool.params_json_schema),
        execution=handler_execution_to_pb(tool.timeout, tool.side_effects, tool.idempotency_fields),
        max_concurrency=tool.max_concurrency or 0,
    )
