"""Runs what a command asks of a server, and turns what goes wrong into a line and an exit code."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from baton import AgentsException, BatonConnectionError, Client, NotFoundError, close_connections, set_default_address
from baton_server.cli.exits import ExitCode
from baton_server.cli.terminal import fail

T = TypeVar("T")


def calling(address: str | None, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` with a client of the server, in an event loop of its own.

    Ends the command where the server cannot be reached, does not have what was named, or refuses.
    """
    # The client logs each broken connection; a command says it once, in its own words.
    logging.getLogger("baton").setLevel(logging.ERROR)
    if address is not None:
        set_default_address(address)
    try:
        return asyncio.run(_with_client(work))
    except BatonConnectionError as error:
        fail(ExitCode.UNREACHABLE, str(error))
    except NotFoundError as error:
        fail(ExitCode.NOT_FOUND, str(error))
    except AgentsException as error:
        fail(ExitCode.FAILED, str(error))
    except KeyboardInterrupt:
        fail(ExitCode.INTERRUPTED)


async def _with_client(work: Callable[[Client], Awaitable[T]]) -> T:
    try:
        return await work(Client())
    finally:
        await close_connections()
