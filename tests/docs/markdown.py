"""Reads Markdown as far as the tests need it: fenced blocks, commands in running text, links, headings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_ODD_FENCE = re.compile(r"^(?:[ \t>]+(?:```|~~~)|~~~|````|(?: {4}|\t)\S|.*<(?:pre|code)\b).*$", re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)

COMMANDS = ("make", "baton", "docker", "python", "pip", "pytest", "grpcurl", "buf", "go", "npm", ".venv/bin/", ".ci/")
"""What a command in running text begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block. `language` empty: a picture, not to be run.

    `options`: the words behind the language, which a reader of the page does not see; `name=value`, or a name alone,
    whose value is empty. `before`: the running text between the block before this one and this one.
    """

    document: str
    line: int
    language: str
    text: str
    options: Mapping[str, str]
    before: str

    @property
    def place(self) -> str:
        """Say where it is, for people."""
        return f"{self.document}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A command as it is printed."""

    place: str
    command: str


def read(document: str) -> str:
    """Read a document by its path in the repository."""
    return (ROOT / document).read_text()


def blocks(document: str) -> list[Block]:
    """List a document's fenced blocks."""
    text = read(document)
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        language, *options = match["info"].split() or [""]
        found.append(
            Block(
                document=document,
                line=text.count("\n", 0, match.start()) + 1,
                language=language,
                text=match["text"],
                options={name: value for name, _, value in (option.partition("=") for option in options)},
                before=text[end : match.start()],
            )
        )
        end = match.end()
    return found


def odd_blocks(document: str) -> list[str]:
    """List the places of code that `blocks` does not see: indented, in a quotation, fenced in another way."""
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), read(document))
    return [f"{document}:{text.count(chr(10), 0, match.start()) + 1}" for match in _ODD_FENCE.finditer(text)]


def commands(document: str) -> list[Printed]:
    """List all commands of a document: lines of its `sh` blocks, and code in running text that is one."""
    found = [
        Printed(place=block.place, command=command)
        for block in blocks(document)
        if block.language == "sh"
        for line in block.text.splitlines()
        if (command := re.sub(r"(^|\s)#.*$", "", line).strip())
    ]
    return found + commands_in_text(document)


def commands_in_text(document: str) -> list[Printed]:
    """List the code in running text that is a command."""
    return [
        Printed(place=f"{document}:{number}", command=span)
        for number, line in _running_text(document)
        for span in _SPAN.findall(line)
        if _is_command(span)
    ]


def expressions(document: str) -> list[Printed]:
    """List the code in running text that calls a class, such as `Agent(name="…")`."""
    return [
        Printed(place=f"{document}:{number}", command=span)
        for number, line in _running_text(document)
        for span in _SPAN.findall(line)
        if re.fullmatch(r"[A-Z]\w+\(.+\)", span)
    ]


def links(document: str) -> list[str]:
    """List the targets of a document's links that stay in the repository."""
    text = "\n".join(line for _number, line in _running_text(document))
    return [target for target in _LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]


def anchors(document: str) -> set[str]:
    """List the anchors that the headings of a document make, as GitHub does."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", read(document))):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        made = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (anchor := f"{made}-{number}" if number else made) in found:
            number += 1
        found.add(anchor)
    return found


def _running_text(document: str) -> list[tuple[int, str]]:
    """Number the lines of a document; those of its fenced blocks are empty."""
    text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), read(document))
    return list(enumerate(text.splitlines(), 1))


def _is_command(span: str) -> bool:
    first, *rest = span.split()
    if first.startswith((".venv/bin/", ".ci/")):
        return first != ".venv/bin/"
    return first in COMMANDS and bool(rest)
