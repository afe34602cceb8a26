"""Output types of agents: the schema that the model is asked for, and values of the type made of its answer.

A value travels as its own JSON. What a model's API wants besides, such as an object around a list, the server adds
and takes off again.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from baton.agents.strict import Json, strict_schema
from baton.errors import ModelBehaviorError, UserError
from baton.v1 import agent_pb2

if TYPE_CHECKING:
    from baton.agents.agent import Agent

_INNER = "response"
"""Member under which a schema whose root is no object is made strict."""


class AgentOutputSchemaBase(ABC):
    """The shape of a final output, for schemas of your own: subclass it."""

    @abstractmethod
    def is_plain_text(self) -> bool:
        """Tell whether the output is any text; then there is no schema."""

    @abstractmethod
    def name(self) -> str:
        """Name the type, for messages."""

    @abstractmethod
    def json_schema(self) -> dict[str, Any]:
        """Give the JSON Schema; asked for only where the output is no plain text."""

    @abstractmethod
    def is_strict_json_schema(self) -> bool:
        """Tell whether the model is asked for strict adherence."""

    @abstractmethod
    def validate_json(self, json_str: str) -> Any:
        """Make the value of its JSON. Raises ModelBehaviorError where it is none."""


class AgentOutputSchema(AgentOutputSchemaBase):
    """The shape of a Python type: a pydantic model, a dataclass, a TypedDict, `list[str]`, `int`, and so on.

    `strict_json_schema` False: for types that have no strict schema, such as one with a `dict[str, int]` in it.
    Raises UserError for a type without a schema, or without a strict one.
    """

    def __init__(self, output_type: Any, strict_json_schema: bool = True) -> None:
        self.output_type = output_type
        self._strict = strict_json_schema
        self._adapter: TypeAdapter[Any] = _adapter(output_type)
        self._schema: Json | None = None if self.is_plain_text() else self._make_schema()

    def is_plain_text(self) -> bool:
        """Tell whether it is `str`."""
        return self.output_type is None or self.output_type is str

    def name(self) -> str:
        """Name the type as it is written."""
        return _type_name(self.output_type)

    def json_schema(self) -> dict[str, Any]:
        """Give the JSON Schema. Raises UserError for plain text."""
        if self._schema is None:
            raise UserError("plain text has no JSON Schema")
        return self._schema

    def is_strict_json_schema(self) -> bool:
        """Tell whether the schema is strict."""
        return self._strict

    def validate_json(self, json_str: str) -> Any:
        """Make the value of its JSON. Raises ModelBehaviorError where it does not fit the type."""
        try:
            return self._adapter.validate_json(json_str, strict=True if self._strict else None)
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors())
            raise ModelBehaviorError(f"the final output is no {self.name()}: {told}"[:2000]) from error

    def _make_schema(self) -> Json:
        schema = _schema_of(self._adapter, self.name())
        if not self._strict:
            return schema
        try:
            return _strict(schema)
        except UserError as error:
            raise UserError(
                f"the output type {self.name()} has no strict schema: {error}; name its fields in a class, or write "
                f"AgentOutputSchema({self.name()}, strict_json_schema=False)"
            ) from error


def output_schema_of(output_type: Any) -> AgentOutputSchemaBase | None:
    """Take an agent's output type as it may be given; None: plain text. Raises UserError, as `AgentOutputSchema`."""
    schema = output_type if isinstance(output_type, AgentOutputSchemaBase) else AgentOutputSchema(output_type)
    return None if schema.is_plain_text() else schema


def read_output(agent: Agent[Any], output_json: str) -> Any:
    """Make the final output of an agent of its JSON. Raises ModelBehaviorError where it does not fit the type."""
    schema = agent.output_schema
    return json.loads(output_json) if schema is None else schema.validate_json(output_json)


def read_value(agent: Agent[Any] | None, value: Any) -> Any:
    """Make the final output of an agent of its JSON value, as hooks are told it. `agent` None: it is not known."""
    if agent is None or agent.output_schema is None:
        return value
    return agent.output_schema.validate_json(json.dumps(value, ensure_ascii=False))


def output_schema_to_pb(schema: AgentOutputSchemaBase) -> agent_pb2.OutputSchema:
    """Write `baton.v1.OutputSchema`. Raises UserError where it gives no schema."""
    given = schema.json_schema()
    if not isinstance(given, Mapping):
        raise UserError(f"json_schema() of the output type {schema.name()} must give a dict, not {given!r}"[:500])
    made = agent_pb2.OutputSchema(schema_json=json.dumps(given, ensure_ascii=False, separators=(",", ":")))
    if not schema.is_strict_json_schema():
        made.strict = False
    return made


def _adapter(output_type: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(output_type)
    except (PydanticUserError, NameError) as error:
        raise UserError(f"the output type {_type_name(output_type)} has no schema: {error}") from error


def _schema_of(adapter: TypeAdapter[Any], name: str) -> Json:
    try:
        return adapter.json_schema()
    except PydanticUserError as error:
        raise UserError(f"the output type {name} has no JSON Schema: {error.message}") from error


def _strict(schema: Json) -> Json:
    """Make a schema strict whose root need be no object: as a member of one."""
    definitions = schema.get("$defs")
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    around: Json = {"type": "object", "properties": {_INNER: inner}}
    if definitions is not None:
        around["$defs"] = definitions
    made = strict_schema(around)
    root: Json = made["properties"][_INNER]
    return root if definitions is None else {**root, "$defs": made["$defs"]}


def _type_name(given: Any) -> str:
    """Name a type as it is written: "list[str]"."""
    arguments = get_args(given)
    origin = get_origin(given)
    if origin is None:
        return getattr(given, "__name__", None) or repr(given)
    inner = ", ".join(_type_name(one) for one in arguments)
    return f"{getattr(origin, '__name__', origin)}[{inner}]"
