"""Tokens of a run, by the names of the Agents SDK."""

from __future__ import annotations

from dataclasses import dataclass, field

from baton.v1 import item_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokensDetails:
    """Of the tokens read, those served from the provider's cache."""

    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTokensDetails:
    """Of the tokens written, those spent on reasoning."""

    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Requests and tokens of a run, as the provider reported them."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: InputTokensDetails = field(default_factory=InputTokensDetails)
    output_tokens_details: OutputTokensDetails = field(default_factory=OutputTokensDetails)


def usage_from_pb(usage: item_pb2.Usage) -> Usage:
    """Read `baton.v1.Usage`."""
    return Usage(
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=InputTokensDetails(cached_tokens=usage.cached_input_tokens),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
    )
