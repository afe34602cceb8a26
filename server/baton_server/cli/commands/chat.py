"""`baton chat`: a conversation at the terminal, or line by line from a pipe."""

from __future__ import annotations

from typing import Annotated

import typer

from baton.server.loop_thread import LoopThread
from baton_server.cli.calling import explained, use_server
from baton_server.cli.given.completing import complete_agent_or_file, complete_session
from baton_server.cli.options import Address, Host, Model
from baton_server.cli.talk.choosing import AGENT_HELP, given_agent
from baton_server.cli.talk.conversation import Wanted
from baton_server.cli.talk.hosting import functions_of, results_apart
from baton_server.cli.talk.loop import Talk
from baton_server.cli.talk.screen import Screen
from baton_server.cli.terminal import out

EXAMPLES = """Examples:

baton chat

baton chat agent.yaml --host weather.py --session trip

printf 'Hello\\nAnd bye\\n' | baton chat --session trip
"""


def chat(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            help=f"{AGENT_HELP} Left out: the session's, or a plain assistant.",
            show_default=False,
            autocompletion=complete_agent_or_file,
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="KEY|ID",
            help="Go on with this session; a key that is new makes one. Default: a new session.",
            autocompletion=complete_session,
            show_default=False,
        ),
    ] = None,
    model: Model = None,
    host: Host = None,
    address: Address = None,
) -> None:
    """Talk with an agent, message by message.

    Answers are shown while they are written, with the calls of functions and their results. A call that nobody
    serves can be answered at the prompt. Ctrl-C cancels the turn that runs; Ctrl-D ends.

    Lines may also come from a pipe or a file, whose end is the end; then the exit code is that of the last turn.
    """
    wanted = Wanted(agent=given_agent(agent), session=session, model=model or "", tools=functions_of(host or ()))
    use_server(address)
    loop, live = LoopThread(), out.is_terminal
    with explained(), results_apart(live) as results:
        try:
            code = Talk(wanted, loop, Screen(live=live), results, address).run()
        finally:
            loop.close()
    raise typer.Exit(code)
