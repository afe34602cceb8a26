"""`baton run`: one turn of an agent, shown as it goes; its final output on standard output."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, NoReturn, TextIO

import typer

from baton import Client, FunctionTool, NotFoundError
from baton.v1 import event_pb2, runner_pb2, session_pb2
from baton_server.cli.calling import WrongUsage, calling
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.completing import complete_agent_or_file, complete_session
from baton_server.cli.given.naming import SESSION_PREFIX, find_session
from baton_server.cli.options import Address, Host, Json, Model
from baton_server.cli.show.open_calls import FOR_PEOPLE, command
from baton_server.cli.show.texts import one_line
from baton_server.cli.talk.choosing import AGENT_HELP, Chosen, Given, choose_agent, given_agent, request_for
from baton_server.cli.talk.connection_notes import ConnectionNotes
from baton_server.cli.talk.following import View, follow_run
from baton_server.cli.talk.hosting import functions_of, hosted, results_apart
from baton_server.cli.talk.interrupts import on_signal_in_loop, terminated
from baton_server.cli.talk.outcomes import code_of, explain_end, explain_wait, output_of
from baton_server.cli.talk.screen import Screen
from baton_server.cli.terminal import fail, out, print_json

EXAMPLES = """Examples:

baton run agent.yaml "What is the weather in Kyoto?"

baton run agent.yaml --host weather.py --session trip "And in Oslo?"

git diff | baton run reviewer - --json
"""

Events = Annotated[bool, typer.Option("--events", help="With --json: print each event as well, as it happens.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A run as the command line says it. `session` None: one is made for it. `live`: a person looks on."""

    agent: Given
    text: str
    session: str | None
    model: str
    max_turns: int | None
    tools: Sequence[FunctionTool]
    address: str | None
    as_json: bool
    events: bool
    live: bool


def run(  # noqa: PLR0913  (each parameter is an option of the command)
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            help=f"{AGENT_HELP} Left out: that of --session.",
            show_default=False,
            autocompletion=complete_agent_or_file,
        ),
    ] = None,
    input: Annotated[
        str | None,
        typer.Argument(metavar="INPUT", help="What to say to it; - reads standard input.", show_default=False),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="KEY|ID",
            help="Go on with this session; a key that is new makes one. Default: a new session, kept for a day.",
            autocompletion=complete_session,
            show_default=False,
        ),
    ] = None,
    model: Model = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Rounds at most. [10]", show_default=False)] = None,
    host: Host = None,
    address: Address = None,
    as_json: Json = False,
    events: Events = False,
) -> None:
    """Run an agent, and print what it answers.

    On a terminal the answer is shown while it is written, with the calls of functions and their results; on a
    pipe there is the final output alone. A turn that waits for an answer ends the command with 5, and what to do is
    said. Ctrl-C cancels the turn; a second one leaves at once.
    """
    if events and not as_json:
        fail(ExitCode.USAGE, "--events needs --json")
    word, text = (agent, input) if input is not None else (None, agent)  # one word is what is said
    if text is None or (word is None and session is None):
        fail(ExitCode.USAGE, f"INPUT is missing; write baton run {one_line(agent or 'AGENT')} INPUT")
    asked = Asked(
        agent=given_agent(word),
        text=_text(text),
        session=session,
        model=model or "",
        max_turns=max_turns,
        tools=functions_of(host or ()),
        address=address,
        as_json=as_json,
        events=events,
        live=out.is_terminal and not as_json,
    )
    with results_apart(asked.live) as results:
        code = calling(address, lambda client: _run(client, asked, results))
    raise typer.Exit(code)


def _text(given: str) -> str:
    """Read the input. Ends the command where there is none."""
    try:
        text = sys.stdin.read().removesuffix("\n") if given == "-" else given
    except UnicodeDecodeError as error:
        fail(ExitCode.USAGE, f"standard input is no UTF-8 text: {error.reason} at byte {error.start}")
    if not text.strip():
        fail(ExitCode.USAGE, "INPUT is empty")
    return text


async def _run(client: Client, asked: Asked, results: TextIO) -> ExitCode:
    with on_signal_in_loop(signal.SIGTERM, terminated):
        return await _turn(client, asked, results)


