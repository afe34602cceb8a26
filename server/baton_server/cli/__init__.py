"""The command line: `baton serve`, `baton demo`, `baton version`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line. Without the server's extra it says how to install it, and exits with 2."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # our own errors say it better, and once
    try:
        from baton_server.cli.app import app
    except ModuleNotFoundError as error:
        sys.exit(
            f"baton: {error.name} is missing. The server and this command need: pip install 'baton-runtime[server]'"
        )
    app()


__all__ = ["main"]
