"""A server that dies and comes back, with a worker that stays, and what a test asks of them."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from tests.crash.processes import DoomedServer, model_at, nursed
from tests.crash.raw_clients import Entry, Fact, RawWatcher, RawWorker, channel_to, going, persist, text_of

from baton.v1 import agent_pb2, handler_pb2, item_pb2, runner_pb2_grpc, session_pb2, session_pb2_grpc

ECHO_PARAMETERS = (
    '{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},'
    '"required":["n","text"],"additionalProperties":false}'
)


def agent(model: str, *functions: str) -> agent_pb2.Agent:
    """Make an agent that asks a model of the model server and may call functions of echo's shape."""
    tools = [
        agent_pb2.Tool(function=agent_pb2.FunctionTool(name=name, parameters_json=ECHO_PARAMETERS))
        for name in functions
    ]
    return agent_pb2.Agent(name="clerk", model=model, tools=tools)


async def echo(call: handler_pb2.Call) -> str:
    """Answer with the arguments."""
    return f"echo {call.arguments_json}"


def said(text: str) -> session_pb2.Input:
    """Make a user's message."""
    return session_pb2.Input(text=text)


@dataclass(slots=True, kw_only=True)
class House:
    """The server's process, a channel to it, and a worker that serves `echo`."""

    process: DoomedServer
    channel: grpc.aio.Channel
    worker: RawWorker
    sessions: session_pb2_grpc.SessionServiceStub
    runner: runner_pb2_grpc.RunnerServiceStub
    _numbers: Callable[[], int] = field(default_factory=lambda: itertools.count(1).__next__)

    def new_id(self, of: str = "request") -> str:
        """Make a request_id."""
        return f"{of}-{self._numbers()}"

    async def new_session(self, default: agent_pb2.Agent) -> str:
        """Make a session, however often the server dies meanwhile."""
        request = session_pb2.CreateSessionRequest(request_id=self.new_id(), agent=default)
        made = await persist(lambda: self.sessions.CreateSession(request, wait_for_ready=True))
        return str(made.session.session_id)

    async def submit(
        self,
        session_id: str,
        *inputs: session_pb2.Input,
        if_busy: session_pb2.IfBusy.ValueType = session_pb2.IF_BUSY_STEER,
    ) -> session_pb2.SubmitInputResponse:
        """Put inputs into a session, however often the server dies meanwhile."""
        request = session_pb2.SubmitInputRequest(
            request_id=self.new_id(), session_id=session_id, inputs=inputs, if_busy=if_busy
        )
        return await persist(lambda: self.sessions.SubmitInput(request, wait_for_ready=True))

    async def session(self, session_id: str) -> session_pb2.Session:
        """Read a session."""
        request = session_pb2.GetSessionRequest(session_id=session_id)
        return (await persist(lambda: self.sessions.GetSession(request, wait_for_ready=True))).session

    async def items(self, session_id: str, *, history_only: bool = False) -> list[item_pb2.Item]:
        """Read all items of a session."""
        request = session_pb2.ListItemsRequest(session_id=session_id, page_size=100, history_only=history_only)
        page = await persist(lambda: self.sessions.ListItems(request, wait_for_ready=True))
        assert not page.next_page_token, "a page is not enough"
        return list(page.items)

    async def check_takes_input(self, watcher: RawWatcher, session_id: str) -> None:
        """Send one more message: its turn completes, and the session rests with nothing open."""
        answer = await self.submit(session_id, said("and once more"))
        assert [outcome.status for outcome in answer.outcomes] == [session_pb2.INPUT_STATUS_STARTED]
        turn = await watcher.until_ended(answer.turn_id)
        assert turn.output.startswith("word"), turn
        session = await self.session(session_id)
        assert session.status == session_pb2.SESSION_STATUS_IDLE
        assert not session.required_actions
        await watcher.until(lambda: watcher.last == session.last_sequence)
        assert [event.sequence for event in watcher.events] == list(range(1, session.last_sequence + 1))


