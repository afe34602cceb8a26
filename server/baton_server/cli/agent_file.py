"""Agents written down in a file: `baton.v1.Agent`, as JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.json_format import ParseDict, ParseError

from baton.v1 import agent_pb2


class WrongAgentFile(Exception):
    """The file holds no agent; the message says what is wrong and where."""


def read_agent_file(path: Path) -> agent_pb2.Agent:
    """Read an agent. Fields are named as in the contract, `parameters_json` or `parametersJson`.

    A field whose name ends in `_json` holds text; in a file it may also be written out as what that text says, since
    nobody likes JSON inside of YAML. Raises WrongAgentFile; what the server alone can judge is left to it.
    """
    try:
        written = yaml.safe_load(path.read_text(encoding="utf-8"))  # JSON is YAML
    except OSError as error:
        raise WrongAgentFile(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise WrongAgentFile(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}") from None
    except yaml.YAMLError as error:
        raise WrongAgentFile(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())}") from None
    if not isinstance(written, Mapping):
        raise WrongAgentFile(f"{path} holds {_kind(written)}; write an agent: name, instructions, tools")
    try:
        return ParseDict(_texts(written), agent_pb2.Agent())
    except ParseError as error:
        raise WrongAgentFile(f"{path} is no agent (baton.v1.Agent): {error}") from None


def _texts(value: Any, name: str = "") -> Any:
    """Make texts of what stands written out in fields of JSON text."""
    if name.endswith(("_json", "Json")) and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, Mapping):
        return {str(key): _texts(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_texts(inner) for inner in value]
    return value


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
