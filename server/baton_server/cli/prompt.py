"""Asks a person for lines: with editing and history on a terminal, line by line from a pipe or a file.

Theory of operation: `input()` with readline cannot be interrupted without losing what was typed. So on a terminal
the prompt is shown and the first key waited for, without readline; as long as nothing is typed, `wake` ends the
waiting. With the first key, which stays unread, readline takes over and shows the same prompt in the same place.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

try:
    import readline
    import termios
except ImportError:  # no Unix: lines can be read all the same
    readline = None  # type: ignore[assignment]
    termios = None  # type: ignore[assignment]

_ERASE_LINE = "\r\x1b[K"


class Woken(Exception):
    """Something happened while nothing was typed; the prompt is gone, and may be shown again."""


class Prompt:
    """Where lines come from. `interactive`: a person sits at a terminal. Belongs to the main thread, but `wake`."""

    def __init__(self, commands: Sequence[str] = ()) -> None:
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty() and readline is not None
        self._commands = tuple(commands)
        self._woken, self._waking = os.pipe()
        if self.interactive:
            readline.set_completer(self._complete)
            readline.set_completer_delims("")
            readline.parse_and_bind("tab: complete")

    def remember(self, line: str) -> None:
        """Put a line into the history, as if it had been typed."""
        if self.interactive and line:
            readline.add_history(line)

    def ask(self, prompt: str) -> str:
        """Read a line. Raises Woken, KeyboardInterrupt for Ctrl-C, EOFError at the end."""
        if not self.interactive:
            if sys.stdin.isatty():  # somebody types, and the answers go elsewhere
                sys.stderr.write(prompt)
                sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                raise EOFError
            return line.removesuffix("\n")
        self._wait_for_key(prompt)
        sys.stdout.write("\r")  # readline believes that it begins at the edge
        sys.stdout.flush()
        return input(prompt)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep what is typed meanwhile for the next line, and off the screen. Ctrl-C stays what it is."""
        if not self.interactive:
            yield
            return
        with _single_keys(sys.stdin.fileno()):
            yield

    def wake(self) -> None:
        """End the waiting for a first key, now or when it begins. From any thread."""
        os.write(self._waking, b"w")

    def forget_wakes(self) -> None:
        """Let no `wake` from before count."""
        while select.select([self._woken], [], [], 0)[0]:
            os.read(self._woken, 1024)

    def close(self) -> None:
        """Give the pipe back. Nobody may wake it any more."""
        os.close(self._woken)
        os.close(self._waking)

    # -- inside ----------------------------------------------------------------------------------

    def _wait_for_key(self, prompt: str) -> None:
        stdin = sys.stdin.fileno()
        with _single_keys(stdin):  # before the prompt is seen: who types at once would see it twice
            sys.stdout.write(prompt)
            sys.stdout.flush()
            ready, _, _ = select.select([stdin, self._woken], [], [])
        if stdin not in ready:
            self.forget_wakes()
            sys.stdout.write(_ERASE_LINE)
            sys.stdout.flush()
            raise Woken

    def _complete(self, text: str, state: int) -> str | None:
        found = [command for command in self._commands if text and command.startswith(text)]
        return found[state] if state < len(found) else None


@contextmanager
def _single_keys(terminal: int) -> Iterator[None]:
    """Have the terminal tell of each key at once, and show none of them.

    Else the end that Ctrl-D means would be lost: a terminal that collects lines notes it outside of the text.
    """
    kept = termios.tcgetattr(terminal)
    changed = list(kept)
    changed[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, kept)
