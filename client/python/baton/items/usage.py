"""Tokens of a run, by the names of the Agents SDK."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from baton.v1 import event_pb2, item_pb2, runner_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokensDetails:
    """Of the tokens read, those served from the provider's cache."""

    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTokensDetails:
    """Of the tokens written, those spent on reasoning."""

    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUsage:
    """Tokens of one reply, failed attempts before it included. `model`: that replied, as the provider names it."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: InputTokensDetails = field(default_factory=InputTokensDetails)
    output_tokens_details: OutputTokensDetails = field(default_factory=OutputTokensDetails)
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Requests and tokens of a run, as the provider reported them. `request_usage_entries`: those of each reply."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: InputTokensDetails = field(default_factory=InputTokensDetails)
    output_tokens_details: OutputTokensDetails = field(default_factory=OutputTokensDetails)
    request_usage_entries: tuple[RequestUsage, ...] = ()


class RunningUsage:
    """What a run has used so far, as its events tell. What runs use that are nested in nested ones is told at rest."""

    def __init__(self) -> None:
        self._parts: list[item_pb2.Usage] = []
        self._rounds: list[runner_pb2.RoundUsage] = []
        self._until = 0

    def begin(self, earlier: Iterable[item_pb2.Usage], until: int) -> None:
        """Take what was used before. `until`: the last event that is counted in it."""
        self._parts, self._until = list(earlier), until

    def take(self, event: event_pb2.Event) -> None:
        """Take an event of the run itself."""
        if event.sequence <= self._until:
            return
        match event.WhichOneof("event"):
            case "round_completed":
                done = event.round_completed
                self._parts.append(done.usage)
                self._rounds.append(runner_pb2.RoundUsage(round=event.round, model=done.model, usage=done.usage))
            case "nested_run_closed":
                self._parts.append(event.nested_run_closed.usage)
            case _:
                pass

    def so_far(self) -> Usage:
        """Sum it up."""
        return usage_from_pb(usage_sum(self._parts), self._rounds)


def usage_from_pb(usage: item_pb2.Usage, rounds: Iterable[runner_pb2.RoundUsage] = ()) -> Usage:
    """Read `baton.v1.Usage`. `rounds`: what each reply took, where it is known."""
    return Usage(
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=InputTokensDetails(cached_tokens=usage.cached_input_tokens),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
        request_usage_entries=tuple(_entry(one) for one in rounds),
    )


def usage_sum(usages: Iterable[item_pb2.Usage]) -> item_pb2.Usage:
    """Add up what the turns of one run took."""
    total = item_pb2.Usage()
    for usage in usages:
        total.requests += usage.requests
        total.input_tokens += usage.input_tokens
        total.cached_input_tokens += usage.cached_input_tokens
        total.output_tokens += usage.output_tokens
        total.reasoning_tokens += usage.reasoning_tokens
        total.total_tokens += usage.total_tokens
    return total


def _entry(told: runner_pb2.RoundUsage) -> RequestUsage:
    usage = told.usage
    return RequestUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=InputTokensDetails(cached_tokens=usage.cached_input_tokens),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
        model=told.model,
    )
