"""Follows a stream of a session over breaks: no event twice, none left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from baton.server.connection import Connection
from baton.transport.retry import Backoff
from baton.v1 import event_pb2

SILENCE_S = 30.0
"""A stream that brings nothing for so long is dead: the server sends a heartbeat every 10 s."""


class Message(Protocol):
    """One message of Watch or RunStreamed."""

    @property
    def parts(self) -> RepeatedCompositeFieldContainer[event_pb2.StreamPart]:
        """Facts and fragments, in order."""


M = TypeVar("M", bound=Message)
StreamCall = grpc.aio.UnaryStreamCall[Any, M]


async def follow(
    connection: Connection,
    open_stream: Callable[[int], StreamCall[M]],
    doing: str,
    *,
    after_sequence: int = 0,
    is_last: Callable[[M], bool] | None = None,
) -> AsyncIterator[M]:
    """Yield a stream's messages, opening it again after each break from the last sequence that was seen.

    `open_stream` gets that sequence. `is_last` recognises the message that ends it; None: OK ends it. Events that
    a resumed stream repeats are taken out of their messages. Raises what ends it otherwise.
    """
    position = after_sequence
    backoff = Backoff(connection.timing)
    began = connection.timing.now()
    while True:
        call = open_stream(position)
        try:
            async for message in _heard(call):
                connection.contacted()
                backoff.reset()
                position = _advance(message, position)
                yield message
                if is_last is not None and is_last(message):
                    return
            if is_last is None:
                return
            await backoff.wait()  # OK too early: as good as a break
        except grpc.aio.AioRpcError as failed:
            await connection.pause(failed, backoff, doing, began)
        except TimeoutError:
            connection.silent()
            await backoff.wait()
        finally:
            call.cancel()


async def _heard(call: StreamCall[M]) -> AsyncIterator[M]:
    """Yield a call's messages; raise TimeoutError after too long a silence.

    A read that times out is cancelled, which ends the call: here that is what is wanted.
    """
    messages = aiter(call)
    while True:
        async with asyncio.timeout(SILENCE_S):
            try:
                message = await anext(messages)
            except StopAsyncIteration:
                return
        yield message


def _advance(message: Message, position: int) -> int:
    """Take out what was seen before; return the sequence that has been seen now."""
    repeated: list[int] = []
    for index, part in enumerate(message.parts):
        match part.WhichOneof("part"):
            case "event" if part.event.sequence <= position:
                repeated.append(index)
            case "event":
                position = part.event.sequence
            case "heartbeat":
                position = max(position, part.heartbeat.last_sequence)
            case _:
                pass
    for index in reversed(repeated):
        del message.parts[index]
    return position
