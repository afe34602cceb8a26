"""The JSON of a state: ids, what waits, what is decided. Whoever reads it checks all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from google.protobuf import json_format
from pydantic import TypeAdapter, ValidationError

from baton.agents.agent import Agent
from baton.context.approvals import Approvals, Ruling
from baton.errors import UserError
from baton.hosting.place import NOWHERE, Place
from baton.items.responses import RawItem
from baton.items.run_items import Names, ToolApprovalItem, approval_item
from baton.v1 import event_pb2

VERSION = 1
"""Of the form. A reader of an older one refuses it by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a run stands. `address` None: at the default server.

    `turn_id`: its last turn; `earlier`: those that this one goes on from, oldest first. `sequence`: the last event that
    was seen. `request_id`: under which what follows is sent. `shown`: keys of its items, in the order in which they
    were seen; `asked`: all approvals among them; `waiting`: Baton's ids of those calls that nobody had decided about.
    """

    session_id: str
    turn_id: str
    request_id: str
    sequence: int
    address: str | None = None
    earlier: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    asked: tuple[ToolApprovalItem, ...] = ()
    waiting: tuple[str, ...] = ()
    place: Place = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    required_action: dict[str, Any]
    call: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """The form, field by field."""

    version: int
    agent: str
    session_id: str
    turn_id: str
    request_id: str
    sequence: int
    address: str | None
    earlier: tuple[str, ...]
    shown: tuple[str, ...]
    asked: tuple[_Asked, ...]
    waiting: tuple[str, ...]
    place: Place
    decisions: tuple[Ruling, ...]
    pending_input: list[Any]


_FORM = TypeAdapter(_Written)


def write_state(position: Position, approvals: Approvals, pending: Sequence[Any], agent: str) -> dict[str, Any]:
    """Write a state. `agent`: name of the one that the run began with."""
    plain = {one.name: getattr(position, one.name) for one in fields(Position) if one.name != "asked"}
    written = _Written(
        version=VERSION,
        agent=agent,
        asked=tuple(_write_asked(item) for item in position.asked),
        decisions=approvals.rulings,
        pending_input=list(pending),
        **plain,
    )
    made: dict[str, Any] = _FORM.dump_python(written, mode="json")
    return made


def read_state(
    state: Any, agent: Agent[Any], agents: Mapping[str, Agent[Any]]
) -> tuple[Position, Approvals, list[Any]]:
    """Read a state of a run that began with `agent`, whose graph is `agents`. Raises UserError for what is none."""
    version = state.get("version") if isinstance(state, Mapping) else type(state).__name__
    if version != VERSION:
        raise UserError(f"this is no state of a run that this version of Baton can read: version {version!r}")
    try:
        read = _FORM.validate_python(state)
        names = Names(start=agent, agents=agents)
        asked = tuple(_read_asked(one, names) for one in read.asked)
    except (ValidationError, json_format.ParseError) as error:
        raise UserError(f"this state of a run is damaged: {error}"[:1000]) from error
    if read.agent != agent.name:
        raise UserError(f"the run began with the agent {read.agent!r}, not with {agent.name!r}; give that one")
    plain = {one.name: getattr(read, one.name) for one in fields(Position) if one.name != "asked"}
    approvals = Approvals()
    for ruling in read.decisions:
        approvals.take(ruling)
    return Position(asked=asked, **plain), approvals, read.pending_input


def _write_asked(item: ToolApprovalItem) -> _Asked:
    action = json_format.MessageToDict(item.required_action, preserving_proto_field_name=True)
    return _Asked(required_action=action, call=dict(item.raw_item))


def _read_asked(asked: _Asked, names: Names) -> ToolApprovalItem:
    action = json_format.ParseDict(asked.required_action, event_pb2.RequiredAction(), ignore_unknown_fields=True)
    return approval_item(action, names, RawItem(asked.call))
