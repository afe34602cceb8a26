"""What is told of a run as it goes, where the Agents SDK has it: `from agents.lifecycle import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from baton.absent import refusing
from baton.agents.agent import Agent
from baton.agents.lifecycle import AgentHooks, RunHooks
from baton.sdk_names import TContext

__all__ = ["AgentHooks", "AgentHooksBase", "RunHooks", "RunHooksBase"]

TAgent = TypeVar("TAgent", bound=Agent[Any])


class RunHooksBase(RunHooks[TContext], Generic[TContext, TAgent]):
    """A `RunHooks` that also names the type of its agents."""


class AgentHooksBase(AgentHooks[TContext], Generic[TContext, TAgent]):
    """An `AgentHooks` that also names the type of its agents."""


if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
