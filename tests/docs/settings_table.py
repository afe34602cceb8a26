"""The table of settings as docs/operating.md has it, made from the settings themselves."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo

from baton_server.config import CONFIG_VARIABLE, Settings

HEAD = ("| setting | environment variable | default | meaning |", "| --- | --- | --- | --- |")


def variables_of(name: str, field: FieldInfo) -> list[str]:
    """List the environment variables of a setting, the stronger first."""
    match field.validation_alias:
        case None:
            return [f"BATON_{name.upper()}"]
        case AliasChoices(choices=choices):
            return [str(choice) for choice in choices if choice != name]
        case alias:
            return [str(alias)]


def all_variables() -> set[str]:
    """List all environment variables that a server reads."""
    found = (variable for name, field in Settings.model_fields.items() for variable in variables_of(name, field))
    return {CONFIG_VARIABLE, *found}


def rows() -> list[str]:
    """Write the table's rows."""
    return [
        f"| `{name}` | {_code(variables_of(name, field))} | {_default(field)} | {_meaning(field)} |"
        for name, field in Settings.model_fields.items()
    ]


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _default(field: FieldInfo) -> str:
    value: Any = field.default
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if str(value) else "none"


def _meaning(field: FieldInfo) -> str:
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    listed = f" One of {', '.join(choices)}." if choices else ""
    return f"{field.description}{listed}"
