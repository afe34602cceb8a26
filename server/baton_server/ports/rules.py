"""Rules about JSON Schema: pure functions that need a library, handed to the core and to the use cases."""

from __future__ import annotations

from typing import Protocol

from baton_server.core.rules import Rules


class SchemaRules(Rules, Protocol):
    """The rules of the core, and what accepting a turn needs besides."""

    def strict_allows(self, schema_json: str) -> bool:
        """Tell whether a schema can be adhered to strictly: every object closed, every property required."""
        ...


__all__ = ["Rules", "SchemaRules"]
