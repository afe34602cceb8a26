"""docs/operating.md says of settings, bounds, exit codes and the unit what is so."""

from __future__ import annotations

import re

import pytest
from tests.docs.markdown import blocks, read
from tests.docs.settings_table import HEAD, all_variables, rows

from baton_server.api.worker_stream import MAX_UNWRITTEN
from baton_server.app.calls.registry import MAX_DECLARED_BYTES, MAX_HANDLERS
from baton_server.app.runtime import PINNED_BYTES
from baton_server.app.turns.steering import MAX_WAITING as STEERED
from baton_server.bus.local import MAX_BYTES, MAX_PARTS
from baton_server.cli.exits import ExitCode
from baton_server.config import Settings
from baton_server.core.errors import Reason
from baton_server.main import LAST_WORDS_S
from baton_server.model.openai import MAX_REPLY_BYTES
from baton_server.store.sqlite.connect import WAL_LIMIT_BYTES
from baton_server.store.sqlite.writer import MAX_WAITING as WRITES
from baton_server.wire.chunks import UNFINISHED_BYTES, UNFINISHED_FRAMES
from baton_server.wire.frames import RECEIVED_BYTES, RESULT_BYTES

PAGE = "docs/operating.md"
MIB = 1024 * 1024

BOUNDS = {
    "one message to the server": f"{RECEIVED_BYTES // MIB} MiB",
    "a function's result": f"{RESULT_BYTES:,} bytes",
    "one reply of the model": f"{MAX_REPLY_BYTES // MIB} MiB",
    "messages that wait to join one turn": f"{STEERED} batches",
    "what one slow watcher has not taken": f"{MAX_PARTS} parts or {MAX_BYTES // MIB} MiB",
    "frames that a worker leaves untaken": f"{MAX_UNWRITTEN:,}",
    "a worker's handlers": f"{MAX_HANDLERS}, in {MAX_DECLARED_BYTES // MIB} MiB",
    "unfinished chunks of one worker": f"{UNFINISHED_FRAMES} frames, {UNFINISHED_BYTES // MIB} MiB",
    "agents and configurations kept decoded": f"{PINNED_BYTES // MIB} MiB",
    "writes that wait for the disk": f"{WRITES:,}",
    "`baton.db-wal` after a burst": f"{WAL_LIMIT_BYTES // MIB} MiB",
}
"""The page's table of bounds, from the code."""


def test_the_table_of_settings_is_complete_and_right() -> None:
    """Every setting by its name, variables, default and meaning; the rows can be pasted from here."""
    assert _table(HEAD[0]) == rows(), "\n".join(["write:", *HEAD, *rows()])


def test_the_table_of_bounds_has_the_numbers_of_the_code() -> None:
    """None is missing, and none has changed without the page."""
    found = [[cell.strip() for cell in row.strip("|").split("|")] for row in _table("| what | bound | beyond it |")]

    assert {what: bound for what, bound, _ in found} == BOUNDS


def test_exit_codes_are_those_of_the_command_line() -> None:
    """A supervisor's configuration is written from this table."""
    told = [int(row.split("|")[1]) for row in _table("| exit code of `baton serve` | meaning |")]

    assert told == [ExitCode.DONE, ExitCode.FAILED, ExitCode.USAGE]


def test_words_in_capitals_are_variables_and_reasons_that_exist() -> None:
    """A misspelt reason would be searched for in vain."""
    named = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", read(PAGE)))

    assert named
    assert named <= all_variables() | {reason.value for reason in Reason}


def test_settings_in_the_text_exist() -> None:
    """Names of settings in running text are those of the table."""
    named = set(re.findall(r"`([a-z_]+_(?:s|json|level|model))`", read(PAGE)))

    assert "drain_s" in named
    assert named <= Settings.model_fields.keys()


def test_the_unit_starts_the_server_with_settings_that_exist() -> None:
    """Its program, its variables, its folder and its stop timeout fit the rest."""
    unit = _unit()
    variables = dict(one.split("=", 1) for one in unit["Environment"])

    assert unit["ExecStart"] == ["/opt/baton/bin/baton serve"]
    assert variables.keys() <= all_variables()
    assert variables["BATON_STORE"].startswith(f"/var/lib/{unit['StateDirectory'][0]}/")
    assert float(unit["TimeoutStopSec"][0]) > Settings.model_fields["drain_s"].default + 2 * LAST_WORDS_S
    assert unit["RestartPreventExitStatus"] == [str(int(ExitCode.USAGE))]


@pytest.mark.parametrize("line", ["TimeoutStopSec=15 # seconds", "Restart = always"])
def test_a_line_that_systemd_reads_otherwise_is_seen(line: str) -> None:
    """There are no comments behind a value, and we write no blanks around the sign."""
    assert not re.fullmatch(_LINE, line)


_LINE = r"[A-Z][A-Za-z]+=[^\s#]([^#]*\S)?"


def _unit() -> dict[str, list[str]]:
    """Read the unit: each key with its values."""
    (block,) = [block for block in blocks(PAGE) if block.language == "ini"]
    found: dict[str, list[str]] = {}
    for line in block.text.splitlines():
        if not line or line.startswith("#") or re.fullmatch(r"\[[A-Z][a-z]+\]", line):
            continue
        assert re.fullmatch(_LINE, line), line
        key, _, value = line.partition("=")
        found.setdefault(key, []).append(value)
    return found


def _table(head: str) -> list[str]:
    """List the rows of a table of the page, by its head."""
    _, found, rest = read(PAGE).partition(f"{head}\n")
    assert found, f"there is no table {head}"
    _line, *lines = rest.splitlines()
    return lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]
