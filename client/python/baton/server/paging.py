"""Lists that come in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

from baton.server.connection import Connection

PAGE = 100
"""Entries asked for at once, the most that a page holds."""


class Page(Protocol):
    """An answer that is one page of a list."""

    @property
    def next_page_token(self) -> str:
        """What asks for the next page; empty: this was the last one."""


P = TypeVar("P", bound=Page)


async def pages(connection: Connection, method: Callable[..., Awaitable[P]], request: Any) -> AsyncIterator[P]:
    """Yield a list's pages. Each is asked for when the one before has been dealt with.

    The request is changed on the way: its token, and its size where it says none.
    """
    request.page_size = request.page_size or PAGE
    while True:
        answer = await connection.unary(method, request)
        yield answer
        if not answer.next_page_token:
            return
        request.page_token = answer.next_page_token
