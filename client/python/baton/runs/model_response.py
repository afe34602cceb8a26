"""What a model replied, reply by reply."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from baton.runs.run_items import Reply
from baton.runs.usage import Usage, usage_from_pb
from baton.server.responses import RawItem
from baton.v1 import runner_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """One reply. `output`: its items, as the Responses API writes them. `response_id`: the provider's; None: none."""

    output: list[RawItem]
    usage: Usage
    response_id: str | None

    def to_input_items(self) -> list[dict[str, Any]]:
        """Write them as input of another run."""
        return [copy.deepcopy(dict(item)) for item in self.output]


def model_responses(replies: Iterable[Reply], rounds: Sequence[runner_pb2.RoundUsage]) -> list[ModelResponse]:
    """Put replies and what each took together, both in order. A message that no model wrote has no round, and is none.

    A round whose reply held nothing, such as an empty final output, has no items.
    """
    made = []
    for told, reply in zip_longest(rounds, replies):
        if told is None:
            break
        made.append(
            ModelResponse(
                output=[item.raw_item for item in reply.items] if reply is not None else [],
                usage=usage_from_pb(told.usage),
                response_id=told.response_id or None,
            )
        )
    return made
