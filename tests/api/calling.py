"""A raw client of `baton.v1`: stubs, a few requests that every test needs, and what a refusal says."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import grpc
from google.rpc import error_details_pb2, status_pb2
from tests.support.scripted_model import PATIENCE_S
from tests.support.server import channel

from baton.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    event_pb2,
    handler_pb2,
    handler_pb2_grpc,
    item_pb2,
    runner_pb2,
    runner_pb2_grpc,
    session_pb2,
    session_pb2_grpc,
)
from baton_server.app.sessions import Sessions
from baton_server.app.sweep import Sweeper
from baton_server.engine.clock import SystemClock
from baton_server.main import Baton

T = TypeVar("T")

WEATHER = '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}'

AT_ONCE: Any = {"seconds": 0}
"""An `unserved_grace` that makes a turn rest as soon as nobody serves what it waits for."""

_numbers = itertools.count(1)


def fresh(prefix: str = "r") -> str:
    """Make a request_id that no other test has."""
    return f"{prefix}-{next(_numbers)}"


def helper(*functions: str, **fields: Any) -> agent_pb2.Agent:
    """Make an agent with functions that take a city."""
    tools = [{"function": {"name": name, "parameters_json": WEATHER}} for name in functions]
    return agent_pb2.Agent(**{"name": "Helper", "tools": tools, **fields})


async def soon(wait: Awaitable[T]) -> T:
    """Wait for what must come soon."""
    return await asyncio.wait_for(wait, PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a failed rpc said: its code, and what its trailers hold."""

    code: grpc.StatusCode
    message: str
    reason: str
    metadata: dict[str, str]
    paths: list[str] = field(default_factory=list)
    retry_after_s: float | None = None


def refusal_of(error: grpc.aio.AioRpcError) -> Refusal:
    """Read the details of a failed rpc."""
    trailers = {str(key): value for key, value in error.trailing_metadata() or ()}
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    told = [detail.Is(retry.DESCRIPTOR) and detail.Unpack(retry) for detail in status.details]
    for detail in status.details:
        detail.Unpack(info) if detail.Is(info.DESCRIPTOR) else detail.Unpack(bad)
    assert info.domain == "baton.v1"
    return Refusal(
        code=error.code(),
        message=error.details() or "",
        reason=info.reason,
        metadata=dict(info.metadata),
        paths=[violation.field for violation in bad.field_violations],
        retry_after_s=retry.retry_delay.ToTimedelta().total_seconds() if any(told) else None,
    )


async def refused(call: Awaitable[Any]) -> Refusal:
    """Wait for an rpc that must fail, and read what it says."""
    try:
        answer = await soon(call)
    except grpc.aio.AioRpcError as error:
        return refusal_of(error)
    raise AssertionError(f"it was not refused: {answer}")


