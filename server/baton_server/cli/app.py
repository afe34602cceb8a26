"""The commands, in the order in which a person meets them."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from baton_server.cli.commands.actions import EXAMPLE as ACTIONS_EXAMPLE
from baton_server.cli.commands.actions import actions
from baton_server.cli.commands.agents import agents
from baton_server.cli.commands.answer import EXAMPLE as ANSWER_EXAMPLE
from baton_server.cli.commands.answer import answer
from baton_server.cli.commands.chat import EXAMPLES as CHAT_EXAMPLES
from baton_server.cli.commands.chat import chat
from baton_server.cli.commands.decide import APPROVE_EXAMPLE, REJECT_EXAMPLE, approve, reject
from baton_server.cli.commands.explain import EXAMPLE as EXPLAIN_EXAMPLE
from baton_server.cli.commands.explain import explain
from baton_server.cli.commands.health import health
from baton_server.cli.commands.redeliver import EXAMPLE as REDELIVER_EXAMPLE
from baton_server.cli.commands.redeliver import redeliver
from baton_server.cli.commands.run import EXAMPLES as RUN_EXAMPLES
from baton_server.cli.commands.run import run
from baton_server.cli.commands.serve import serve
from baton_server.cli.commands.sessions import sessions
from baton_server.cli.commands.worker import EXAMPLES as WORKER_EXAMPLES
from baton_server.cli.commands.worker import worker
from baton_server.cli.commands.workers import EXAMPLE as WORKERS_EXAMPLE
from baton_server.cli.commands.workers import workers
from baton_server.cli.demo.command import demo
from baton_server.cli.exits import CODES_HELP
from baton_server.cli.help import flow_help

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
app.command(rich_help_panel=START, epilog=WORKER_EXAMPLES)(worker)
app.command(rich_help_panel=START)(demo)
app.command(rich_help_panel=USE, epilog=RUN_EXAMPLES)(run)
app.command(rich_help_panel=USE, epilog=CHAT_EXAMPLES)(chat)
app.add_typer(sessions, name="sessions", rich_help_panel=LOOK)
app.add_typer(agents, name="agents", rich_help_panel=LOOK)
app.command(rich_help_panel=LOOK, epilog=ACTIONS_EXAMPLE)(actions)
app.command(rich_help_panel=LOOK, epilog=APPROVE_EXAMPLE)(approve)
app.command(rich_help_panel=LOOK, epilog=REJECT_EXAMPLE)(reject)
app.command(rich_help_panel=LOOK, epilog=ANSWER_EXAMPLE)(answer)
app.command(rich_help_panel=LOOK, epilog=REDELIVER_EXAMPLE)(redeliver)
app.command(rich_help_panel=LOOK, epilog=EXPLAIN_EXAMPLE)(explain)
app.command(rich_help_panel=LOOK, epilog=WORKERS_EXAMPLE)(workers)
app.command(rich_help_panel=LOOK)(health)


@app.command(rich_help_panel=START)
def version() -> None:
    """Print the version."""
    typer.echo(installed_version("baton-runtime"))


def _asked_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback(help=app.info.help)
def _every(
    _version: Annotated[
        bool, typer.Option("--version", callback=_asked_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take what stands before every command."""


flow_help(app)
