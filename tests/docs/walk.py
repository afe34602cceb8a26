"""Walks a page: does all that its blocks say, in their order, in one folder and against a server of its own port.

What the words behind a block's language mean:

    ```python file=weather.py     written to that file; so is every language with `file=`
    ```sh                         run, a command a line; each must end, with 0, or as `# exits with 5` says
    ```sh terminal=2              one command, which stays running in that terminal until it ends, or the page does
    ```sh in=checkout             tried as `known` knows how, since it belongs to the repository's own folder
    ```text                       what the commands of the block before it printed
    ```text terminal=2            what that terminal prints next

In a text, `…` stands for anything in its line, and alone in a line for any lines. A line `^C`, `^D` or `^\\` is a key
that is pressed there. With `prompt=you>` what follows that prompt in a line is typed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.known import try_command
from tests.docs.markdown import Block
from tests.docs.programs import BIN, environment
from tests.docs.terminal import DEADLINE_S, KEYS, SIZE, Terminal
from tests.support.server import free_port

PRINTED_ADDRESS = "127.0.0.1:50051"
"""Where the pages' server is; the walk's is elsewhere."""

FOREGROUND = ""
"""The terminal of blocks that name none."""

OPTIONS = {"sh": {"terminal", "in"}, "text": {"terminal", "prompt"}}
"""Words behind each language that is done without `file=`."""

_EXITS = re.compile(r"\s+# exits with (\d+)\b.*$")
_SHELL_STATE = re.compile(r"(cd|export|source|\.)\s|\w+=\S*$")


class PageWrong(AssertionError):
    """The page says what is not so; the message begins with the place."""

    def __init__(self, block: Block, problem: str) -> None:
        super().__init__(f"{block.place}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command as it is printed, and the exit code that the page gives it."""

    text: str
    code: int


def check(page: list[Block]) -> None:
    """Raise PageWrong for what no walk would do."""
    for block in page:
        known = OPTIONS.get(block.language)
        if "file" in block.options:
            _check_file(block, page)
        elif known is None or not set(block.options) <= known:
            words = " ".join([block.language or "a picture", *block.options])
            raise PageWrong(block, f"nothing knows how to do {words!r}")
        elif block.language == "sh":
            _check_commands(block)


def commands_of(block: Block) -> list[Command]:
    """List the commands of a `sh` block; one may take several lines."""
    found: list[Command] = []
    lines: list[str] = []
    for line in block.text.splitlines():
        if not lines and (not line.strip() or line.startswith("#")):
            continue
        lines.append(line)
        if line.endswith("\\") or _is_open("\n".join(lines)):
            continue
        text = "\n".join(lines)
        exits = _EXITS.search(text)
        found.append(Command(text=_EXITS.sub("", text), code=int(exits[1]) if exits else 0))
        lines = []
    if lines:
        raise PageWrong(block, f"the command {lines[0]!r} has no end")
    return found


def pattern_of(text: str, address: str) -> re.Pattern[str]:
    """Make a pattern of a text with `…` in it."""
    lines = text.replace(PRINTED_ADDRESS, address).split("\n")
    made = [
        r"(?:[^\n]*\n)*?" if line.strip() == "…" else r"[^\n]*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in lines[:-1]
    ]
    return re.compile("".join(made) + r"[^\n]*".join(map(re.escape, lines[-1].split("…"))))


