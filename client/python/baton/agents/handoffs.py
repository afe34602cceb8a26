"""Handoffs: ways from one agent to another, which the model takes by calling a tool."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from baton.agents.conditions import EnabledRule, check_enabled, enabled_to_pb
from baton.agents.handoff_data import HandoffInputData, filter_answer, filter_arguments
from baton.agents.input_filters import AnyFilter, filters_to_pb, listed_filters
from baton.agents.strict import Json, strict_schema
from baton.errors import ModelBehaviorError, UserError
from baton.hooks import RemoteHook
from baton.hooks.data import OnHandoffData
from baton.hooks.refs import RefOf, hook_use
from baton.options import options, refusing_unknown
from baton.v1 import agent_pb2

if TYPE_CHECKING:
    from baton.agents.agent import Agent

TContext = TypeVar("TContext")

HandoffInputFilter = Callable[[HandoffInputData], Any]
"""Gives a HandoffInputData, sync or async."""


@options
@dataclass(frozen=True, eq=False)
class Handoff(Generic[TContext]):
    """A way to hand over to `agent`. Make it with `handoff`.

    `tool_name` None: "transfer_to_" and the agent's name in function style. `tool_description` None: the default
    words, with the agent's `handoff_description`. `input_json_schema` empty: the model says nothing at the handover.
    `on_handoff` is called as `(context)`, or `(context, input)` where there is a schema; what it returns is of no use.
    `input_filter`: one, or a list, each applied to what the one before gives: functions of a HandoffInputData,
    `RemoteHook`s, `KeepLast`, `ToolOutputTrimmer`, `handoff_filters.remove_all_tools`; None: the run's.
    `nest_handoff_history`: fold the conversation so far into one message; None: as the run says.
    """

    agent: Agent[Any]
    tool_name: str | None = None
    tool_description: str | None = None
    input_json_schema: Mapping[str, Any] = field(default_factory=dict)
    on_handoff: Callable[..., Any] | RemoteHook | None = None
    read_input: Callable[[str | None], Any] | None = field(default=None, repr=False)
    input_filter: AnyFilter | Sequence[AnyFilter] | None = None
    nest_handoff_history: bool | None = None
    is_enabled: EnabledRule = True

    def __post_init__(self) -> None:
        if not isinstance(getattr(self.agent, "name", None), str) or not hasattr(self.agent, "handoffs"):
            raise TypeError(f"a handoff leads to an Agent, not to {self.agent!r}")
        what = f"the handoff to {self.agent.name!r}"
        check_enabled(what, self.is_enabled)
        listed_filters(f"{what}: input_filter", self.input_filter)
        if self.nest_handoff_history is not None and not isinstance(self.nest_handoff_history, bool):
            raise TypeError(f"{what}: nest_handoff_history must be a bool or None, not {self.nest_handoff_history!r}")

    @property
    def agent_name(self) -> str:
        """Who receives."""
        return self.agent.name

    def get_tool_name(self) -> str:
        """Say by which name the model calls it."""
        return self.tool_name or self.default_tool_name(self.agent)

    def get_transfer_message(self, agent: Agent[Any]) -> str:
        """Say what the model is told that it gave."""
        return json.dumps({"assistant": agent.name}, ensure_ascii=False)

    @classmethod
    def default_tool_name(cls, agent: Agent[Any]) -> str:
        """Name the tool of a handoff that has no name of its own."""
        return f"transfer_to_{function_style(agent.name)}"

    @classmethod
    def default_tool_description(cls, agent: Agent[Any]) -> str:
        """Say what the model is told of a handoff that has no words of its own."""
        return f"Handoff to the {agent.name} agent to handle the request. {agent.handoff_description or ''}"

    def to_pb(self, ref_of: RefOf) -> agent_pb2.Handoff:
        """Write `baton.v1.Handoff`."""
        made = agent_pb2.Handoff(
            agent=self.agent.name,
            tool_name=self.tool_name or "",
            tool_description=self.tool_description or "",
            input_filters=filters_to_pb(
                listed_filters("input_filter", self.input_filter),
                "handoff_input_filter",
                ref_of,
                filter_arguments,
                filter_answer,
            ),
            nest_history=self.nest_handoff_history,
            enabled=enabled_to_pb("handoff_enabled", self.is_enabled, ref_of),
        )
        if self.input_json_schema:
            made.input_schema_json = json.dumps(self.input_json_schema, ensure_ascii=False, separators=(",", ":"))
        if self.on_handoff is not None:
            use = hook_use("on_handoff", self.on_handoff, self._on_handoff_arguments, source=self)
            made.on_handoff.CopyFrom(ref_of(use))
        return made

    def _on_handoff_arguments(self, data: OnHandoffData[Any]) -> tuple[Any, ...]:
        return (data,) if self.read_input is None else (data, self.read_input(data.input_json))


@refusing_unknown("handoff")
def handoff(
    agent: Agent[Any],
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: Callable[..., Any] | RemoteHook | None = None,
    input_type: Any = None,
    input_filter: AnyFilter | Sequence[AnyFilter] | None = None,
    nest_handoff_history: bool | None = None,
    is_enabled: EnabledRule = True,
) -> Handoff[Any]:
    """Make a handoff to an agent.

    `input_type`: what the model must say at it, as an output type; `on_handoff(context, input)` gets a value of it.
    Without it `on_handoff` is called as `(context)`. Everything else is as of `Handoff`. Raises UserError for an
    `on_handoff` that does not take so many arguments, and for an `input_type` without a strict schema.
    """
    schema, read = _input_of(input_type) if input_type is not None else ({}, None)
    if input_type is not None and on_handoff is None:
        raise UserError("handoff(input_type=…) needs on_handoff, which gets the input")
    if on_handoff is not None and not isinstance(on_handoff, RemoteHook):
        _check_parameters(on_handoff, 1 if read is None else 2)
    return Handoff(
        agent,
        tool_name=tool_name_override,
        tool_description=tool_description_override,
        input_json_schema=schema,
        on_handoff=on_handoff,
        read_input=read,
        input_filter=input_filter,
        nest_handoff_history=nest_handoff_history,
        is_enabled=is_enabled,
    )


def function_style(name: str) -> str:
    """Write an agent's name as that of a function: what is no letter, digit or underscore becomes one."""
    return re.sub("[^A-Za-z0-9_]", "_", name).lower()


def _input_of(input_type: Any) -> tuple[Json, Callable[[str | None], Any]]:
    """Give the strict schema of an input type, and how a value of it is made."""
    try:
        adapter = TypeAdapter[Any](input_type)
        schema = strict_schema(adapter.json_schema())
    except (PydanticUserError, NameError) as error:
        raise UserError(f"the input type {input_type!r} of a handoff has no JSON Schema: {error}") from error
    except UserError as error:
        raise UserError(f"the input type {input_type!r} of a handoff has no strict schema: {error}") from error

    def read(text: str | None) -> Any:
        if text is None:
            raise ModelBehaviorError("the model said nothing at a handoff that needs an input")
        try:
            return adapter.validate_json(text, strict=True)
        except ValidationError as error:
            raise ModelBehaviorError(
                f"what the model said at a handoff does not fit {input_type!r}: {error}"
            ) from error

    return schema, read


def _check_parameters(function: object, count: int) -> None:
    if not callable(function):
        raise UserError(f"on_handoff must be a function or a RemoteHook, not {function!r}")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # a builtin, which does not tell
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        words = "one argument, the context" if count == 1 else "two arguments, the context and the input"
        raise UserError(f"on_handoff must take {words}; {function!r} takes {signature}") from error
