"""The composition root: the one place that picks adapters and puts them together."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version as installed_version

import structlog

from baton_server.api.agent_service import AgentService
from baton_server.api.handler_service import HandlerService
from baton_server.api.runner_service import RunnerService
from baton_server.api.server import GrpcServer, check_free
from baton_server.api.session_service import SessionService
from baton_server.api.session_streams import SessionStreams
from baton_server.api.views import Views
from baton_server.api.worker_frames import Desk
from baton_server.app.agents import Agents
from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.explain import Explain
from baton_server.app.calls.hooks import Hooks
from baton_server.app.calls.listing import Listing
from baton_server.app.calls.registry import Registry
from baton_server.app.calls.workers import Workers
from baton_server.app.runs import Runs
from baton_server.app.runtime import Limits, Runtime
from baton_server.app.sessions import Sessions
from baton_server.app.submit import Submissions
from baton_server.app.sweep import Sweeper
from baton_server.app.turns.accept import Acceptance
from baton_server.app.turns.drive import Driver
from baton_server.app.turns.rest import Rest
from baton_server.app.watch import Watcher
from baton_server.bus.local import LocalBus
from baton_server.config import OPENAI_MODEL, Settings, WrongSettings
from baton_server.core.runner import Runner
from baton_server.engine.clock import SystemClock, TimeIds
from baton_server.engine.embedded import EmbeddedEngine
from baton_server.model.router import open_models
from baton_server.ports.clock import Clock
from baton_server.ports.model import Model
from baton_server.ports.store import Store
from baton_server.store.sqlite import open_sqlite
from baton_server.telemetry.metrics import Counters
from baton_server.telemetry.observers import Observers
from baton_server.telemetry.tracing import Traces
from baton_server.wire.codec import ProtoCodec, stamp
from baton_server.wire.rules import JsonRules
from baton_server.wire.stream import ProtoParts

log = structlog.get_logger(__name__)

VERSION = installed_version("baton-runtime")

YOUNG_OBJECTS = 10_000
"""Objects after which the garbage collector looks at the new ones; about those of three runs. Python's own: 700."""

LAST_WORDS_S = 0.5
"""How long streams that are still open get to end once the server has drained."""