class Client:
    """Stubs of all services on one channel with gRPC's default limits."""

    def __init__(self, opened: grpc.aio.Channel) -> None:
        self.agents = agent_pb2_grpc.AgentServiceStub(opened)
        self.sessions = session_pb2_grpc.SessionServiceStub(opened)
        self.runner = runner_pb2_grpc.RunnerServiceStub(opened)
        self.handlers = handler_pb2_grpc.HandlerServiceStub(opened)
        self.channel = opened

    # -- what most tests begin with --------------------------------------------------------------

    async def session(self, **fields: Any) -> session_pb2.Session:
        """Make a session with an agent, unless told otherwise."""
        if not {"agent", "agent_ref"} & fields.keys():
            fields["agent"] = helper()
        request = session_pb2.CreateSessionRequest(**{"request_id": fresh(), **fields})
        return (await soon(self.sessions.CreateSession(request))).session

    async def get(self, session_id: str) -> session_pb2.Session:
        """Read a session."""
        request = session_pb2.GetSessionRequest(session_id=session_id)
        return (await soon(self.sessions.GetSession(request))).session

    async def turn(self, session_id: str, turn_id: str) -> event_pb2.Turn:
        """Read a turn."""
        request = session_pb2.GetTurnRequest(session_id=session_id, turn_id=turn_id)
        return (await soon(self.sessions.GetTurn(request))).turn

    async def run(self, **fields: Any) -> runner_pb2.RunResponse:
        """Run an agent."""
        return await soon(self.runner.Run(run_request(**fields)))

    async def submit(self, session_id: str, *inputs: Any, **fields: Any) -> session_pb2.SubmitInputResponse:
        """Put a batch into a session: texts, or inputs as dicts."""
        return await soon(self.sessions.SubmitInput(submit_request(session_id, *inputs, **fields)))

    async def cancel(self, session_id: str, turn_id: str, **fields: Any) -> session_pb2.InputOutcome:
        """Cancel a turn."""
        answer = await self.submit(session_id, {"cancel": {"turn_id": turn_id, **fields}})
        return answer.outcomes[0]

    # -- reading ---------------------------------------------------------------------------------

    async def rest(self, session_id: str, **fields: Any) -> list[event_pb2.Event]:
        """Watch from the first event until the session rests; returns the events."""
        request = session_pb2.WatchRequest(session_id=session_id, **fields)
        return events_in(await everything(self.sessions.Watch(request)))

    async def events(self, session_id: str, **fields: Any) -> list[event_pb2.Event]:
        """List all events, page by page."""
        found: list[event_pb2.Event] = []
        request = session_pb2.ListEventsRequest(session_id=session_id, **fields)
        while True:
            answer = await soon(self.sessions.ListEvents(request))
            found.extend(answer.events)
            if not answer.has_more:
                return found
            request.after_sequence = answer.last_sequence

    async def items(self, session_id: str, **fields: Any) -> list[item_pb2.Item]:
        """List all items, page by page."""
        found: list[item_pb2.Item] = []
        request = session_pb2.ListItemsRequest(session_id=session_id, **fields)
        while True:
            answer = await soon(self.sessions.ListItems(request))
            found.extend(answer.items)
            if not answer.next_page_token:
                return found
            request.page_token = answer.next_page_token


@asynccontextmanager
async def client_of(baton: Baton) -> AsyncIterator[Client]:
    """Open a client of a server."""
    async with channel(baton) as opened:
        yield Client(opened)


class Later:
    """A clock that is so many seconds ahead."""

    def __init__(self, ahead_s: float) -> None:
        self._clock, self._ahead_s = SystemClock(), ahead_s

    def monotonic(self) -> float:
        """Implement `ports.clock.Clock`."""
        return self._clock.monotonic() + self._ahead_s

    def wall(self) -> float:
        """Implement `ports.clock.Clock`."""
        return self._clock.wall() + self._ahead_s

    async def sleep(self, seconds: float) -> None:
        """Implement `ports.clock.Clock`."""
        await self._clock.sleep(seconds)


def sweeper_at(baton: Baton, ahead_s: float) -> Sweeper:
    """Make a sweeper of a server that lives so many seconds later."""
    later = replace(baton.runtime, clock=Later(ahead_s))
    return Sweeper(later, Sessions(later))


async def attach(client: Client, *names: str, scopes: Sequence[str] = (), credit: int = 100) -> Any:
    """Attach a worker that serves functions of a city; its Welcome has been read."""
    worker = client.handlers.Connect()
    handlers = [{"name": name, "parameters_json": WEATHER} for name in names]
    await worker.write(frame(hello={"handlers": handlers, "scopes": scopes, "credit": {"messages": credit}}))
    welcome = await soon(worker.read())
    assert welcome.HasField("welcome"), welcome
    return worker


def frame(**arm: Any) -> handler_pb2.ConnectRequest:
    """Make a worker's frame."""
    return handler_pb2.ConnectRequest(**arm)


# -- requests ------------------------------------------------------------------------------------


