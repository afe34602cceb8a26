"""Writes what is shown of a turn: text as it comes, lines of their own, and a spinner while nothing comes.

The transcript goes to standard output if a person looks at it, and nowhere else: a pipe gets results alone. Notes
and the spinner go to standard error. All of it is written from one thread at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping

import typer
from rich.live import Live
from rich.text import Text as Styled

from baton_server.cli.show.texts import safe
from baton_server.cli.talk.transcript import Doing, End, Line, Shown, Style, Text
from baton_server.cli.terminal import err, out

STYLES: Mapping[Style, str] = {
    "text": "",
    "call": "cyan",
    "result": "green",
    "failure": "red",
    "note": "dim",
    "user": "bold",
}

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""Of the spinner: one turn a second. Our own, since Rich's would be loaded by every command."""

SPIN_AFTER_S = 0.2
"""How long nothing happens before the spinner says what goes on: less is no wait, and would only flicker."""


class Screen:
    """What a person looks at while a turn goes on. `live`: the transcript is written; else only notes are."""

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self._doing = ""
        self._spinner: Live | None = None
        self._delay: asyncio.TimerHandle | None = None
        self._mid_line = False

    def show(self, shown: Iterable[Shown]) -> None:
        """Show what a transcript gave."""
        for one in shown:
            if isinstance(one, Doing):
                self._doing = one.text
            elif self.live:
                self._write(one)
        self._spin()

    def note(self, text: str) -> None:
        """Say how things stand, in a line on standard error: `baton: …`."""
        self.say(f"baton: {safe(text)}")

    def say(self, *lines: str) -> None:
        """Write lines on standard error that are safe already."""
        self._stop()
        self._end_line()
        for line in lines:
            typer.echo(line, err=True)
        self._spin()

    def line(self, text: str, style: Style = "note") -> None:
        """Write a line of the transcript that is safe already."""
        self.show([Line(text, style)])

    def rest(self) -> None:
        """Stop the spinner and end the line: somebody else writes now."""
        self._doing = ""
        self._stop()
        self._end_line()

    # -- inside ----------------------------------------------------------------------------------

    def _write(self, shown: Text | End | Line) -> None:
        self._stop()
        match shown:
            case Text(text=text) if text:
                out.file.write(text)
                out.file.flush()
                self._mid_line = not text.endswith("\n")
            case Line(text=text, style=style):
                self._end_line()
                out.print(Styled(text, style=STYLES[style]))
            case _:
                self._end_line()

    def _end_line(self) -> None:
        if self._mid_line:
            self._mid_line = False
            out.file.write("\n")
            out.file.flush()

    def _spin(self) -> None:
        """Let the spinner say what goes on, where it does not stand in the way of a text that grows."""
        if not self._doing or self._mid_line or not err.is_terminal:
            self._stop()
        elif self._spinner is None and self._delay is None:
            self._delay = asyncio.get_running_loop().call_later(SPIN_AFTER_S, self._begin)

    def _begin(self) -> None:
        self._delay = None
        # What a function of this process prints meanwhile goes above it, but never from a pipe to the terminal.
        self._spinner = Live(
            get_renderable=self._picture,
            console=err,
            transient=True,
            redirect_stdout=self.live,
            refresh_per_second=len(FRAMES),
        )
        self._spinner.start()

    def _picture(self) -> Styled:
        frame = FRAMES[int(time.monotonic() * len(FRAMES)) % len(FRAMES)]
        return Styled(f"{frame} {self._doing}", style="dim")

    def _stop(self) -> None:
        if self._delay is not None:
            self._delay.cancel()
            self._delay = None
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None
