"""What processes write down about bodies that they run, and the claims by which a body runs at most once per attempt.

A line is one `write`, so that a process that is killed leaves whole lines. A claim is a symbolic link, which is made
with its owner's name in it, or not at all: whoever wants to know whether an attempt has begun takes the claim for
himself, and if he gets it, it has not, and never will.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Fact(StrEnum):
    """What a line says.

    BEGUN, ENDED: before and after a body. FENCED: a body that did not begin, since somebody had found out that it had
    not. SENT_AGAIN, SENT_LATE: a result that was owed no more. ACKED: what the server said about one. LEFT: calls and
    results that a worker still had at its end. DECIDED: what the outside party did about a call of unknown effect.
    """

    BEGUN = "begun"
    ENDED = "ended"
    FENCED = "fenced"
    SENT_AGAIN = "sent_again"
    SENT_LATE = "sent_late"
    ACKED = "acked"
    LEFT = "left"
    DECIDED = "decided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line. `name`: of the function. `outcome`: how a body ended, what an ack said, what was decided.

    `text`: the output that it is about. `count`: of LEFT. `process`: who wrote it; empty: not read from a file.
    """

    fact: Fact
    call_id: str = ""
    attempt: int = 0
    name: str = ""
    key: str = ""
    outcome: str = ""
    text: str = ""
    count: int = 0
    at: float = 0.0
    process: str = ""


class Journal:
    """The file of one process."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, fact: Fact, **facts: str | int) -> None:
        """Write a line; it outlives the process. From any thread."""
        line = json.dumps({"fact": fact, "at": round(time.time(), 4), **facts}, separators=(",", ":"))
        os.write(self._descriptor, f"{line}\n".encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journals(folder: Path) -> list[Entry]:
    """Read all files of a folder, in the order of their lines' times."""
    entries = [entry for file in sorted(folder.glob("*.log")) for entry in read_lines(file.stem, file.read_text())]
    return sorted(entries, key=lambda entry: entry.at)


def read_lines(process: str, text: str) -> Iterator[Entry]:
    """Read the lines of one process. A last one that is not whole was never written. Raises ValueError for others."""
    for line in text.split("\n")[:-1]:
        facts = json.loads(line)
        yield Entry(process=process, **{**facts, "fact": Fact(facts["fact"])})


PARTY = "party"
"""Owner of a claim that says: this attempt is not to begin."""


class Claims:
    """Who has which attempt, over all processes of a harness."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, call_id: str, attempt: int, owner: str) -> str:
        """Claim an attempt; returns whose it is then, or was before."""
        link = self._folder / f"{call_id}.{attempt}"
        try:
            link.symlink_to(owner)
        except FileExistsError:
            return str(link.readlink())
        return owner
