"""Digests by which decisions are bound: of arguments however they are written, and of a function's definition."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from baton_server.core import jsontext
from baton_server.core.jsontext import JsonError
from baton_server.core.tools import AgentTool, FunctionTool
from baton_server.wire.tools import write_tool


def text_digest(text: str) -> str:
    """Digest a JSON text so that equal values have equal digests: 64 hex digits, of its canonical form.

    That is: members by name, no spaces, whole numbers below 2^53 without a fraction, other numbers as they came. Of
    what is no JSON it is the digest of its bytes, lone surrogates escaped.
    """
    try:
        data = _canonical(jsontext.canonical(text)).encode()
    except JsonError:
        data = text.encode("utf-8", "backslashreplace")
    return sha256(data).hexdigest()


def definition_digest(tool: FunctionTool | AgentTool) -> str:
    """Digest the definition of a function or an agent tool: 64 hex digits, of its bytes on the wire."""
    return sha256(write_tool(tool).SerializeToString(deterministic=True)).hexdigest()


def _canonical(value: Any) -> str:
    match value:
        case dict():
            members = (f"{json.dumps(name)}:{_canonical(value[name])}" for name in sorted(value))
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(_canonical(element) for element in value) + "]"
        case tuple():
            return str(value[1])  # a number, as jsontext.canonical gives it
        case _:
            return json.dumps(value)
