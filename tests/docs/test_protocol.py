"""PROTOCOL.md tells of all that the contract has: its events, kinds of hooks, reasons and histories."""

from __future__ import annotations

import re
from typing import get_args

from google.protobuf.descriptor import EnumDescriptor
from tests.docs.markdown import read

from baton.hooks.kinds import HookName
from baton.v1 import error_pb2, event_pb2, run_config_pb2, session_pb2

PROTOCOL = "proto/PROTOCOL.md"


def section(number: int) -> str:
    """Take one section of the protocol, from its heading to the next."""
    found = re.search(rf"^## {number} .*?(?=^## |\Z)", read(PROTOCOL), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def rows(text: str) -> list[str]:
    """List the first cells of a text's tables."""
    return re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)


def values(enum: EnumDescriptor, prefix: str) -> set[str]:
    """List the values of an enum that are ever sent, without their prefix."""
    return {value.name.removeprefix(prefix) for value in enum.values if value.number}


def test_every_event_has_its_row() -> None:
    """Who reads the log finds what each event means."""
    told = {name for cell in rows(section(8)) for name in re.findall(r"`(\w+)`", cell)}

    arms = {field.name for field in event_pb2.Event.DESCRIPTOR.oneofs_by_name["event"].fields}
    assert arms - told == set()


def test_every_kind_of_hook_has_its_row() -> None:
    """Who writes a worker finds what each question holds, and what no answer means."""
    told = {cell.partition(",")[0] for cell in rows(section(6))}

    kinds = values(event_pb2.HandlerKind.DESCRIPTOR, "HANDLER_KIND_")
    assert kinds - told == {"FUNCTION"}


def test_every_kind_that_a_worker_serves_is_on_the_page_of_hooks() -> None:
    """Who serves hooks in Python finds the data of each kind, and how it is answered."""
    told = {name for cell in rows(read("docs/hooks.md")) for name in re.findall(r"`(\w+)`", cell)}

    assert set(get_args(HookName)) - told == set()


def test_every_reason_has_its_row() -> None:
    """Who branches on a reason finds whose matter it is; a row may leave out the end that several have in common."""
    cells = rows(section(9))
    told = {word for cell in cells for word in re.findall(r"[A-Z_]+", cell)}
    shared = {f"{word}{tail}" for word in told if word.endswith("_") for tail in ("NOT_FOUND", "GUARDRAIL_TRIPPED")}

    assert values(error_pb2.ErrorReason.DESCRIPTOR, "ERROR_REASON_") - told - shared == set()


def test_every_history_and_every_input_has_its_row() -> None:
    """Who runs a turn finds what the model remembers, and what each input does."""
    told = {word for cell in rows(section(2)) for word in re.findall(r"\w+", cell)}

    modes = {field.name.upper() for field in run_config_pb2.History.DESCRIPTOR.oneofs_by_name["mode"].fields}
    inputs = {field.name for field in session_pb2.Input.DESCRIPTOR.oneofs_by_name["input"].fields}
    assert (modes | inputs) - told == set()