async def _turn(client: Client, asked: Asked, results: TextIO) -> ExitCode:
    screen = Screen(live=asked.live)
    ConnectionNotes(screen).watch(client)
    session, chosen = await _placed(client, asked)
    view = View(screen=screen)
    view.began = lambda session_id, _turn_id: _say_where(screen, session_id, asked)
    if asked.events:
        view.on_event = lambda event: print_json(event_pb2.StreamPart(event=event), results)
    async with hosted(asked.tools, session) as here:
        request = request_for(chosen.with_functions(asked.tools), session, asked.text)
        _configure(request, asked, here.scopes)
        if session is not None and session.status != session_pb2.SESSION_STATUS_IDLE:
            await _say_what_comes_first(client, asked, session, screen)
        with _stopped_by_ctrl_c(screen) as stop:
            response = await follow_run(client, request, view, stop, here)
            await _tell(client, asked, response, screen, results)
            if stop.is_set():
                _leave(screen)  # a function of this process may go on, and would hold up the end
        if response.required_actions:
            await explain_wait(client, response.required_actions, screen, asked.address)
    return code_of(response.turn)


async def _say_what_comes_first(client: Client, asked: Asked, session: session_pb2.Session, screen: Screen) -> None:
    """Warn that the turn is queued, maybe behind one that waits for somebody."""
    screen.note("another turn of the session comes first")
    served, unserved = {tool.name for tool in asked.tools}, event_pb2.REQUIRED_ACTION_STATE_UNSERVED
    waiting = [one for one in session.required_actions if one.state in FOR_PEOPLE]
    waiting = [one for one in waiting if one.state != unserved or one.name not in served]
    if waiting:
        await explain_wait(client, waiting, screen, asked.address)


async def _tell(
    client: Client, asked: Asked, response: runner_pb2.RunResponse, screen: Screen, results: TextIO
) -> None:
    """Print what the turn gave, and say on standard error what went wrong."""
    if asked.as_json:
        print_json(response, results)
    elif not screen.live:
        output = await output_of(client, response.session_id, response.turn)
        if output is not None:
            results.write(f"{output}\n")  # byte for byte: `echo` would take escape sequences out
            results.flush()
    explain_end(response.turn, screen)


async def _placed(client: Client, asked: Asked) -> tuple[session_pb2.Session | None, Chosen]:
    """Find the session and the agent; make a session for a key that is new, which remembers the agent."""
    if asked.session is None:
        return None, await choose_agent(client, asked.agent, None)
    try:
        session = await find_session(client, asked.session)
    except NotFoundError:
        if asked.session.startswith(SESSION_PREFIX):
            raise
        chosen = await choose_agent(client, asked.agent, None)
        if chosen.agent is None:
            raise WrongUsage(f"the session {asked.session!r} is new; say which agent is to answer in it") from None
        made = await client.create_session(key=asked.session, get_or_create=True, agent=chosen.source)
        return made, chosen
    chosen = await choose_agent(client, asked.agent, session)
    if chosen.agent is None:
        raise WrongUsage(f"the session {asked.session!r} has no agent of its own; say which one is to answer")
    return session, chosen


def _configure(request: runner_pb2.RunRequest, asked: Asked, scopes: Sequence[str]) -> None:
    if asked.model:
        request.run_config.model = asked.model
    if asked.max_turns is not None:
        request.run_config.max_turns = asked.max_turns
    request.run_config.scopes.extend(scopes)


def _say_where(screen: Screen, session_id: str, asked: Asked) -> None:
    """Say at once how a second terminal sees the turn."""
    watch = command("sessions", "tail", session_id, address=asked.address)
    key = asked.session if asked.session and asked.session != session_id else ""
    screen.note(f"session {one_line(key)}{' ' if key else ''}{session_id}; to watch it: {watch}")


@contextmanager
def _stopped_by_ctrl_c(screen: Screen) -> Iterator[asyncio.Event]:
    """Give an event that Ctrl-C sets; the second time it ends the process."""
    stop = asyncio.Event()

    def pressed() -> None:
        if stop.is_set():
            screen.note("left without waiting for the cancel")
            _leave(screen)
        stop.set()
        screen.note("cancelling the turn; Ctrl-C again leaves at once")

    with on_signal_in_loop(signal.SIGINT, pressed):
        yield stop


def _leave(screen: Screen) -> NoReturn:
    screen.rest()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitCode.INTERRUPTED)
