"""Callers: RunStreamed over and over, as many at a time as is wanted, reading bytes and little more."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from baton.v1 import agent_pb2, event_pb2, runner_pb2
from bench.processes import BenchFailed

RUN_STREAMED = "/baton.v1.RunnerService/RunStreamed"

FUNCTION = "echo"
"""The function that the models call and the workers serve."""

PARAMETERS = (
    '{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},'
    '"required":["n","text"],"additionalProperties":false}'
)

UnaryUnary = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
UnaryStream = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
StreamStream = grpc.aio.StreamStreamMultiCallable[bytes, bytes]
"""Methods as they are without a serialiser: bytes both ways."""

LOAD_TIMEOUT_S = 120.0
"""For one load: a server that hangs must not hang the measurement."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the stream as it came. `at`: when (monotonic seconds)."""

    at: float
    data: bytes


class Caller:
    """Makes runs with one model on one channel."""

    def __init__(self, channel: grpc.aio.Channel, model: str) -> None:
        self._call: UnaryStream = channel.unary_stream(RUN_STREAMED)
        self._body, self._numbers, self._name = run_body(model), itertools.count(), uuid.uuid4().hex

    async def run(self) -> list[Message]:
        """Make one run and read its stream. Raises BenchFailed where the turn did not complete."""
        request = runner_pb2.RunStreamedRequest(request_id=f"bench-{self._name}-{next(self._numbers)}")
        messages = []
        async for data in self._call(self._body + request.SerializeToString()):
            messages.append(Message(time.perf_counter(), data))
        last = runner_pb2.RunStreamedResponse.FromString(messages[-1].data)
        if last.result.turn.status != event_pb2.TURN_STATUS_COMPLETED:
            raise BenchFailed(f"a run did not complete but gave {last}")
        return messages

    async def load(self, runs: int, at_once: int) -> float:
        """Make so many runs, so many of them at a time; returns the seconds that it took."""
        left = iter(range(runs))

        async def one_after_another() -> None:
            for _ in left:
                await self.run()

        began = time.perf_counter()
        async with asyncio.timeout(LOAD_TIMEOUT_S), asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(one_after_another())
        return time.perf_counter() - began


def run_body(model: str) -> bytes:
    """Write a RunStreamed request without its request_id, which may be appended."""
    function = agent_pb2.FunctionTool(name=FUNCTION, description="Echo its arguments.", parameters_json=PARAMETERS)
    agent = agent_pb2.Agent(
        name="bench",
        instructions="Call the function as often as you like, then answer.",
        model=model,
        tools=[agent_pb2.Tool(function=function)],
    )
    return runner_pb2.RunStreamedRequest(agent=agent, text="Please begin.").SerializeToString()


def round_trips(messages: Sequence[Message]) -> list[float]:
    """Take from the stream of a run how long each call was open, in seconds, in the order of the outputs."""
    opened: dict[str, float] = {}
    took = []
    for message in messages:
        for part in runner_pb2.RunStreamedResponse.FromString(message.data).parts:
            item = part.event.item_added.item
            if item.HasField("function_call"):
                opened[item.function_call.call_id] = message.at
            elif item.HasField("function_call_output"):
                took.append(message.at - opened[item.function_call_output.call_id])
    return took
