"""Asks before something is removed for good."""

from __future__ import annotations

import sys

from baton_server.cli.exits import ExitCode
from baton_server.cli.terminal import err, fail


def must_say_yes(yes: bool, what: str) -> None:
    """End the command where nobody can be asked, and `--yes` does not say it either. `what`: `delete the session`."""
    if not yes and not sys.stdin.isatty():
        fail(ExitCode.USAGE, f"nobody can be asked whether to {what}: there is no terminal; say --yes")


def confirm(yes: bool, question: str, kept: str) -> None:
    """Ask at the terminal; end the command with `kept`, and FAILED, where the answer is no."""
    if yes:
        return
    try:
        # Not through Rich, which would write a question again that Ctrl-C has cut in the middle.
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        err.print()
        fail(ExitCode.INTERRUPTED, kept)
    if answer.strip().lower() not in ("y", "yes"):
        fail(ExitCode.FAILED, kept)