@dataclass(slots=True, kw_only=True)
class Baton:
    """A server with all its parts, as tests and the command line hold it."""

    settings: Settings
    runtime: Runtime
    driver: Driver
    engine: EmbeddedEngine
    dispatcher: Dispatcher
    hooks: Hooks
    workers: Workers
    sweeper: Sweeper
    grpc: GrpcServer
    model_name: str
    port: int = 0

    @property
    def address(self) -> str:
        """Where the server listens, with the port that it got."""
        return f"{self.settings.address.rpartition(':')[0]}:{self.port}"

    async def start(self) -> None:
        """Recover what a former process left, listen, and drive on. Raises AddressInUse, StoreUnavailable."""
        await self.dispatcher.recover()
        self.port = await self.grpc.start(self.settings.address)
        await self.engine.start()

    async def drain(self, within_s: float) -> None:
        """Begin nothing new, and let what runs come to a commit."""
        await self.grpc.leave()
        self.driver.draining = True
        self.dispatcher.drain("the server stops", within_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.driver.quiet()

    async def close(self) -> None:
        """End streams, driving and the store, in that order. Nothing acknowledged is lost."""
        await self.grpc.stop(LAST_WORDS_S)
        await self.engine.stop(LAST_WORDS_S)
        self.driver.stop()
        await self.hooks.close()
        await self.dispatcher.close()
        await self.runtime.model.close()
        await self.runtime.store.close()


async def open_store(settings: Settings) -> Store:
    """Open the store that the settings name. Raises StoreHeld, StoreUnavailable."""
    return await open_sqlite(
        settings.store,
        stamp=stamp,
        synchronous=settings.synchronous,
        holder={"address": settings.address, "program": "baton serve"},
    )


@asynccontextmanager
async def running(
    settings: Settings, model: Model | None = None, store: Store | None = None, clock: Clock | None = None
) -> AsyncIterator[Baton]:
    """Run a server until the block ends. What is given stands in place of what is configured; it closes them."""
    baton = build(settings, store or await open_store(settings), model, clock)
    clocks: list[asyncio.Task[None]] = []
    try:
        await baton.start()
        clocks = [asyncio.ensure_future(_for_ever(run)) for run in (baton.workers.watch, baton.sweeper.run)]
        yield baton
        await baton.drain(settings.drain_s)
    finally:
        for task in clocks:
            task.cancel()
        await asyncio.gather(*clocks, return_exceptions=True)
        await baton.close()


async def _for_ever(run: Callable[[], Awaitable[None]]) -> None:
    """Keep a clock going: a fault in one look must not end leases or sweeping for good."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("a clock of the server failed; it goes on")
            await asyncio.sleep(1)


def build(settings: Settings, store: Store, model: Model | None = None, clock: Clock | None = None) -> Baton:
    """Put a server together over an open store."""
    clock, ids, rules = clock or SystemClock(), TimeIds(), JsonRules()
    configured, model_name = models(settings, clock)
    traces = Traces(include_sensitive_data=settings.trace_include_sensitive_data)
    runtime = Runtime(
        store=store,
        bus=LocalBus(),
        model=model or configured,
        codec=ProtoCodec(),
        parts=ProtoParts(),
        runner=Runner(rules),
        ids=ids,
        clock=clock,
        observer=Observers(traces, Counters()),
        limits=limits(settings),
    )
    registry = Registry()
    hooks = Hooks(runtime, registry)
    driver = Driver(runtime, runtime.observer, hooks)
    dispatcher = driver.dispatcher = Dispatcher(
        runtime, registry, driver.feed, driver.eased, driver.where_is, driver.usage_of
    )
    engine = driver.engine = EmbeddedEngine(store, clock, driver.advance)
    workers = Workers(runtime, registry, dispatcher, hooks)
    desk = Desk(workers=workers, dispatcher=dispatcher, hooks=hooks)
    sessions, acceptance = Sessions(runtime), Acceptance(runtime, registry, rules)
    rest = Rest(runtime, registry, driver)
    runs = Runs(runtime, acceptance, sessions, driver, rest)
    submissions = Submissions(runtime, acceptance, driver)
    views, watcher = Views(runtime, registry, dispatcher), Watcher(runtime, driver, rest)
    listing = Listing(runtime, registry, dispatcher.leases)
    explain = Explain(runtime, registry, dispatcher, driver.loading)
    unary = SessionService(runtime, sessions, submissions, runs, views)
    services = {
        "AgentService": AgentService(Agents(runtime)).rpcs(),
        "SessionService": {**unary.rpcs(), **SessionStreams(runtime, sessions, runs, watcher, unary).rpcs()},
        "RunnerService": RunnerService(runs, watcher, views, submissions.abandon).rpcs(),
        "HandlerService": HandlerService(runtime, desk, views, listing, explain, VERSION).rpcs(),
    }
    return Baton(
        settings=settings,
        runtime=runtime,
        driver=driver,
        engine=engine,
        dispatcher=dispatcher,
        hooks=hooks,
        workers=workers,
        sweeper=Sweeper(runtime, sessions),
        grpc=GrpcServer(services, ids, clock, store.healthy),
        model_name=model_name if model is None else "given",
    )


def limits(settings: Settings) -> Limits:
    """Take the clocks from the settings."""
    return Limits(
        ack_timeout_s=settings.ack_timeout_s,
        lease_s=settings.lease_s,
        heartbeat_s=settings.heartbeat_s,
        watch_heartbeat_s=settings.heartbeat_s,
        registration_grace_s=settings.registration_grace_s,
        hello_timeout_s=settings.hello_timeout_s,
        max_stream_age_s=settings.max_stream_age_s,
    )


def models(settings: Settings, clock: Clock) -> tuple[Model, str]:
    """Make the models that the settings name, and say in a few words which one answers by default."""
    key, base_url = settings.openai_api_key.get_secret_value(), settings.openai_base_url
    remote = bool(key or base_url)
    default_model = settings.default_model or ("" if base_url or not remote else OPENAI_MODEL)
    try:
        router = open_models(
            clock,
            api_key=key,
            base_url=base_url,
            timeout_s=settings.model_timeout_s,
            default_model=default_model,
            demo_delay_s=settings.demo_delay_s,
        )
    except ValueError as error:
        raise WrongSettings(f"the model API cannot be used: {error}") from None
    if not remote:
        return router, "demo (no OPENAI_API_KEY)"
    return router, f"{default_model or 'as agents say'} at {base_url or 'OpenAI'}"


def spare_the_collector() -> None:
    """Take what starting made out of the garbage collector's sight, and have it look less often.

    A full pass over the libraries' objects finds nothing, and stopped the server for 0.1 to 0.3 s (measured).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


async def serve(settings: Settings, ready: Callable[[Baton], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain and close. `ready` is called once, when the server listens."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if not settings.store.exists():
        check_free(settings.address)  # else a store would be made that nobody wants
    async with running(settings) as baton:
        spare_the_collector()
        log.info("serving", address=baton.address, store=str(settings.store), pid=os.getpid())
        ready(baton)
        await stop.wait()
        log.info("draining", within_s=settings.drain_s)
