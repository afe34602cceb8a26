"""What a run gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from baton.agents.agent import Agent
from baton.context.run_context import RunContextWrapper
from baton.errors import NotFoundError, UserError
from baton.items.model_response import ModelResponse
from baton.items.run_items import RunItem, ToolApprovalItem
from baton.items.usage import Usage
from baton.runs.guardrail_results import GuardrailResults, TellsGuardrails
from baton.runs.outcome import Outcome, input_list
from baton.runs.plan import Input
from baton.runs.printing import agent_line, output_line, printed
from baton.runs.run_state import RunState
from baton.v1 import runner_pb2

T = TypeVar("T")

InputListMode = Literal["preserve_all", "normalized"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(TellsGuardrails):
    """A run that has its final output, or that waits for decisions: then that is None, and `interruptions` has them.

    `new_items`: all that it made, each round's reply in its order, then the outputs in the order of the calls.
    `raw_responses`: the model's replies. `last_response_id` None: the provider gave none. `session_id` and `turn_id`
    are the server's.
    """

    input: Input
    new_items: list[RunItem]
    raw_responses: list[ModelResponse]
    final_output: Any
    last_agent: Agent[Any]
    last_response_id: str | None
    interruptions: list[ToolApprovalItem]
    context_wrapper: RunContextWrapper[Any]
    session_id: str
    turn_id: str
    guardrails: GuardrailResults = field(repr=False)
    next_items_json: str | None = field(repr=False)
    state: RunState[Any] = field(repr=False)

    def __str__(self) -> str:
        return printed(self, [agent_line("Last", self.last_agent), output_line(self.final_output)])

    @property
    def usage(self) -> Usage:
        """Requests and tokens of the run."""
        return self.context_wrapper.usage

    def final_output_as(self, cls: type[T], raise_if_incorrect_type: bool = False) -> T:
        """Return the final output, typed. With `raise_if_incorrect_type`, TypeError if it is of another."""
        return typed(self.final_output, cls, raise_if_incorrect_type)

    def to_input_list(self, *, mode: InputListMode = "preserve_all") -> list[dict[str, Any]]:
        """List input and new items, as input of the next run: put a message behind them.

        After a run with a session the history before it comes first. Where a handoff's filter or fold changed what went
        before, that is how it stands here. `mode` "normalized": the same. Raises NotFoundError where the list was too
        large for the answer and the server has it no more.
        """
        return listed(self.next_items_json, mode)

    def to_state(self) -> RunState[Any]:
        """Make a state to decide about `interruptions`, and to go on from."""
        return self.state


def make_result(outcome: Outcome) -> RunResult:
    """Make the result of a run that did not fail."""
    final_output = outcome.final_output()
    return RunResult(
        input=outcome.making.input,
        new_items=list(outcome.making.made),
        raw_responses=outcome.raw_responses,
        final_output=final_output,
        last_agent=outcome.last_agent,
        last_response_id=outcome.last_response_id,
        interruptions=outcome.interruptions,
        context_wrapper=outcome.context_wrapper,
        session_id=outcome.response.session_id,
        turn_id=outcome.response.turn.turn_id,
        guardrails=outcome.guardrails(final_output),
        next_items_json=next_items(outcome.response),
        state=outcome.state(),
    )


def typed(value: Any, cls: type[T], strict: bool) -> T:
    """Return a value as what it is said to be; TypeError if `strict` and it is not."""
    if strict and not isinstance(value, cls):
        raise TypeError(f"the final output is {type(value).__name__}, not {cls.__name__}")
    found: T = value
    return found


def next_items(response: runner_pb2.RunResponse) -> str | None:
    """Take `RunResponse.next_items_json`; None: it was omitted, and is nowhere to be read."""
    return None if response.HasField("next_items_omitted") else response.next_items_json


def listed(next_items_json: str | None, mode: str) -> list[dict[str, Any]]:
    """Read the input of the next run. Raises NotFoundError where there is none."""
    if mode not in ("preserve_all", "normalized"):
        raise UserError(f"mode must be 'preserve_all' or 'normalized', not {mode!r}")
    if next_items_json is None:
        raise NotFoundError("the list of inputs was too large for the run's answer, and the server has it no more")
    return input_list(next_items_json)
