"""What a run had made when it failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from baton.agents.agent import Agent
from baton.context.run_context import RunContextWrapper
from baton.items.model_response import ModelResponse
from baton.items.run_items import RunItem
from baton.items.usage import Usage
from baton.runs.guardrail_results import GuardrailResults, TellsGuardrails
from baton.runs.printing import agent_line, printed
from baton.runs.run_state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunErrorDetails(TellsGuardrails):
    """What a run had made when it failed, by the names of the Agents SDK; `session_id` and `turn_id` are the server's.

    Without what the reply held over which it failed, but for functions of it that have their output.
    """

    input: str | Sequence[Any]
    new_items: list[RunItem]
    raw_responses: list[ModelResponse]
    last_agent: Agent[Any]
    context_wrapper: RunContextWrapper[Any]
    session_id: str
    turn_id: str
    state: RunState[Any] = field(repr=False)
    guardrails: GuardrailResults = field(default_factory=GuardrailResults, repr=False)

    def __str__(self) -> str:
        return printed(self, [agent_line("Last", self.last_agent)])

    @property
    def usage(self) -> Usage:
        """Requests and tokens of the run."""
        return self.context_wrapper.usage

    def to_state(self) -> RunState[Any]:
        """Make a state to go on from: after the limit of rounds, or a failed request to the model."""
        return self.state
