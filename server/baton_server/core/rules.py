"""What the core needs of a library: deterministic, pure functions, handed to the Runner when it is built."""

from __future__ import annotations

from typing import Protocol


class Rules(Protocol):
    """Functions whose answer depends on their arguments alone, so that a replay gets the same ones."""

    def violation(self, schema_json: str, value_json: str) -> str | None:
        """Check a JSON value against a JSON Schema.

        Return None if it fits, otherwise words that name the path and the constraint that is broken.
        """
        ...

    def idempotency_key(self, session_id: str, name: str, pointers: tuple[str, ...], arguments: str) -> str:
        """Make the key of a call from the fields of its arguments that JSON Pointers name, `idem_…`.

        Equal values give equal keys, however they are written (1 and 1.0, the order of members). Empty: a field is not
        there, or the arguments are no JSON.
        """
        ...
