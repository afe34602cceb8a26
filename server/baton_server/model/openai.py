"""The Responses API over HTTP with server-sent events.

The `openai` package is the transport, and carries bytes both ways: its typed requests cost 27 ms of CPU at
21 input items and 163 ms at 101, and its typed events as much again, where this costs 2 ms (20 words).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import aiohttp
import httpx2
from openai import (
    APIError,
    APIStatusError,
    AsyncOpenAI,
    AsyncStream,
    DefaultAioHttpClient,
    Omit,
    RequestOptions,
    Timeout,
)

from baton_server.core.inputs import ModelReplied
from baton_server.model.body import BodyWriter
from baton_server.model.extras import RequestError, request_options
from baton_server.model.failures import Provider, public_url
from baton_server.model.reply import ReplyReader
from baton_server.model.sse import EventCutter
from baton_server.ports.model import ModelError, ModelRequest, TextDelta

OPENAI_URL = "https://api.openai.com/v1"
"""Where OpenAI itself serves the Responses API."""

TIMEOUT_S = 600.0
"""A whole request: the `openai` package's own default."""

CONNECT_TIMEOUT_S = 10.0
"""Until the peer accepts a connection."""

MAX_REPLY_BYTES = 32 * 1024 * 1024
"""All bytes of one reply, its deltas included: against a peer that never ends."""

MAX_ERROR_BYTES = 64 * 1024
"""What is read of the body of an HTTP error."""

LAST_BYTES_TIMEOUT_S = 0.1
"""For the end of the HTTP body after the terminal event. It comes with it, or the connection is not kept."""

CLOSE_TIMEOUT_S = 1.0
"""For letting go of a connection whose peer takes no bytes."""

# What may come up from the openai package and the two libraries under it, whose own mapping of aiohttp's
# errors has gaps: some pass it as they are.
_BROKEN = (APIError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, aiohttp.ClientError, OSError)


