"""What filters of handoffs get, as the Agents SDK writes it: items of the run, with their agents."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from baton.context.run_context import RunContextWrapper
from baton.errors import UserError
from baton.hooks.data import HandoffFilterData
from baton.items.raw_run_items import run_items_of
from baton.items.run_items import RunItem


@dataclass(frozen=True)
class HandoffInputData:
    """What the receiver of a handoff is to see. A filter returns another one: `data.clone(new_items=())`.

    `input_history`: Responses API items from before the run. `pre_handoff_items`: of its rounds before this one.
    `new_items`: of this round, the handoff included. `input_items`: what the receiver is sent in place of `new_items`,
    which then stay in the history alone; None: those.
    """

    input_history: str | tuple[Any, ...]
    pre_handoff_items: tuple[RunItem, ...]
    new_items: tuple[RunItem, ...]
    run_context: RunContextWrapper[Any] | None = None
    input_items: tuple[RunItem, ...] | None = None

    def clone(self, **changes: Any) -> HandoffInputData:
        """Copy it with some fields changed."""
        return dataclasses.replace(self, **changes)


def filter_arguments(data: HandoffFilterData[Any]) -> tuple[Any, ...]:
    """Make what a filter is called with. Raises UserError in a worker, which knows no agents."""
    agent = data.agent
    if agent is None:
        raise UserError("a handoff input filter of run items needs the run's agents; serve it as a hook in a Worker")
    names = {way.get_tool_name(): way.agent for one in data.agents.values() for way in one.ways_out()}
    both = run_items_of([*data.pre_handoff_items, *data.new_items], agent, names)
    before = len(data.pre_handoff_items)
    given = HandoffInputData(
        input_history=tuple(data.input_history),
        pre_handoff_items=tuple(both[:before]),
        new_items=tuple(both[before:]),
        run_context=data,
    )
    return (given,)


def filter_answer(data: HandoffFilterData[Any], said: Any) -> HandoffFilterData[Any]:
    """Take what a filter returned. Raises UserError where that is no HandoffInputData."""
    if not isinstance(said, HandoffInputData):
        raise UserError(f"a handoff input filter must return a HandoffInputData, not {said!r}"[:500])
    history = said.input_history
    plain = [{"role": "user", "content": history}] if isinstance(history, str) else list(history)
    return dataclasses.replace(
        data,
        input_history=plain,
        pre_handoff_items=_raw(said.pre_handoff_items),
        new_items=_raw(said.new_items),
        input_items=None if said.input_items is None else _raw(said.input_items),
    )


def _raw(items: Iterable[Any]) -> list[Any]:
    return [getattr(item, "raw_item", item) for item in items]
