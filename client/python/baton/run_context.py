"""The context of a run, where the Agents SDK has it: `from agents.run_context import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.context.run_context import RunContextWrapper
from baton.sdk_names import AgentHookContext, TContext

__all__ = ["AgentHookContext", "RunContextWrapper", "TContext"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
