"""What commands print: words for people on a console, messages of the contract for scripts.

Results go to standard output; what tells how the command is doing goes to standard error, so that a pipe gets
results alone. Rich leaves colours out by itself where NO_COLOR is set or nobody looks.
"""

from __future__ import annotations

import sys
from typing import NoReturn, TextIO

import typer
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from rich.console import Console

from baton_server.cli.exits import ExitCode
from baton_server.cli.show.texts import safe, safe_json

out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
"""For results."""

err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
"""For progress and errors."""


def print_json(message: Message, file: TextIO | None = None) -> None:
    """Print a message as one line of JSON, fields named as in the contract. `file` None: standard output."""
    ascii_only = not (getattr(file or sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    line = MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=ascii_only)
    typer.echo(safe_json(line), file=file)


def fail(code: ExitCode, *problems: str) -> NoReturn:
    """End the command: one line per problem, `baton: …`, on standard error."""
    for problem in problems:
        typer.echo(f"baton: {safe(problem)}", err=True)
    raise typer.Exit(code)
