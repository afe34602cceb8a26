"""What commands print: words for people on a console, messages of the contract for scripts.

Results go to standard output; what tells how the command is doing goes to standard error, so that a pipe gets
results alone. Rich leaves colours out by itself where NO_COLOR is set or nobody looks.
"""

from __future__ import annotations

from typing import NoReturn

import typer
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from rich.console import Console

from baton_server.cli.exits import ExitCode

out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
"""For results."""

err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
"""For progress and errors."""


def print_json(message: Message) -> None:
    """Print a message as one line of JSON, fields named as in the contract."""
    typer.echo(MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False))


def fail(code: ExitCode, *problems: str) -> NoReturn:
    """End the command: one line per problem, `baton: …`, on standard error."""
    for problem in problems:
        typer.echo(f"baton: {problem}", err=True)
    raise typer.Exit(code)