def run_request(**fields: Any) -> runner_pb2.RunRequest:
    """Make a run; with neither session nor agent it brings an agent, and rests at once on what is unserved."""
    given = {"request_id": fresh(), "run_config": {"unserved_grace": AT_ONCE}, **fields}
    if not {"agent", "agent_ref", "session_id"} & given.keys():
        given["agent"] = helper()
    if not {"text", "message", "items_json"} & given.keys():
        given["text"] = "hello"
    return runner_pb2.RunRequest(**given)


def streamed_request(**fields: Any) -> runner_pb2.RunStreamedRequest:
    """Make a streamed run, as `run_request` does."""
    own = {name: fields.pop(name) for name in ("deltas", "after_sequence") if name in fields}
    request = runner_pb2.RunStreamedRequest.FromString(run_request(**fields).SerializeToString())
    request.MergeFrom(runner_pb2.RunStreamedRequest(**own))
    return request


def submit_request(session_id: str, *inputs: Any, **fields: Any) -> session_pb2.SubmitInputRequest:
    """Make a batch of texts, or of inputs as dicts."""
    made = [{"text": given} if isinstance(given, str) else given for given in inputs]
    return session_pb2.SubmitInputRequest(**{"request_id": fresh(), "session_id": session_id, "inputs": made, **fields})


def result_for(action: event_pb2.RequiredAction, **outcome: Any) -> dict[str, Any]:
    """Make the input that settles a required action."""
    return {"tool_result": {"turn_id": action.turn_id, "call_id": action.call_id, **outcome}}


# -- answers -------------------------------------------------------------------------------------


async def everything(call: AsyncIterator[T]) -> list[T]:
    """Read a stream to its end."""

    async def read() -> list[T]:
        return [message async for message in call]

    return await soon(read())


async def frames(call: Any) -> AsyncIterator[Any]:
    """Go through the messages of a two-way stream, whose calls to `read` no `async for` may follow."""
    while (message := await call.read()) is not grpc.aio.EOF:
        yield message


async def until(call: AsyncIterator[Any], arm: str) -> list[event_pb2.StreamPart]:
    """Read a stream up to the first part, or event, of an arm."""
    found: list[event_pb2.StreamPart] = []

    async def read() -> list[event_pb2.StreamPart]:
        async for message in call:
            found.extend(message.parts)
            if any(arm in (part.WhichOneof("part"), part.event.WhichOneof("event")) for part in message.parts):
                return found
        raise AssertionError(f"the stream ended before any {arm}: {kinds(events_in_parts(found))}")

    return await soon(read())


def parts_in(messages: Iterable[Any]) -> list[event_pb2.StreamPart]:
    """List the parts of a stream's messages."""
    return [part for message in messages for part in message.parts]


def events_in(messages: Iterable[Any]) -> list[event_pb2.Event]:
    """List the events of a stream's messages."""
    return events_in_parts(parts_in(messages))


def events_in_parts(parts: Iterable[event_pb2.StreamPart]) -> list[event_pb2.Event]:
    """List the events among parts."""
    return [part.event for part in parts if part.HasField("event")]


def kinds(events: Iterable[event_pb2.Event]) -> list[str]:
    """Name what happened, in order."""
    return [event.WhichOneof("event") or "" for event in events]


def told(events: Iterable[event_pb2.Event], kind: str) -> list[Any]:
    """List what the events of one kind hold."""
    return [getattr(event, kind) for event in events if event.WhichOneof("event") == kind]


def text_of(item: item_pb2.Item) -> str:
    """Read the text of a message or of a function's output."""
    content = item.message.content if item.HasField("message") else item.function_call_output.output
    return "".join(part.text for part in content)


def history_is_well_formed(items: Sequence[item_pb2.Item]) -> bool:
    """Tell whether every call has exactly one output behind it, and every output its call before it."""
    open_: set[str] = set()
    for item in items:
        if item.HasField("function_call"):
            open_.add(item.function_call.call_id)
        elif item.HasField("function_call_output"):
            if item.function_call_output.call_id not in open_:
                return False
            open_.discard(item.function_call_output.call_id)
    return not open_
