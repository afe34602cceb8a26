"""Arguments that several commands take, each said once, with what completes them in a shell."""

from __future__ import annotations

from typing import Annotated

import typer

from baton_server.cli.given.completing import complete_agent, complete_call, complete_open_call, complete_session

SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session, by its id (sess_…) or its key.",
        show_default=False,
        autocompletion=complete_session,
    ),
]
"""For `naming.find_session`."""

AgentName = Annotated[
    str,
    typer.Argument(
        metavar="AGENT",
        help="A kept agent, by its id (agent_…), or by its name if only one has it.",
        show_default=False,
        autocompletion=complete_agent,
    ),
]
"""For `naming.find_agent`."""

CallId = Annotated[
    str,
    typer.Argument(
        metavar="CALL",
        help="A call of any session, by its id (call_…).",
        show_default=False,
        autocompletion=complete_open_call,
    ),
]
"""A call, open or settled."""

CallName = Annotated[
    str,
    typer.Argument(
        metavar="CALL",
        help="An open call of the session, by its id (call_…), or by its function's name if only one has it.",
        show_default=False,
        autocompletion=complete_call,
    ),
]
"""An open call of the session that stands before it."""
