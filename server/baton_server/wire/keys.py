"""Idempotency keys: made of declared fields of a call's arguments; equal values give equal keys however written."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from baton_server.core import jsontext
from baton_server.core.jsontext import JsonError

_MISSING = object()


def idempotency_key(session_id: str, name: str, pointers: tuple[str, ...], arguments: str) -> str:
    """Make the key of a call, `idem_…`. Empty: the arguments are no JSON object, or lack a field.

    A call without one of its fields is joined with no other: two things that are not said need not be the same.
    """
    try:
        value = jsontext.canonical(arguments)
    except JsonError:
        return ""
    fields = [_at(value, pointer) for pointer in pointers]
    if any(field is _MISSING for field in fields):
        return ""
    text = json.dumps([session_id, name, list(pointers), fields], sort_keys=True, separators=(",", ":"))
    return f"idem_{sha256(text.encode()).hexdigest()[:40]}"


def is_pointer(text: str) -> bool:
    """Tell whether a text is a JSON Pointer (RFC 6901) to a member or element, not to the whole."""
    tokens = text.split("/")
    return len(tokens) > 1 and not tokens[0] and all("~" not in _plain(token, "") for token in tokens[1:])


def _at(value: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        key = _plain(token, "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdecimal() and str(int(key)) == key:
            if int(key) >= len(value):
                return _MISSING
            value = value[int(key)]
        else:
            return _MISSING
    return value


def _plain(token: str, tilde: str) -> str:
    return token.replace("~1", "/").replace("~0", tilde)
