"""`baton health`, as a container's health check and a person ask it."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from pathlib import Path

import grpc
import pytest
from tests.support.server import free_port, server

from baton.address import FALLBACK
from baton_server.cli.commands.health import DEFAULT_ADDRESS
from baton_server.config import Settings

pytestmark = pytest.mark.slow  # each starts a process


async def _python(*arguments: str, **environment: str) -> tuple[int, str, str]:
    """Run Python to its end; returns exit code, output and errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**kept, "NO_COLOR": "1", "COLUMNS": "80", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def _health(*arguments: str, **environment: str) -> tuple[int, str, str]:
    return await _python("-m", "baton_server", "health", *arguments, **environment)


@pytest.mark.parametrize("service", [(), ("--service", "baton.v1.RunnerService")])
async def test_a_server_that_serves_is_told_and_ends_with_zero(tmp_path: Path, service: tuple[str, ...]) -> None:
    """As a whole and by the name of a service; the word alone is on standard output."""
    async with server(tmp_path) as baton:
        assert await _health("--address", baton.address, *service) == (0, "SERVING\n", "")


async def test_a_server_that_drains_does_not_serve(tmp_path: Path) -> None:
    """Whoever sends callers there sees it by the exit code, and a person by the word."""
    async with server(tmp_path) as baton:
        await baton.grpc.leave()

        assert await _health("--address", baton.address) == (1, "NOT_SERVING\n", "")


async def test_a_server_without_its_store_does_not_serve(tmp_path: Path) -> None:
    """Nothing can be acknowledged there."""
    async with server(tmp_path) as baton:
        await baton.runtime.store.close()
        async with asyncio.timeout(30):
            while (answer := await _health("--address", baton.address))[0] == 0:
                pass

    assert answer == (1, "NOT_SERVING\n", "")


async def test_a_service_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A misspelt name is not taken for a server that is ill."""
    async with server(tmp_path) as baton:
        code, out, errors = await _health("--address", baton.address, "--service", "baton.v1.Runer")

    assert (code, out) == (4, "")
    assert "'baton.v1.Runer'" in errors


async def test_nobody_there_ends_with_three() -> None:
    """One line names the address."""
    address = f"127.0.0.1:{free_port()}"

    code, out, errors = await _health("--address", address)

    assert (code, out) == (3, "")
    assert errors.startswith(f"baton: no server answers at {address}: ")
    assert errors.count("\n") == 1


async def test_one_that_never_answers_is_not_waited_for_longer_than_asked() -> None:
    """A process that hangs still has its port open; the timeout ends the wait."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        code, out, errors = await _health("--address", address, "--timeout", "0.3")

    assert (code, out) == (3, "")
    assert errors == f"baton: no server answers at {address} within 0.3 s\n"


async def test_another_grpc_server_is_not_taken_for_ours() -> None:
    """One without the health protocol ends with a failure, and a guess at why."""
    other = grpc.aio.server()
    address = f"127.0.0.1:{other.add_insecure_port('127.0.0.1:0')}"
    await other.start()
    try:
        code, out, errors = await _health("--address", address)
    finally:
        await other.stop(None)

    assert (code, out) == (1, "")
    assert "does not tell its health" in errors


async def test_the_address_that_a_container_listens_on_can_be_asked(tmp_path: Path) -> None:
    """BATON_ADDRESS=0.0.0.0:… says where to listen, and the check in the same container reads it too."""
    async with server(tmp_path) as baton:
        assert await _health(BATON_ADDRESS=f"0.0.0.0:{baton.port}") == (0, "SERVING\n", "")


async def test_this_machine_is_asked_without_its_proxy(tmp_path: Path) -> None:
    """Containers are often given a proxy for the world, which knows nothing of the container itself."""
    async with server(tmp_path) as baton:
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy"), "http://127.0.0.1:9")
        assert await _health("--address", baton.address, no_proxy="", **proxies) == (0, "SERVING\n", "")


@pytest.mark.parametrize("arguments", [("--address", "127.0.0.1:99999"), ("--timeout", "0"), ("--timeout", "nan")])
async def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...]) -> None:
    """gRPC would ask port 34463 in place of 99999."""
    code, out, errors = await _health(*arguments)

    assert (code, out) == (2, "")
    assert arguments[0] in errors


async def test_help_reads_well_alone_and_among_the_commands() -> None:
    """The short way to the command says no less than the long one, on 80 columns."""
    code, alone, _ = await _health("--help")
    everything = await _python("-m", "baton_server", "--help")

    assert code == 0
    assert "Usage: baton health" in alone
    assert max(len(line) for line in alone.splitlines()) <= 80
    assert "Ask a server whether it serves." in everything[1]


async def test_it_loads_little() -> None:
    """It is asked every few seconds: neither the client library, nor the server's, nor the other commands."""
    _, _, errors = await _python("-X", "importtime", "-m", "baton_server", "health", "--timeout", "0.1")

    loaded = set(re.findall(r"^import time: .*\| +(\S+)$", errors, re.MULTILINE))
    assert "baton_server.cli.commands.health" in loaded
    assert not loaded & {"baton", "baton_server.cli.app", "baton_server.config", "openai", "rich.console"}


def test_the_default_address_is_everybodys() -> None:
    """It is said three times, since none of the three may import another: here, client, server."""
    assert DEFAULT_ADDRESS == FALLBACK == Settings.model_fields["address"].default
