"""The commands, in the order in which a person meets them."""

from __future__ import annotations

from importlib.metadata import version as installed_version

import typer

from baton_server.cli.demo import demo
from baton_server.cli.exits import CODES_HELP
from baton_server.cli.serve import serve

app = typer.Typer(
    name="baton",
    help="Baton, a gRPC runtime for LLM agents: the loop runs in one server, functions run where you host them.",
    epilog=CODES_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

START, USE, LOOK = "Start", "Talk to agents", "Look and answer"
"""Headings in --help."""

app.command(rich_help_panel=START)(serve)
app.command(rich_help_panel=START)(demo)


@app.command(rich_help_panel=START)
def version() -> None:
    """Print the version."""
    typer.echo(installed_version("baton-runtime"))
