"""Payloads that are written outside of the course of a turn."""

from __future__ import annotations

from baton_server.core.jsontext import dump


def check_question(*, key: str, call_id: str, tool: str, arguments: str, attempt: int) -> str:
    """Ask whether an attempt took effect."""
    return dump(
        {"idempotency_key": key, "call_id": call_id, "tool": tool, "arguments_json": arguments, "attempt": attempt}
    )
