"""Rpcs as data, and the one boundary where failures become statuses.

Services are tables of `Rpc`; `generic_handler` makes gRPC handlers of them. Responses may be bytes already, so
that stored events reach the wire unparsed. Whatever a use case raises is mapped here and nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError, Message

from baton_server.core.errors import BatonError, Failure, Reason, refuse
from baton_server.ports.clock import Ids
from baton_server.ports.store import StoreUnavailable
from baton_server.wire.errors import to_status
from baton_server.wire.frames import RECEIVED_BYTES

log = structlog.get_logger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that was not taken: too large, or no message of its type."""

    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc:
    """One method: its request's type, and what answers it.

    `unary` gets (request, context) and returns a message; `stream` gets the same and is an async generator of
    messages; `writing` gets the same and writes messages itself; `bidi` gets the context alone, reads and writes
    itself. Exactly one is set.
    """

    request: type[Message]
    unary: Callable[[Any, Context], Awaitable[Message]] | None = None
    stream: Callable[[Any, Context], AsyncIterator[bytes]] | None = None
    writing: Callable[[Any, Context], Awaitable[None]] | None = None
    bidi: Callable[[Context], Awaitable[None]] | None = None


def generic_handler(service: str, rpcs: Mapping[str, Rpc], ids: Ids) -> grpc.GenericRpcHandler:
    """Make the handlers of a service, by its full name, for `server.add_generic_rpc_handlers`."""
    made = {name: _handler(rpc, ids) for name, rpc in rpcs.items()}
    return grpc.method_handlers_generic_handler(service, made)


def body_digest(request: Message, without: Sequence[str]) -> str:
    """Digest what a request asks for, without the fields that do not say it."""
    body = type(request)()
    body.CopyFrom(request)
    for name in without:
        body.ClearField(name)
    return hashlib.sha256(body.SerializeToString(deterministic=True)).hexdigest()


def readable(request: object) -> Any:
    """Give back a request that could be read. Raises Refused otherwise."""
    if isinstance(request, Unreadable):
        raise BatonError(request.failure)
    return request


def unavailable(error: StoreUnavailable) -> BatonError:
    """Say that the store is away, and that trying again makes sense."""
    return refuse(Reason.UNAVAILABLE, f"The store cannot be reached or written now ({error}). Try again.", part="store")


@asynccontextmanager
async def boundary(context: Context, ids: Ids) -> AsyncIterator[None]:
    """Turn what is raised inside into the status of the rpc."""
    try:
        yield
    except BatonError as error:
        await abort(context, error)
    except StoreUnavailable as error:
        await abort(context, unavailable(error))
    except grpc.aio.AbortError:
        raise
    except Exception:
        error_id = ids.new("err")
        log.exception("an rpc failed in the server", error_id=error_id)
        message = f"The server failed. Report {error_id}, which is also in its log."
        failure = Failure(reason=Reason.INTERNAL, message=message, metadata={"error_id": error_id})
        await abort(context, BatonError(failure))


async def abort(context: Context, error: BatonError) -> NoReturn:
    """End the rpc with the status of a failure."""
    code, message, trailers = to_status(error)
    await context.abort(code, message, trailers)


def _handler(rpc: Rpc, ids: Ids) -> grpc.RpcMethodHandler[Any, Any]:
    read = _reader(rpc.request)
    if rpc.unary is not None:
        return grpc.unary_unary_rpc_method_handler(_unary(rpc.unary, ids), read, _serialize)
    if rpc.stream is not None:
        return grpc.unary_stream_rpc_method_handler(_stream(rpc.stream, ids), read, _serialize)
    if rpc.writing is not None:
        return grpc.unary_stream_rpc_method_handler(_writing(rpc.writing, ids), read, _serialize)
    assert rpc.bidi is not None
    return grpc.stream_stream_rpc_method_handler(_bidi(rpc.bidi, ids), read, _serialize)


def _unary(call: Callable[[Any, Context], Awaitable[Message]], ids: Ids) -> Any:
    async def serve(request: object, context: Context) -> Message:
        async with boundary(context, ids):
            return await call(readable(request), context)
        raise AssertionError("the boundary has ended the rpc")

    return serve


def _stream(call: Callable[[Any, Context], AsyncIterator[bytes]], ids: Ids) -> Any:
    async def serve(request: object, context: Context) -> None:
        async with boundary(context, ids):
            messages = call(readable(request), context)
            try:
                async for message in messages:
                    await context.write(message)
            finally:
                await messages.aclose()  # type: ignore[attr-defined]  # calls are async generators

    return serve


def _writing(call: Callable[[Any, Context], Awaitable[None]], ids: Ids) -> Any:
    async def serve(request: object, context: Context) -> None:
        async with boundary(context, ids):
            await call(readable(request), context)

    return serve


def _bidi(call: Callable[[Context], Awaitable[None]], ids: Ids) -> Any:
    async def serve(_frames: object, context: Context) -> None:
        async with boundary(context, ids):
            await call(context)

    return serve


def _reader(request: type[Message]) -> Callable[[bytes], Message | Unreadable]:
    def read(data: bytes) -> Message | Unreadable:
        if len(data) > RECEIVED_BYTES:
            message = f"The message has {len(data)} bytes; the server takes {RECEIVED_BYTES}. Send less at once."
            facts = {"size": str(len(data)), "limit": str(RECEIVED_BYTES)}
            return Unreadable(Failure(reason=Reason.MESSAGE_TOO_LARGE, message=message, metadata=facts))
        try:
            return request.FromString(data)
        except DecodeError:
            kind = request.DESCRIPTOR
            message = f"The bytes are no {kind.full_name}. Is the client built from {kind.file.package}?"
            return Unreadable(Failure(reason=Reason.INVALID_REQUEST, message=message))

    return read


def _serialize(message: Message | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()