class Walk:
    """One reader with a folder, a server's address and some terminals."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._address = f"127.0.0.1:{free_port()}"
        self._terminals: dict[str, tuple[Terminal, Command]] = {}
        self._printed: list[Terminal] = []

    async def go(self, page: list[Block]) -> None:
        """Do all of it. Raises PageWrong at the first thing that is not as the page says."""
        check(page)
        try:
            for block in page:
                await self._do(block)
            for terminal, command in self._terminals.values():
                if terminal.code is not None:
                    _check_code(page[-1], terminal, command)
        finally:
            for terminal, _command in self._terminals.values():
                await terminal.close()

    async def _do(self, block: Block) -> None:
        name = block.options.get("terminal", FOREGROUND)
        if "file" in block.options:
            (self._folder / block.options["file"]).write_text(block.text)
        elif block.language == "text":
            await self._read(block, name)
        elif block.options.get("in") == "checkout":
            for command in commands_of(block):
                await try_command(command.text, self._folder)
        else:
            await self._run(block, name)

    async def _run(self, block: Block, name: str) -> None:
        self._printed = []
        for command in commands_of(block):
            await self._end(block, name)
            terminal = Terminal(command.text)
            self._terminals[name] = terminal, command
            await terminal.start(self._folder, self._environment())
            if name == FOREGROUND:
                await self._end(block, name)
                self._printed.append(terminal)

    async def _end(self, block: Block, name: str) -> None:
        """Wait until the command of a terminal has ended, if there is one."""
        if name not in self._terminals:
            return
        terminal, command = self._terminals.pop(name)
        in_time = await terminal.ended()
        await terminal.close()
        if not in_time:
            raise PageWrong(block, f"{command.text!r} did not end within {DEADLINE_S} s; it printed\n{terminal.screen}")
        _check_code(block, terminal, command)

    async def _read(self, block: Block, name: str) -> None:
        """Compare what was printed with a text, and press the keys in it."""
        if name == FOREGROUND:
            shown = "".join(terminal.screen for terminal in self._printed)
            if not pattern_of(block.text, self._address).fullmatch(shown):
                raise PageWrong(block, f"the page shows\n{block.text}\nand what was printed is\n{shown}")
            return
        if name not in self._terminals:
            raise PageWrong(block, f"nothing runs in terminal {name}")
        terminal, _command = self._terminals[name]
        for shown, typed in _parts(block.text, block.options.get("prompt")):
            if not await terminal.expect(pattern_of(shown, self._address)):
                raise PageWrong(block, f"the page shows\n{shown}\nand what was printed is\n{terminal.screen}")
            if not typed:
                continue
            if not terminal.was_read:
                raise PageWrong(block, "something must be printed before a key is pressed, or nobody may be there yet")
            terminal.press(typed)

    def _environment(self) -> dict[str, str]:
        given = environment(BATON_ADDRESS=self._address, HOME=str(self._folder), TERM="dumb", NO_COLOR="1")
        given["PATH"] = f"{BIN}:{given['PATH']}"
        return {**given, "LINES": str(SIZE[0]), "COLUMNS": str(SIZE[1]), "PYTHONDONTWRITEBYTECODE": "1"}


def _check_file(block: Block, page: list[Block]) -> None:
    name = block.options["file"]
    if Path(name).name != name or not name:
        raise PageWrong(block, f"{name!r} is no file of the walk's own folder")
    stem = re.escape(Path(name).stem)
    uses = {"sh": rf"(?<![\w./-])(?:{re.escape(name)}|{stem})(?![\w./-])", "python": rf"\b(?:import|from) {stem}\b"}
    if not any(re.search(uses[other.language], other.text) for other in page if other.language in uses):
        raise PageWrong(block, f"no command and no program uses {name}")


def _check_commands(block: Block) -> None:
    commands = commands_of(block)
    if not commands or ("terminal" in block.options and len(commands) != 1):
        raise PageWrong(block, f"{len(commands)} commands where there must be one")
    for command in commands:
        if _SHELL_STATE.match(command.text) and "in" not in block.options:
            raise PageWrong(block, f"{command.text!r} is forgotten by the next command, whose shell is another")


def _check_code(block: Block, terminal: Terminal, command: Command) -> None:
    if not terminal.may_exit(command.code):
        problem = f"{command.text!r} exited with {terminal.code}, not {command.code}"
        raise PageWrong(block, f"{problem}; it printed\n{terminal.screen}")


def _is_open(text: str) -> bool:
    """Tell whether a command goes on in the next line, since a quotation does."""
    try:
        shlex.split(text)
    except ValueError:
        return True
    return False


def _parts(text: str, prompt: str | None) -> Iterator[tuple[str, str]]:
    """Part a text where something is typed: what is shown until then, and what is typed then."""
    shown = ""
    for line in text.splitlines(keepends=True):
        key = KEYS.get(line.rstrip("\n"))
        if key is not None:
            yield shown, key
            shown = ""
        elif prompt and line.startswith(prompt):
            typed = line.removeprefix(prompt).lstrip(" ")
            yield shown + line.removesuffix(typed), typed
            shown = typed
        else:
            shown += line
    if shown:
        yield shown, ""
