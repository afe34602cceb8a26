"""Options that several commands take, each said once."""

from __future__ import annotations

from typing import Annotated

import typer

Address = Annotated[
    str | None,
    typer.Option("--address", envvar="BATON_ADDRESS", help="The server. [127.0.0.1:50051]", show_default=False),
]
"""Where the server is. None: the default one."""

Json = Annotated[
    bool, typer.Option("--json", help="Print JSON as the contract writes it, one message per line; no colours.")
]
"""For scripts: messages of `baton.v1` instead of words for people."""
