"""The command line, `baton`."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

OUTPUT_ERRORS = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""What writing may meet that is no fault of a command."""


def main() -> None:
    """Run the command line. Without the server's extra it says how to install it, and exits with 2."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # our own errors say it better, and once
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show is escaped, no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        run = _loaded(sys.argv[1:])
    except ModuleNotFoundError as error:
        needs = "The server and this command need: pip install 'baton-runtime[server]'"
        print(f"baton: {error.name} is missing. {needs}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # while it is loaded, which takes a moment
        sys.exit(130)
    try:
        run()
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        _cannot_write(error)
    except SystemExit as ended:  # typer and rich end so over a reader that has gone, whose writing they have stopped
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        sys.exit(0)


def _cannot_write(error: OSError) -> NoReturn:
    """End over an output that takes nothing: a full disk, or a reader that has gone, who had what he wanted."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python fails once more at its end
    if isinstance(error, BrokenPipeError):
        sys.exit(0)
    print(f"baton: the output cannot be written: {error.strerror or error}", file=sys.stderr)
    sys.exit(1)


def _loaded(arguments: Sequence[str]) -> Callable[[], None]:
    """Load the commands: health alone, which is asked every few seconds and is no other's business, else all."""
    if arguments[:1] == ["health"]:
        from baton_server.cli.commands.health import main as health

        return partial(health, arguments[1:])
    from baton_server.cli.app import app

    return app


__all__ = ["main"]
