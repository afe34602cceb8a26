"""What the core needs of a library: deterministic, pure functions, handed to the Runner when it is built."""

from __future__ import annotations

from typing import Protocol

from baton_server.core.tools import AgentTool, FunctionTool


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

    def digest(self, text: str) -> str:
        """Digest a JSON text by what it says, however it is written; a text that is no JSON by its bytes. 64 hex."""
        ...

    def definition_digest(self, tool: FunctionTool | AgentTool) -> str:
        """Digest what a turn has pinned of a function or of an agent tool. 64 hex digits."""
        ...