class OpenAIModel:
    """Asks a server of the Responses API: OpenAI or a compatible one. A `ports.model.Model`.

    `api_key` empty: no Authorization header, for servers that want none. `base_url` up to and without
    "/responses". `timeout_s`: one request from its first byte to the reply's last, where its settings name no other;
    `connect_timeout_s` of it for the connection. `default_model`: for a request that names none; empty: such a request
    fails. `provider`: the name in failures. Nothing is retried here. Raises ValueError for a key or a URL that cannot
    work.
    """

    def __init__(
        self,
        *,
        api_key: str = "",
        base_url: str = "",
        timeout_s: float = TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        default_model: str = "",
        provider: str = "openai",
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        url, api_key = base_url.strip() or OPENAI_URL, api_key.strip()
        _check_access(url, api_key)
        self._timeout_s, self._default_model, self._max_bytes = timeout_s, default_model, max_reply_bytes
        self._provider = Provider(name=provider, base_url=public_url(url), api_key=api_key)
        self._bodies = BodyWriter()
        self._connect_timeout_s = min(connect_timeout_s, timeout_s)
        timeout = Timeout(timeout_s, connect=self._connect_timeout_s)
        self._client = AsyncOpenAI(
            api_key=api_key or "none",  # the package insists on one; `_headers` takes it away again
            admin_api_key="",
            base_url=url,
            max_retries=0,
            timeout=timeout,
            http_client=DefaultAioHttpClient(timeout=timeout, event_hooks={"response": [_shorten_error]}),
        )
        self._headers: dict[str, str | Omit] = {
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",  # to inflate a stream word by word costs more than its bytes
        }
        if not api_key:
            self._headers["Authorization"] = Omit()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReplied]:
        """Ask, and stream the reply. See `Model.stream`."""
        asked = self._asked(request)
        reader = ReplyReader(
            self._provider, asked.model, request.round, raw_usage=bool(request.settings.preserve_raw_usage)
        )
        try:
            async with aclosing(self._parts(asked, reader)) as deltas:
                async for delta in deltas:
                    yield delta
        except ModelError as error:
            error.attempt = replace(error.attempt, begun=reader.begun)
            raise
        assert reader.reply is not None
        yield replace(reader.reply, duration_ms=round((time.monotonic() - asked.began) * 1000))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def _asked(self, request: ModelRequest) -> _Asked:
        model, timeout_s = request.model or self._default_model, request.settings.timeout_s or self._timeout_s
        if not model:
            raise self._provider.unnamed_model()
        connect_s = min(self._connect_timeout_s, timeout_s)
        timeout = None if timeout_s == self._timeout_s else Timeout(timeout_s, connect=connect_s)
        try:
            return _Asked(
                model=model,
                body=self._bodies.write(request, model),
                options=request_options(request.settings, self._headers, timeout),
                conversation_id=request.conversation_id,
                timeout_s=timeout_s,
                connect_timeout_s=connect_s,
                began=time.monotonic(),
                deadline=asyncio.get_running_loop().time() + timeout_s,
            )
        except RequestError as error:
            raise self._provider.refused_settings(error) from error

    async def _parts(self, asked: _Asked, reader: ReplyReader) -> AsyncGenerator[TextDelta]:
        """Send the request and read its stream into `reader`, until that has its reply."""
        response = await self._post(asked)
        chunks, cutter, size = response.aiter_bytes(), EventCutter(), 0
        try:
            while reader.reply is None:
                chunk = await self._read(chunks, asked)
                size += len(chunk)
                if size > self._max_bytes:
                    raise self._provider.too_large(asked.model, self._max_bytes)
                for data in cutter.feed(chunk) if chunk else cutter.finish():
                    if (delta := reader.feed(data)) is not None:
                        yield delta
                    if reader.reply is not None:
                        break
                if not chunk and reader.reply is None:
                    raise self._provider.ended_early(asked.model, response.headers.get("content-type", ""))
            await _read_end(chunks)
        finally:
            if not response.is_closed:  # read to its end, it has closed itself
                await _let_go(response, chunks)

    async def _post(self, asked: _Asked) -> httpx2.Response:
        try:
            async with asyncio.timeout_at(asked.deadline):
                # The stream's class is never used: an httpx2.Response is handed out before it is looked at.
                answer: object = await self._client.post(
                    "/responses",
                    cast_to=httpx2.Response,
                    content=asked.body,
                    options=asked.options,
                    stream=True,
                    stream_cls=AsyncStream[object],
                )
        except _BROKEN as error:
            raise self._failure(asked, error) from error
        assert isinstance(answer, httpx2.Response)
        return answer

    async def _read(self, chunks: AsyncGenerator[bytes], asked: _Asked) -> bytes:
        """Read what is there; empty: the body is at its end."""
        try:
            async with asyncio.timeout_at(asked.deadline):
                return await anext(chunks, b"")
        except _BROKEN as error:
            raise self._failure(asked, error) from error

    def _failure(self, asked: _Asked, error: Exception) -> ModelError:
        if isinstance(error, APIStatusError):
            return self._provider.failed_status(asked.model, error, asked.conversation_id)
        cause = _first_cause(error)
        if isinstance(cause, aiohttp.ConnectionTimeoutError):
            return self._provider.unconnected(asked.connect_timeout_s)
        if isinstance(cause, TimeoutError):
            return self._provider.timed_out(asked.model, asked.timeout_s)
        return self._provider.broken(cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request as it is sent. `began` and `deadline` are of two clocks: monotonic, and the loop's."""

    model: str
    body: bytes
    options: RequestOptions
    conversation_id: str
    timeout_s: float
    connect_timeout_s: float
    began: float
    deadline: float


def _check_access(url: str, api_key: str) -> None:
    shown, parts = public_url(url), urlsplit(url)
    if not (api_key.isascii() and api_key.isprintable()):
        raise ValueError("the API key holds characters that no HTTP header can carry; copy it again")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the base URL {shown!r} is none: write it as https://HOST/v1")
    if parts.query or parts.fragment:
        raise ValueError(f"the base URL {shown!r} has a query or a fragment, which would stand before /responses")
    if parts.username is not None:
        raise ValueError(f"the base URL {shown!r} has a user, which the transport cannot send: use an API key")


def _first_cause(error: BaseException) -> BaseException:
    # The adapter under `openai` calls a peer that hung up a timeout; only aiohttp's own error tells.
    while not isinstance(error, aiohttp.ClientError | TimeoutError) and error.__cause__ is not None:
        error = error.__cause__
    return error


class _Shortened(httpx2.AsyncByteStream):
    """A body that ends after so many bytes."""

    def __init__(self, body: httpx2.AsyncByteStream, limit: int) -> None:
        self._body, self._limit = body, limit

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield what is within the limit; a chunk is not cut."""
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > self._limit:
                return
            yield chunk

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._body.aclose()


async def _shorten_error(response: httpx2.Response) -> None:
    # The package reads the whole body of an error; that of a success is counted where it is read.
    if not response.is_success and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Shortened(response.stream, MAX_ERROR_BYTES)


async def _read_end(chunks: AsyncGenerator[bytes]) -> None:
    """Read past the terminal event, for only a connection whose body was read to its end is used again."""
    with contextlib.suppress(*_BROKEN):
        async with asyncio.timeout(LAST_BYTES_TIMEOUT_S):
            while await anext(chunks, b""):
                pass


async def _let_go(response: httpx2.Response, chunks: AsyncGenerator[bytes]) -> None:
    with contextlib.suppress(*_BROKEN):
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await chunks.aclose()
            await response.aclose()
