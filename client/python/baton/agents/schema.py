"""Reads a Python function: what the model is told about it, and how the model's arguments become its own."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import griffe
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from baton.agents.strict import Json, strict_schema
from baton.context.run_context import RunContextWrapper
from baton.errors import FunctionError, UserError

_NUMPY = re.compile(r"^\s*(Parameters|Returns|Yields)\s*\n\s*-{3,}\s*$", re.MULTILINE)
_SPHINX = re.compile(r"^\s*:(param|type|return|rtype|raises)\b", re.MULTILINE)

MAX_PROBLEMS = 10
"""Problems of one call's arguments that the model is told; more would only cost it tokens."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSchema:
    """What is known of a function. `takes_context`: its first parameter is a `RunContext`, in no schema."""

    name: str
    description: str
    parameters: Json
    arguments: type[BaseModel]
    signature: inspect.Signature
    takes_context: bool

    def bind(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """Turn the model's argument text into positional and keyword arguments.

        Raises FunctionError, in words for the model, with path and constraint of each problem.
        """
        try:
            values = self.arguments.model_validate_json(text if text.strip() else "{}")
        except ValidationError as error:
            raise FunctionError(_for_the_model(self.name, error)) from error
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for parameter in self._own_parameters():
            value = getattr(values, _field(parameter.name))
            if parameter.kind in _POSITIONAL:
                positional.append(value)
            elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional.extend(value)
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                keywords.update(value)
            else:
                keywords[parameter.name] = value
        return positional, keywords

    def _own_parameters(self) -> list[inspect.Parameter]:
        return list(self.signature.parameters.values())[self.takes_context :]


def function_schema(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool = True,
) -> FunctionSchema:
    """Read a function's signature, annotations and docstring (google, numpy or sphinx).

    `description` None: the docstring's text without its sections. Raises UserError where the signature has no
    schema, or no strict one.
    """
    if inspect.isclass(function) or not hasattr(function, "__name__"):
        raise TypeError(f"a function becomes a tool, not {function!r}; write a function that calls it")
    title = name or function.__name__
    summary, documented = _docstring(function)
    signature = inspect.signature(function)
    hints = _hints(function, title)
    parameters = list(signature.parameters.values())
    takes_context = bool(parameters) and _is_context(hints.get(parameters[0].name))
    fields: dict[str, Any] = {}
    for parameter in parameters[takes_context:]:
        annotation = hints.get(parameter.name, Any)
        if _is_context(annotation):
            raise UserError(f"{title}: a RunContext must be the first parameter, not {parameter.name!r}")
        fields[_field(parameter.name)] = _definition(parameter, annotation, documented.get(parameter.name))
    config = ConfigDict(extra="forbid" if strict else "ignore", protected_namespaces=())
    try:
        model = create_model(f"{title}_args", __config__=config, **fields)
        parameters_json: Json = model.model_json_schema()
    except PydanticUserError as error:
        raise UserError(f"{title}: its parameters have no JSON Schema: {error.message}") from error
    try:
        shown = strict_schema(parameters_json) if strict else parameters_json
    except UserError as error:
        raise UserError(f"{title}: {error}") from error
    return FunctionSchema(
        name=title,
        description=summary if description is None else description,
        parameters=shown,
        arguments=model,
        signature=signature,
        takes_context=takes_context,
    )


def _definition(parameter: inspect.Parameter, annotation: Any, documented: str | None) -> Any:
    """Make pydantic's definition of one field."""
    annotation, description = _described(annotation, documented)
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return list[annotation], _info(parameter, description, default_factory=list)
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return dict[str, annotation], _info(parameter, description, default_factory=dict)
    default = parameter.default
    if isinstance(default, FieldInfo):
        if description and default.description is None:
            return Annotated[annotation, Field(description=description)], default
        return annotation, default
    if default is inspect.Parameter.empty:
        return annotation, _info(parameter, description)
    return annotation, _info(parameter, description, default=default)


def _info(parameter: inspect.Parameter, description: str | None, **default: Any) -> Any:
    alias = parameter.name if _field(parameter.name) != parameter.name else None
    return Field(description=description, alias=alias, **default)


def _described(annotation: Any, documented: str | None) -> tuple[Any, str | None]:
    """Take the description of an `Annotated[T, "text"]`, unless the docstring has one."""
    if get_origin(annotation) is not Annotated:
        return annotation, documented
    kind, *notes = get_args(annotation)
    said = next((note for note in notes if isinstance(note, str)), None)
    others = [note for note in notes if not isinstance(note, str)]
    if any(isinstance(note, FieldInfo) and note.description for note in others):
        documented = said = None  # the field's own words win
    rest = Annotated[(kind, *others)] if others else kind
    return rest, documented or said


def _field(name: str) -> str:
    """Name a field as its parameter, except where pydantic keeps the name for itself."""
    return f"parameter{name}" if name.startswith("_") or hasattr(BaseModel, name) else name


def _hints(function: Callable[..., Any], title: str) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UserError(
            f"{title}: the annotation {error.name!r} is not known where the function is defined; "
            "define the type at the top of the module"
        ) from error


def _is_context(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and issubclass(kind, RunContextWrapper)


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Read a docstring: its text without sections, and what it says about each parameter."""
    text = inspect.getdoc(function)
    if not text:
        return "", {}
    docstring = griffe.Docstring(text)
    if _SPHINX.search(text):
        sections = griffe.parse_sphinx(docstring, warnings=False)
    elif _NUMPY.search(text):
        sections = griffe.parse_numpy(docstring, warnings=False)
    else:
        sections = griffe.parse_google(docstring, warnings=False)
    summary: list[str] = []
    described: dict[str, str] = {}
    for section in sections:
        if section.kind is griffe.DocstringSectionKind.text:
            summary.append(section.value)
        elif section.kind is griffe.DocstringSectionKind.parameters:
            described |= {one.name.lstrip("*"): one.description.strip() for one in section.value}
    return "\n\n".join(summary).strip(), described


def _for_the_model(name: str, error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [
        f"{'.'.join(str(step) for step in one['loc']) or 'the arguments'}: {one['msg']}" for one in found[:MAX_PROBLEMS]
    ]
    if len(found) > MAX_PROBLEMS:
        problems.append(f"and {len(found) - MAX_PROBLEMS} more")
    return f"The arguments of {name} are not valid: {'; '.join(problems)}. Correct them and call it again."
