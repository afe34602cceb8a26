"""The commands, one function each."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from baton_server.cli.demo import run_demo
from baton_server.cli.serve import serve
from baton_server.main import VERSION

app = typer.Typer(
    name="baton",
    help="Baton, a gRPC runtime for LLM agents: the loop runs in one server, functions run where you host them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(serve)


@app.command()
def demo(
    plain: Annotated[bool, typer.Option("--plain", help="No colours, one fact per line.")] = False,
) -> None:
    """Show the main job: a server, a worker, a turn that survives the server's death.

    With OPENAI_API_KEY in the environment it asks the real model, otherwise the built-in one.
    """
    raise typer.Exit(run_demo(Console(no_color=plain, highlight=False)))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(VERSION)
