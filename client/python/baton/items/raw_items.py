"""Writes Responses API items, as callers bring them, for the wire."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def write_items(items: Sequence[Any]) -> str:
    """Write Responses API items as a JSON array; objects of the openai package as what they dump to."""
    text = json.dumps(items, ensure_ascii=False, separators=(",", ":"), default=_dump)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates: only JSON's own escapes can say them
        return json.dumps(items, separators=(",", ":"), default=_dump)
    return text


def _dump(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    raise TypeError(f"an input item must be a dict, not {type(value).__name__}: {value!r}"[:500])
