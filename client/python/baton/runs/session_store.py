"""A session of the application's own: any object with `get_items` and `add_items`, asked by the server as a hook."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, Protocol, runtime_checkable

from baton.hooks import RemoteHook
from baton.hooks.data import SessionStoreData
from baton.hooks.refs import HookUse
from baton.server.session_settings import SessionSettings


@runtime_checkable
class SessionStore(Protocol):
    """What a session of the application's own has to have; the Agents SDK's sessions have it. Sync or async.

    Each of a turn's parts is added once and in order; where a process is lost in between, perhaps twice.
    """

    def get_items(self, limit: int | None = None) -> list[Any] | Awaitable[list[Any]]:
        """Give its items, oldest first. `limit`: only so many of the newest; None: all."""

    def add_items(self, items: list[Any]) -> Any:
        """Keep some more."""


class SessionABC(ABC):
    """A base for sessions of the application's own, by the Agents SDK's name. A run uses the first two methods."""

    session_id: str
    session_settings: SessionSettings | None = None

    @abstractmethod
    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Give its items, oldest first. `limit`: only so many of the newest; None: all."""

    @abstractmethod
    async def add_items(self, items: list[Any]) -> None:
        """Keep some more."""

    @abstractmethod
    async def pop_item(self) -> Any:
        """Take the newest item out and give it; None: there is none."""

    @abstractmethod
    async def clear_session(self) -> None:
        """Take all items out."""


def store_use(store: SessionStore | RemoteHook) -> HookUse:
    """Use a store as a hook of this process, or one that a worker elsewhere serves."""
    if isinstance(store, RemoteHook):
        return HookUse(kind="session_store", source=store, name=store.name, function=None)

    async def asked(data: SessionStoreData[Any]) -> Any:
        if data.operation == "add":
            said = store.add_items([dict(item) for item in data.items])
            return await said if inspect.isawaitable(said) else None
        items = store.get_items(data.limit)
        return list(await items if inspect.isawaitable(items) else items)

    return HookUse(kind="session_store", source=store, name=type(store).__name__, function=asked)
