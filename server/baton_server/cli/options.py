"""Options that several commands take, each said once."""

from __future__ import annotations

import os
from typing import Annotated

import typer

HIGHEST_PORT = 65_535


def _is_host_and_port(address: str | None) -> str | None:
    """Refuse what is no HOST:PORT: gRPC would take 99999 for port 34463, a missing port for 443, a URL for a name."""
    host, colon, port = (address or "").rpartition(":")
    if address and not (colon and host and "/" not in address and port.isascii() and port.isdecimal()):
        raise typer.BadParameter(f"{address!r} is no address; write HOST:PORT, for example 127.0.0.1:50051")
    if address and int(port) > HIGHEST_PORT:
        raise typer.BadParameter(f"{address!r} has port {port}; the highest is {HIGHEST_PORT}")
    return address


Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar="BATON_ADDRESS",
        help="The server. [127.0.0.1:50051]",
        show_default=False,
        callback=_is_host_and_port,
    ),
]
"""Where the server is. None: the default one."""

Json = Annotated[
    bool, typer.Option("--json", help="Print JSON as the contract writes it, one message per line; no colours.")
]
"""For scripts: messages of `baton.v1` instead of words for people."""


Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="A model in place of the agent's own.", show_default=False),
]
"""None: the agent's."""

Host = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="TARGET",
        help="Host functions in this process, as `baton worker` would: MODULE, MODULE:NAME, FILE.py or FILE.py:NAME. "
        "The agent may call them. Repeatable.",
        show_default=False,
    ),
]
"""Targets of `loading.load_tools`; their functions serve this command's turns alone."""


def address_flag(address: str | None) -> list[str]:
    """Repeat `--address` for a command that is printed; nothing where the environment says the same."""
    return ["--address", address] if address and address != os.environ.get("BATON_ADDRESS") else []
