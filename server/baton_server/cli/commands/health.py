"""`baton health`: asks a server how it is, by the health protocol of gRPC.

Containers ask every few seconds, so this module imports what it needs and no more: neither the client library,
nor Rich. `main` runs the command without loading the others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import grpc
import typer
from grpc_health.v1 import health_pb2, health_pb2_grpc

from baton_server.cli.exits import ExitCode
from baton_server.cli.options import Address
from baton_server.cli.show.texts import safe

DEFAULT_ADDRESS = "127.0.0.1:50051"
"""The client library's and the server's own; a test holds the three equal."""

TIMEOUT_S = 5.0
"""How long the answer may take, the connection included."""

_STATUSES = {number: name for name, number in health_pb2.HealthCheckResponse.ServingStatus.items()}

_HERE = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"}

Service = Annotated[
    str,
    typer.Option(
        help="Ask for one service, baton.v1.RunnerService for example. Default: the whole server.", show_default=False
    ),
]
Timeout = Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds to wait for the answer.")]


def health(address: Address = None, service: Service = "", timeout: Timeout = TIMEOUT_S) -> None:
    """Ask a server whether it serves.

    Prints SERVING, or what it says instead: NOT_SERVING while its store is
    away and while it drains. Exits with 0 only where it serves, with 1 where
    it does not, and with 3 where nobody answers.
    """
    where = address or os.environ.get("BATON_ADDRESS") or DEFAULT_ADDRESS
    try:
        status = _ask(where, service, timeout)
    except grpc.RpcError as error:
        _explain(error, where, service, timeout)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    typer.echo(_STATUSES.get(status, str(status)))
    if status != health_pb2.HealthCheckResponse.SERVING:
        raise typer.Exit(ExitCode.FAILED)


def main(arguments: Sequence[str]) -> None:
    """Run this command alone, as `baton health` with these arguments."""
    alone = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    alone.command()(health)
    alone(args=arguments, prog_name="baton health")


def _ask(address: str, service: str, timeout_s: float) -> int:
    """Ask once; returns a ServingStatus. Raises grpc.RpcError."""
    # gRPC would ask the proxy of `http_proxy`, which containers are often given, even for this machine.
    options = [("grpc.enable_http_proxy", 0)] if _is_here(address) else []
    with grpc.insecure_channel(address, options) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its types do not say that it has methods
        status: int = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s).status
        return status


def _is_here(address: str) -> bool:
    """Tell whether the address is one of this machine, or the one of a server that listens on all of its own."""
    return address.rpartition(":")[0].strip("[]") in _HERE


def _explain(error: grpc.RpcError, address: str, service: str, timeout_s: float) -> NoReturn:
    """End the command with what the lack of an answer means."""
    code, server = error.code(), f"the server at {address}"
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            _fail(ExitCode.UNREACHABLE, f"no server answers at {address}: {error.details()}")
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            _fail(ExitCode.UNREACHABLE, f"no server answers at {address} within {timeout_s:g} s")
        case grpc.StatusCode.NOT_FOUND:
            _fail(ExitCode.NOT_FOUND, f"{server} has no service {service!r}; baton.v1.RunnerService is one")
        case grpc.StatusCode.UNIMPLEMENTED:
            _fail(ExitCode.FAILED, f"{server} does not tell its health: is it Baton?")
        case _:
            _fail(ExitCode.FAILED, f"{server} answers {code.name}: {error.details()}")


def _fail(code: ExitCode, problem: str) -> NoReturn:
    # As terminal.fail, whose module loads Rich.
    typer.echo(f"baton: {safe(problem)}", err=True)
    raise typer.Exit(code)
