"""Asks a person for lines: with editing and history on a terminal, line by line from a pipe or a file.

Theory of operation: `input()` with readline cannot be interrupted without losing what was typed. So on a terminal
the prompt is shown and the first key waited for, without readline; as long as nothing is typed, a `Waking` ends the
waiting. With the first key, which stays unread, readline takes over and shows the same prompt in the same place.

All the while the terminal gives each key at once. Were it to collect lines in between, Ctrl-D would be lost if it
came just then: such a terminal notes the end that it means outside of the text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from baton_server.cli.talk.interrupts import Waking

try:
    import readline
    import termios
except ImportError:  # no Unix: lines can be read all the same
    readline = None  # type: ignore[assignment]
    termios = None  # type: ignore[assignment]

_ERASE_LINE = "\r\x1b[K"

_PASTES, _PASTES_NO_MORE = "\x1b[?2004h", "\x1b[?2004l"
"""Ask a terminal to mark what is pasted, so that its line ends send nothing; readline does so itself, but later."""

_PASTES_SINCE = 0x0700
"""The version of readline that knows such marks."""


class Woken(Exception):
    """Something happened while nothing was typed; the prompt is gone, and may be shown again."""


class Prompt:
    """Where lines come from, for the main thread. `interactive`: a person sits at a terminal.

    `live`: standard output is a terminal. `waking`: takes a prompt away at which nothing is typed yet. `commands`
    are completed.
    """

    def __init__(self, waking: Waking, *, live: bool, commands: Sequence[str] = ()) -> None:
        self.interactive = live and sys.stdin.isatty() and readline is not None
        self._commands = tuple(commands)
        self._waking = waking
        if self.interactive:
            readline.set_completer(self._complete)
            readline.set_completer_delims("")
            readline.parse_and_bind("tab: complete")
        self._pastes = self.interactive and _knows_pastes()
        if self._pastes:
            readline.parse_and_bind("set enable-bracketed-paste on")

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
        with _changed_flags(on=termios.ECHO):  # else readline takes it for a password
            _write("\r")  # readline believes that it begins at the edge
            return input(prompt)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the terminal: what is typed while nobody asks is kept for the next line, and stays off the screen.

        Ctrl-C stays what it is. In the block, and there alone, lines can be asked for.
        """
        if not self.interactive:
            yield
            return
        with _changed_flags(off=termios.ICANON | termios.ECHO):
            yield

    # -- inside ----------------------------------------------------------------------------------

    def _wait_for_key(self, prompt: str) -> None:
        stdin, typed = sys.stdin.fileno(), False
        _write(f"{_PASTES if self._pastes else ''}{prompt}")
        try:
            typed = self._waking.wait(stdin)
        finally:
            if self._pastes and not typed:
                _write(_PASTES_NO_MORE)
        if not typed:
            _write(_ERASE_LINE)
            raise Woken

    def _complete(self, text: str, state: int) -> str | None:
        found = [command for command in self._commands if text and command.startswith(text)]
        return found[state] if state < len(found) else None


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _knows_pastes() -> bool:
    """Tell whether readline takes marked pastes: only its version says so, which the module does not publish."""
    version = getattr(readline, "_READLINE_RUNTIME_VERSION", 0)
    return "libedit" not in (readline.__doc__ or "") and version >= _PASTES_SINCE


@contextmanager
def _changed_flags(on: int = 0, off: int = 0) -> Iterator[None]:
    """Change local flags of the terminal for a while."""
    terminal = sys.stdin.fileno()
    kept = termios.tcgetattr(terminal)
    changed = list(kept)
    changed[3] = (kept[3] | on) & ~off
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, kept)
