"""What a run gave."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from baton.agent import Agent
from baton.errors import (
    AgentsException,
    EffectUnknownError,
    NotFoundError,
    RunData,
    TurnCancelledError,
    UnservedError,
)
from baton.items import RunItem
from baton.reasons import error_from_pb
from baton.usage import Usage, usage_from_pb
from baton.v1 import event_pb2, runner_pb2

T = TypeVar("T")

Input = str | Sequence[Any]

ENDED = frozenset({event_pb2.TURN_STATUS_COMPLETED, event_pb2.TURN_STATUS_FAILED, event_pb2.TURN_STATUS_CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContextUsage:
    """What the Agents SDK calls the context wrapper of a result: its usage, and the application's context."""

    usage: Usage
    context: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run that has its final output.

    `new_items`: all that it made, each round's reply in its order, then the outputs in the order of the calls.
    `last_response_id` None: the provider gave none. `session_id` and `turn_id` are the server's.
    """

    input: Input
    new_items: list[RunItem]
    final_output: Any
    last_agent: Agent[Any]
    last_response_id: str | None
    context_wrapper: RunContextUsage
    session_id: str
    turn_id: str
    next_items_json: str | None

    @property
    def usage(self) -> Usage:
        """Requests and tokens of the run."""
        return self.context_wrapper.usage

    @property
    def interruptions(self) -> list[Any]:
        """Approvals that are waited for. Always empty: this version has none."""
        return []

    def final_output_as(self, cls: type[T], raise_if_incorrect_type: bool = False) -> T:
        """Return the final output, typed. With `raise_if_incorrect_type`, TypeError if it is of another."""
        return typed(self.final_output, cls, raise_if_incorrect_type)

    def to_input_list(self) -> list[dict[str, Any]]:
        """List input and new items, as input of the next run: put a message behind them.

        After a run with a session the history before it comes first. Raises NotFoundError where the list was too
        large for the answer and the server has it no more.
        """
        return input_list(self.next_items_json)


def make_result(
    response: runner_pb2.RunResponse, agent: Agent[Any], given: Input, items: list[RunItem], context: Any
) -> RunResult:
    """Make the result of a turn that has ended well."""
    return RunResult(
        input=given,
        new_items=items,
        final_output=response.turn.output,
        last_agent=agent,
        last_response_id=response.turn.last_response_id or None,
        context_wrapper=RunContextUsage(usage=usage_from_pb(response.turn.usage), context=context),
        session_id=response.session_id,
        turn_id=response.turn.turn_id,
        next_items_json=next_items(response),
    )


def failure_of(
    response: runner_pb2.RunResponse, agent: Agent[Any], given: Input, items: Sequence[RunItem]
) -> AgentsException | None:
    """Make the exception of a turn that has no final output; None: it has one."""
    error = _failure(response)
    if error is not None:
        error.run_data = RunData(
            input=given,
            new_items=tuple(items),
            last_agent=agent,
            usage=usage_from_pb(response.turn.usage),
            session_id=response.session_id,
            turn_id=response.turn.turn_id,
        )
    return error


def typed(value: Any, cls: type[T], strict: bool) -> T:
    """Return a value as what it is said to be; TypeError if `strict` and it is not."""
    if strict and not isinstance(value, cls):
        raise TypeError(f"the final output is {type(value).__name__}, not {cls.__name__}")
    found: T = value
    return found


def next_items(response: runner_pb2.RunResponse) -> str | None:
    """Take `RunResponse.next_items_json`; None: it was omitted, and is nowhere to be read."""
    return None if response.HasField("next_items_omitted") else response.next_items_json


def input_list(next_items_json: str | None) -> list[dict[str, Any]]:
    """Read `next_items`. Raises NotFoundError where there are none."""
    if next_items_json is None:
        raise NotFoundError("the list of inputs was too large for the run's answer, and the server has it no more")
    found: list[dict[str, Any]] = json.loads(next_items_json or "[]")
    return found


def _failure(response: runner_pb2.RunResponse) -> AgentsException | None:
    turn = response.turn
    if turn.status == event_pb2.TURN_STATUS_COMPLETED:
        return None
    if turn.status == event_pb2.TURN_STATUS_FAILED:
        return error_from_pb(turn.error)
    if turn.status == event_pb2.TURN_STATUS_CANCELLED:
        return TurnCancelledError(f"the turn {turn.turn_id} was cancelled")
    return _rest(response)


def _rest(response: runner_pb2.RunResponse) -> UnservedError:
    """Say why a run rests, and what to do."""
    turn, actions = response.turn, response.required_actions
    where = f"the turn {turn.turn_id} of session {response.session_id} then goes on"
    unknown = sorted({one.name for one in actions if one.state == event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN})
    names = sorted({one.name for one in actions})
    made = (
        EffectUnknownError(
            f"the run rests: it is not known whether {', '.join(unknown)} took effect, and it must not run twice. Find "
            f"out; settle the call, or have it delivered again; {where}"
        )
        if unknown
        else UnservedError(
            f"the run rests: nobody serves {', '.join(names) or 'what it waits for'}. Attach a worker for it, or "
            f"settle the calls; {where}"
        )
    )
    made.required_actions = tuple(actions)
    return made
