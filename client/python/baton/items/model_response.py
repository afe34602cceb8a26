"""What a model replied, reply by reply."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from baton.items.responses import RawItem
from baton.items.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """One reply. `output`: its items, as the Responses API writes them. `response_id`: the provider's; None: none."""

    output: list[RawItem]
    usage: Usage
    response_id: str | None

    def to_input_items(self) -> list[dict[str, Any]]:
        """Write them as input of another run."""
        return [copy.deepcopy(dict(item)) for item in self.output]
