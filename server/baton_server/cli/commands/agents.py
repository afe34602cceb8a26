"""`baton agents`: the agents that the server keeps, as files go in and come out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from baton import Client, InvalidRequestError, StateError
from baton.v1 import agent_pb2
from baton_server.cli.calling import WrongUsage, calling, violations
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.agent_file import WrongAgentFile, read_agent, read_agent_file, same_agent, write_agent
from baton_server.cli.given.arguments import AgentName
from baton_server.cli.given.confirming import confirm, must_say_yes
from baton_server.cli.given.naming import agents_named, find_agent, ids_of
from baton_server.cli.options import Address, Json
from baton_server.cli.show.tables import Column, print_table
from baton_server.cli.show.texts import one_line
from baton_server.cli.show.times import ago, now
from baton_server.cli.terminal import err, fail, out, print_json

STDIN = "-"
"""In place of a file."""

AGENTS = (
    Column(title="AGENT"),
    Column(title="NAME"),
    Column(title="REVISION", right=True),
    Column(title="MODEL", whole=False),
    Column(title="TOOLS", right=True),
    Column(title="CHANGED"),
)
REVISIONS = (
    Column(title="REVISION", right=True),
    Column(title="NAME", whole=False),
    Column(title="MODEL", whole=False),
    Column(title="TOOLS", whole=False),
    Column(title="MADE"),
    Column(title="DIGEST"),
)
DIGITS = 12
"""Of a digest, in a table."""

agents = typer.Typer(
    help="Keep agents on the server, by name or id, with all their revisions. A run may also bring its own.",
    no_args_is_help=True,
)


@agents.command("list")
def list_agents(address: Address = None, as_json: Json = False) -> None:
    """List the kept agents, newest first, each at its newest revision."""
    found = calling(address, _all)
    if as_json:
        _print_all(found)
    elif found:
        at = now()
        print_table(AGENTS, ([kept.agent_id, *_row(kept, ago(kept.created_at, at))] for kept in found))
    if not found:
        err.print("baton: no agent is kept; baton agents apply FILE keeps one")


@agents.command(epilog="Example: baton agents show Assistant > assistant.yaml")
def show(
    agent: AgentName,
    revision: Annotated[
        int | None, typer.Option(min=1, help="This revision. Default: the newest.", show_default=False)
    ] = None,
    revisions: Annotated[bool, typer.Option("--revisions", help="List its revisions instead, newest first.")] = False,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Show a kept agent as a file that baton agents apply takes again."""
    if revision is not None and revisions:
        fail(ExitCode.USAGE, "--revision and --revisions exclude one another")

    async def work(client: Client) -> list[agent_pb2.AgentRevision]:
        kept = await find_agent(client, agent)
        if revisions:
            return [one async for one in client.list_agent_revisions(kept.agent_id)]
        return [kept if revision is None else await client.get_agent(kept.agent_id, revision)]

    found = calling(address, work)
    at = now()
    if as_json:
        _print_all(found)
    elif revisions:
        print_table(REVISIONS, (_revision_row(kept, ago(kept.created_at, at)) for kept in found))
    else:
        (kept,) = found
        typer.echo(f"# {kept.agent_id}, revision {kept.revision}, made {ago(kept.created_at, at)}")
        for key, value in sorted(kept.metadata.items()):
            typer.echo(f"# label {one_line(f'{key}={value}', 1000)}")
        typer.echo(write_agent(kept.agent), nl=False)


