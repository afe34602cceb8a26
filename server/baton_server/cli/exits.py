"""Exit codes of the commands; scripts branch on them."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended. What a shell calls success is DONE alone."""

    DONE = 0
    """What was asked for was done."""
    FAILED = 1
    """It was tried and failed: a turn, a request that the server refused, a server that could not start."""
    USAGE = 2
    """It was not tried: a wrong option, setting or file."""
    UNREACHABLE = 3
    """No server answers at the address."""
    NOT_FOUND = 4
    """What was named is not there."""
    WAITS = 5
    """The turn rests until somebody answers what is open."""
    INTERRUPTED = 130
    """Ctrl-C, as shells count it."""


CODES_HELP = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server answers, 4 not found, "
    "5 the turn waits for an answer, 130 interrupted."
)
"""The same in a line, for --help."""
