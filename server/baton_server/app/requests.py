"""Requests that come twice: the first answer, or REQUEST_ID_REUSED where the body is another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from baton_server.app.runtime import Runtime
from baton_server.core.errors import BatonError, Failure, Reason, Refused, refuse
from baton_server.ports.store import Conflict, Duplicate, RequestKey, RequestRow

T = TypeVar("T")

MAX_TRIES = 20
"""Conflicts in a row before a write gives up: each means that another writer got through meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asks: the rpc, the scope of its request_id, and the digest of its body without the request_id."""

    rpc: str
    session_id: str
    request_id: str
    digest: str

    @property
    def key(self) -> RequestKey:
        """Name the request in the store."""
        return RequestKey(rpc=self.rpc, session_id=self.session_id, request_id=self.request_id)

    def row(self, **answer: Any) -> RequestRow:
        """Make the row that keeps the answer."""
        return RequestRow(key=self.key, digest=self.digest, answer=json.dumps(answer).encode())


async def first_answer(runtime: Runtime, request: Request) -> Mapping[str, Any] | None:
    """Find the answer that a request got before; None: it is new. Raises Refused(REQUEST_ID_REUSED)."""
    row = await runtime.store.requests.get(request.key)
    return None if row is None else answer_of(row, request)


def answer_of(row: RequestRow, request: Request) -> Mapping[str, Any]:
    """Read a kept answer. Raises Refused(REQUEST_ID_REUSED) where the body was another one."""
    if row.digest != request.digest:
        raise refuse(
            Reason.REQUEST_ID_REUSED,
            f"The request_id {request.request_id!r} was used before with another body. Choose a new one for a "
            "new request; send the same body to get the first answer.",
            request_id=request.request_id,
            first_seen=f"{datetime.fromtimestamp(row.created_at, UTC):%Y-%m-%dT%H:%M:%SZ}",
        )
    answer: Mapping[str, Any] = json.loads(row.answer)
    return answer


async def once(
    runtime: Runtime,
    request: Request,
    attempt: Callable[[], Awaitable[T]],
    repeated: Callable[[Mapping[str, Any]], Awaitable[T]],
) -> T:
    """Do a write once: try again on a Conflict, and answer a repeated request from its first answer.

    `attempt` reads, decides and commits with `request.row(…)` in its batch. What has begun goes its whole way
    also when the caller goes away meanwhile: a commit is always followed by what it owes.
    """
    return await runtime.finishing.run(_once(runtime, request, attempt, repeated))


async def _once(
    runtime: Runtime,
    request: Request,
    attempt: Callable[[], Awaitable[T]],
    repeated: Callable[[Mapping[str, Any]], Awaitable[T]],
) -> T:
    known = await first_answer(runtime, request)
    if known is not None:
        return await repeated(known)
    with suppress(Conflict):
        return await _try(runtime, request, attempt, repeated)
    # Writers who got into each other's way go on in single file, so that each soon gets through.
    lock = runtime.contended.setdefault(request.session_id, asyncio.Lock())
    async with lock:
        for _ in range(MAX_TRIES):
            with suppress(Conflict):
                return await _try(runtime, request, attempt, repeated)
    message = "The session is written to by many at once. Try again."
    raise Refused(Failure(reason=Reason.UNAVAILABLE, message=message, metadata={"part": "store"}))


async def _try(
    runtime: Runtime,
    request: Request,
    attempt: Callable[[], Awaitable[T]],
    repeated: Callable[[Mapping[str, Any]], Awaitable[T]],
) -> T:
    try:
        return await attempt()
    except Duplicate as duplicate:
        return await repeated(answer_of(duplicate.row, request))
    except BatonError:
        # The same request, sent twice at once, may be what it was refused over.
        known = await first_answer(runtime, request)
        if known is None:
            raise
        return await repeated(known)