@asynccontextmanager
async def house(store: Path, model_url: str, *, attach: bool = True, **settings: str) -> AsyncIterator[House]:
    """Run a server that is started again whenever it dies. `attach`: with the worker."""
    process = DoomedServer(store, **model_at(model_url), **settings)
    async with nursed(process), channel_to(process.address) as channel:
        worker = RawWorker(channel, echo)
        async with going(*[worker] if attach else []):
            if attach:
                await worker.attached.wait()
            yield House(
                process=process,
                channel=channel,
                worker=worker,
                sessions=session_pb2_grpc.SessionServiceStub(channel),
                runner=runner_pb2_grpc.RunnerServiceStub(channel),
            )


def gist(items: Sequence[item_pb2.Item]) -> list[tuple[str, ...]]:
    """Say what items are, without ids and times: two runs of one story are equal in it."""
    calls = [item.function_call for item in items]
    names = {call.call_id or call.model_call_id: f"call {n}" for n, call in enumerate(calls)}  # or one carried on
    told: list[tuple[str, ...]] = []
    for item in items:
        status = item_pb2.ItemStatus.Name(item.status)
        match item.WhichOneof("item"):
            case "message":
                role = item_pb2.MessageRole.Name(item.message.role)
                told.append((role, status, text_of(item.message.content)))
            case "function_call":
                call = item.function_call
                told.append((names[call.call_id or call.model_call_id], status, call.name, call.arguments_json))
            case "function_call_output":
                output = item.function_call_output
                of = item_pb2.Settlement.Name(output.settlement)
                told.append((names[output.call_id], status, of, text_of(output.output)))
            case "handoff_call":
                told.append(("handoff", status, item.handoff_call.to_agent, item.handoff_call.arguments_json))
            case "handoff_output":
                told.append(("handed", status, item.handoff_output.from_agent, item.handoff_output.output))
            case other:
                raise AssertionError(f"unexpected {other}")
    return told


def check_journal(journal: Sequence[Entry]) -> None:
    """See that each call ran once, was settled once, and never ran after it was durable. No worker died."""
    ran = Counter((entry.call_id, entry.attempt) for entry in journal if entry.fact is Fact.RAN)
    assert set(ran.values()) <= {1}, f"an attempt ran twice: {ran}"
    assert len({call_id for call_id, _ in ran}) == len(ran), f"a body ran for two attempts of one call: {ran}"
    durable: dict[str, int] = {}
    for entry in journal:
        if entry.fact is Fact.DURABLE:
            assert durable.setdefault(entry.call_id, entry.attempt) == entry.attempt, f"settled twice: {entry}"
        assert entry.fact is not Fact.RAN or entry.call_id not in durable, f"ran after it was settled: {entry}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the file says, read beside the server. `calls`: state and settled attempt by call."""

    calls: dict[str, tuple[str, int]]
    turns: dict[str, str]
    sequences: dict[str, list[int]]
    outputs: Counter[str]
    inbox: int


def stored(store: Path) -> Stored:
    """Read the file by SQLite alone."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
        sequences: dict[str, list[int]] = {}
        for session_id, sequence in db.execute("SELECT session_id, sequence FROM events ORDER BY 1, 2"):
            sequences.setdefault(session_id, []).append(sequence)
        items = [item_pb2.Item.FromString(row[0]) for row in db.execute("SELECT data FROM items")]
        outputs = [item.function_call_output for item in items if item.HasField("function_call_output")]
        return Stored(
            calls={row[0]: (row[1], row[2]) for row in db.execute("SELECT call_id, state, settled_attempt FROM calls")},
            turns=dict(db.execute("SELECT turn_id, status FROM turns")),
            sequences=sequences,
            outputs=Counter(output.call_id for output in outputs),
            inbox=db.execute("SELECT count(*) FROM inbox").fetchone()[0],
        )
