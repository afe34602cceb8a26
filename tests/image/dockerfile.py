"""Reads the Dockerfile and .dockerignore, as far as ours go; what goes further is refused, not passed over."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]

KEYWORDS = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "STOPSIGNAL",
    "USER", "VOLUME", "WORKDIR",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction, its lines joined and its comments gone."""

    line: int
    keyword: str
    value: str

    @property
    def words(self) -> list[str]:
        """The value as a shell takes it apart."""
        return shlex.split(self.value)

    @property
    def pairs(self) -> dict[str, str]:
        """The value of ENV, LABEL and ARG, `name=value …`."""
        return dict(word.split("=", 1) for word in self.words)

    @property
    def command(self) -> list[str]:
        """The value of CMD and ENTRYPOINT in their exec form. Raises AssertionError for the shell form."""
        return exec_form(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What stands from one FROM to the next. `name` empty: nobody refers to it."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def all(self, keyword: str) -> list[Instruction]:
        """List the instructions of a kind."""
        return [one for one in self.instructions if one.keyword == keyword]

    def one(self, keyword: str) -> Instruction:
        """Find the only instruction of a kind. Raises AssertionError."""
        (found,) = self.all(keyword)
        return found


def exec_form(value: str) -> list[str]:
    """Read a command in the exec form, a list in JSON. Raises AssertionError."""
    assert value.startswith("["), f"{value!r} would be run by a shell, which keeps signals to itself"
    words = json.loads(value)
    assert words, "an empty command"
    assert all(isinstance(word, str) for word in words)
    return list(words)


def instructions(text: str) -> Iterator[Instruction]:
    """Read a Dockerfile. Raises AssertionError for what this reader does not know."""
    parts: list[str] = []
    begin = 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            assert "escape=" not in bare, f"line {number}: the directive `escape` is not known here"
            continue
        begin = begin if parts else number
        parts.append(bare.removesuffix("\\").strip())
        if bare.endswith("\\"):
            continue
        keyword, _, value = " ".join(parts).partition(" ")
        assert keyword in KEYWORDS, f"line {begin}: {keyword} is not known here"
        assert "<<" not in value, f"line {begin}: here-documents are not known here"
        yield Instruction(line=begin, keyword=keyword, value=value.strip())
        parts = []
    assert not parts, "the last instruction has no end"


def stages(text: str) -> list[Stage]:
    """Part a Dockerfile into its stages."""
    found: list[tuple[str, str, list[Instruction]]] = []
    for one in instructions(text):
        if one.keyword == "FROM":
            base, _, name = one.value.partition(" AS ")
            found.append((base, name, []))
        else:
            assert found, f"line {one.line}: {one.keyword} stands before the first FROM"
            found[-1][2].append(one)
    return [Stage(base=base, name=name, instructions=tuple(body)) for base, name, body in found]


def health_check(instruction: Instruction) -> tuple[dict[str, str], list[str]]:
    """Part a HEALTHCHECK into its options, without dashes, and its command in the exec form."""
    options, found, command = instruction.value.partition("CMD ")
    assert found, f"line {instruction.line}: there is no CMD"
    return dict(option.removeprefix("--").split("=", 1) for option in options.split()), exec_form(command)


def files(root: Path) -> list[str]:
    """List the files below a folder, relative to it; others may come and go meanwhile."""
    return [os.path.relpath(Path(folder, name), root) for folder, _, names in os.walk(root) for name in names]


def sent(root: Path, listed: Sequence[str], ignore: str) -> list[str]:
    """Choose, of the files below `root`, those that the build gets: what .dockerignore leaves."""
    rules = [
        (_pattern(line.removeprefix("!")), line.startswith("!"))
        for line in ignore.splitlines()
        if line and not line.startswith("#")
    ]
    return [path for path in listed if (root / path).is_file() and _is_sent(path, rules)]


def _is_sent(path: str, rules: Sequence[tuple[re.Pattern[str], bool]]) -> bool:
    """The last rule that fits the path, or a folder that it is in, decides."""
    places = [str(place) for place in (PurePosixPath(path), *PurePosixPath(path).parents)]
    decided = [back for pattern, back in rules if any(pattern.fullmatch(place) for place in places)]
    return decided[-1] if decided else True


def _pattern(rule: str) -> re.Pattern[str]:
    assert not set(rule) & set("?[]\\"), f"{rule!r}: only * and ** are known here"
    made = re.escape(rule).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    return re.compile(made)
