"""Runs what a command asks of a server, and turns what goes wrong into a line and an exit code."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from baton import (
    AgentsException,
    BatonConnectionError,
    Client,
    InvalidRequestError,
    NotFoundError,
    close_connections,
    set_default_address,
)
from baton.server.connection import connection_for
from baton.transport.retry import Timing
from baton_server.cli.exits import ExitCode
from baton_server.cli.terminal import fail

T = TypeVar("T")

IMPATIENT = Timing(connect_s=3.0, max_delay_s=2.0)
"""A person waits: a server that never answered is given up soon, one that was lost is asked for often."""


class WrongUsage(Exception):
    """A command cannot be tried as it was given; the message says what to change."""


def calling(address: str | None, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` with a client of the server, in an event loop of its own.

    Ends the command where the server cannot be reached, does not have what was named, or refuses.
    """
    use_server(address)
    with explained():
        return asyncio.run(_with_client(work))


def use_server(address: str | None) -> None:
    """Make a server the client's default; None: leave it to the environment."""
    # The client logs each broken connection; a command says it once, in its own words.
    logging.getLogger("baton").setLevel(logging.ERROR)
    if address is not None:
        set_default_address(address)


@contextmanager
def explained() -> Iterator[None]:
    """End the command, with a line and an exit code, where the block fails as calls of a server do."""
    try:
        yield
    except BatonConnectionError as error:
        fail(ExitCode.UNREACHABLE, str(error))
    except WrongUsage as error:
        fail(ExitCode.USAGE, str(error))
    except UnicodeEncodeError as error:  # what stands on a command line may be any bytes
        fail(ExitCode.USAGE, f"{error.object!r} is no UTF-8 text")
    except NotFoundError as error:
        fail(ExitCode.NOT_FOUND, str(error))
    except InvalidRequestError as error:
        fail(ExitCode.FAILED, *violations(error))
    except AgentsException as error:
        fail(ExitCode.FAILED, str(error))
    except KeyboardInterrupt:
        fail(ExitCode.INTERRUPTED)


async def client_here() -> Client:
    """Make a client for the running event loop; how it tries again is IMPATIENT."""
    connection_for(None, IMPATIENT)
    return Client()


def violations(error: InvalidRequestError) -> list[str]:
    """Say what the server found wrong, a line for each field."""
    return [f"{one.field} {one.description}".strip() for one in error.violations] or [str(error)]


async def _with_client(work: Callable[[Client], Awaitable[T]]) -> T:
    try:
        return await work(await client_here())
    finally:
        await close_connections()
