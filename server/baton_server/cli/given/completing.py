"""Completes ids, keys and names in the shell, by what the server has; one that is slow or away completes nothing."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import chain
from pathlib import Path
from typing import TypeVar

import typer

from baton import AgentsException, Client, close_connections
from baton.v1 import event_pb2
from baton_server.cli.calling import WrongUsage, use_server
from baton_server.cli.given.naming import find_session

PATIENCE_S = 1.0
"""How long a person who pressed Tab waits at most, the shell's own time aside."""

AGENT_FILES = (".yaml", ".yml", ".json")
"""Endings of files that hold agents."""

MOST = 100
"""Sessions, agents or calls that are looked at: one page of each list."""

Entry = TypeVar("Entry")

_PLAIN = re.compile(r"[A-Za-z0-9_.:@%+=,/-]+")
"""What a shell takes as one word without quotes. Other keys and names are not offered."""


def complete_session(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a session by its id or key."""

    async def names(client: Client) -> list[str]:
        sessions = await _first(client.list_sessions())
        return list(chain.from_iterable((one.key, one.session_id) for one in sessions))

    return _completed(context, incomplete, names)


def complete_agent(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a kept agent by its id, or by its name if only one has it."""

    async def names(client: Client) -> list[str]:
        agents = await _first(client.list_agents())
        count = Counter(kept.agent.name for kept in agents)
        single = (name for name, times in count.items() if times == 1)
        return [*single, *(kept.agent_id for kept in agents)]

    return _completed(context, incomplete, names)


def complete_agent_or_file(context: typer.Context, incomplete: str) -> list[str]:
    """Complete who is to answer: a kept agent, or a file or folder here. Deeper ones are left to the shell."""
    if os.sep in incomplete:
        return []
    here = sorted(path for path in Path().iterdir() if path.suffix in AGENT_FILES or path.is_dir())
    files = [f"{path.name}{os.sep if path.is_dir() else ''}" for path in here if path.name.startswith(incomplete)]
    if not incomplete.startswith("."):
        files = [name for name in files if not name.startswith(".")]
    return [*complete_agent(context, incomplete), *(name for name in files if _PLAIN.fullmatch(name))]


def complete_call(context: typer.Context, incomplete: str) -> list[str]:
    """Complete an open call of the session that was named before, by its id, or by its name if only one has it."""

    async def names(client: Client) -> list[str]:
        session = await find_session(client, context.params.get("session") or "")
        count = Counter(action.name for action in session.required_actions)
        single = (name for name, times in count.items() if times == 1)
        return [*single, *(action.call_id for action in session.required_actions)]

    return _completed(context, incomplete, names)


def complete_open_call(context: typer.Context, incomplete: str) -> list[str]:
    """Complete an open call of any session by its id."""

    async def names(client: Client) -> list[str]:
        return [action.call_id for action in await _first(client.list_required_actions())]

    return _completed(context, incomplete, names)


def complete_undecided_call(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a call of any session that waits for a decision, by its id, or by its name if only one has it."""

    async def names(client: Client) -> list[str]:
        states = [event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION]
        waiting = await _first(client.list_required_actions(states=states))
        count = Counter(action.name for action in waiting)
        single = (name for name, times in count.items() if times == 1)
        return [*single, *(action.call_id for action in waiting)]

    return _completed(context, incomplete, names)


def _completed(context: typer.Context, incomplete: str, names: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    """Ask the server for names, and choose those that begin as what was typed; nothing where it does not answer."""

    async def ask() -> list[str]:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await names(Client())
        finally:
            await close_connections()

    use_server(context.params.get("address"))
    try:
        found = asyncio.run(ask())
    except (AgentsException, WrongUsage, TimeoutError, OSError):
        return []
    return [name for name in found if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


async def _first(listed: AsyncIterator[Entry]) -> list[Entry]:
    """Take the first page of a list."""
    found: list[Entry] = []
    async for one in listed:
        found.append(one)
        if len(found) == MOST:
            break
    return found