@agents.command(epilog="Example: baton agents apply assistant.yaml && baton run Assistant 'Hello'")
def apply(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="An agent in YAML or JSON; - reads standard input.", show_default=False),
    ],
    agent_id: Annotated[
        str, typer.Option("--id", metavar="AGENT_ID", help="Change this agent, whatever its name.", show_default=False)
    ] = "",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Keep an agent: make it, or a new revision of the one with its name; say unchanged where it is the same.

    Sessions and turns that began with an older revision keep that. Labels stay as they are.
    """
    where = "standard input" if file == STDIN else file
    try:
        wanted = read_agent(_stdin(), where) if file == STDIN else read_agent_file(Path(file))
    except WrongAgentFile as wrong:
        fail(ExitCode.USAGE, *wrong.args)
    applied = calling(address, lambda client: _apply(client, wanted, where, agent_id))
    if as_json:
        print_json(applied.revision)
        return
    kept = applied.revision
    out.print(f"{applied.what} {kept.agent_id} revision {kept.revision} ({one_line(kept.agent.name)})")


@agents.command()
def delete(
    agent: AgentName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: Address = None,
) -> None:
    """Delete a kept agent with all its revisions, after a question. Sessions that began with it keep theirs."""
    must_say_yes(yes, f"delete the agent {agent!r}")
    kept = calling(address, lambda client: find_agent(client, agent))
    revisions = "its one revision" if kept.revision == 1 else f"all {kept.revision:,} revisions"
    question = f"Delete the agent {kept.agent_id} ({kept.agent.name}) with {revisions}?"
    confirm(yes, one_line(question, 1000), f"{kept.agent_id} was not deleted")
    calling(address, lambda client: client.delete_agent(kept.agent_id))
    out.print(f"deleted {kept.agent_id}")


# -- applying ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of a file. `what`: created, updated or unchanged."""

    what: str
    revision: agent_pb2.AgentRevision


async def _apply(client: Client, wanted: agent_pb2.Agent, where: str, agent_id: str) -> Applied:
    """Bring what is kept to what the file says. Ends the command where the server refuses the file."""
    known = await _known(client, wanted.name, agent_id)
    if known is not None and same_agent(known.agent, wanted):
        return Applied(what="unchanged", revision=known)
    try:
        if known is None:
            return Applied(what="created", revision=await client.create_agent(wanted))
        changed = await client.update_agent(
            known.agent_id, wanted, expected_revision=known.revision, metadata=known.metadata
        )
        return Applied(what="updated", revision=changed)
    except InvalidRequestError as refused:
        fail(ExitCode.FAILED, *(f"{where}: {line.removeprefix('agent.')}" for line in violations(refused)))
    except StateError as conflict:
        if conflict.reason != "REVISION_CONFLICT":
            raise
        newest = conflict.metadata.get("revision", "another one")
        fail(
            ExitCode.FAILED,
            f"{known.agent_id if known else wanted.name} was changed by somebody else meanwhile, from revision "
            f"{known.revision if known else 0} to {newest}. Look at it with baton agents show; applying again is safe",
        )


async def _known(client: Client, name: str, agent_id: str) -> agent_pb2.AgentRevision | None:
    """Find what the file is a revision of; None: it is new. Raises WrongUsage, NotFoundError."""
    if agent_id:
        return await client.get_agent(agent_id)
    found = await agents_named(client, name)
    if len(found) > 1:
        raise WrongUsage(f"{len(found)} agents have the name {name!r}; say which with --id: {ids_of(found)}")
    return found[0] if found else None


def _stdin() -> str:
    """Read standard input. Raises WrongAgentFile."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise WrongAgentFile(f"standard input is no UTF-8 text: {error.reason} at byte {error.start}") from None


# -- showing -------------------------------------------------------------------------------------


async def _all(client: Client) -> list[agent_pb2.AgentRevision]:
    return [kept async for kept in client.list_agents()]


def _print_all(found: Iterable[agent_pb2.AgentRevision]) -> None:
    for kept in found:
        print_json(kept)


def _row(kept: agent_pb2.AgentRevision, changed: str) -> list[str]:
    return [kept.agent.name, str(kept.revision), kept.agent.model, str(len(kept.agent.tools)), changed]


def _revision_row(kept: agent_pb2.AgentRevision, made: str) -> list[str]:
    tools = ", ".join(_tool_name(tool) for tool in kept.agent.tools)
    return [str(kept.revision), kept.agent.name, kept.agent.model, tools, made, kept.digest[:DIGITS]]


def _tool_name(tool: agent_pb2.Tool) -> str:
    """Name what an agent may call as it is told apart best: a function, an agent, or a kind."""
    match tool.WhichOneof("tool"):
        case "function":
            return tool.function.name
        case "agent":
            return tool.agent.tool_name or tool.agent.agent
        case other:
            return (other or "unknown").replace("_", " ")
