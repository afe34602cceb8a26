"""The rules of the core, declared where adapters find their ports."""

from __future__ import annotations

from baton_server.core.rules import Rules

__all__ = ["Rules"]
