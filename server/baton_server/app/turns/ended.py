"""States of turns that ended in this process a moment ago, for those who waited for that.

A turn's row proves its state: it is the right one as long as the row's version is that of the last commit here.
"""

from __future__ import annotations

from collections import OrderedDict

from baton_server.core.state import TurnState
from baton_server.ports.store import TurnRow

MAX_TURNS = 64
"""Turns that are kept: those whose callers are about to ask how they ended."""

MAX_CHARACTERS = 64 * 1024
"""Of all that a turn holds; a larger one is folded from the log again. All together stay within a few MiB."""


class EndedTurns:
    """The latest turns that ended here."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, tuple[int, TurnState]] = OrderedDict()

    def keep(self, row: TurnRow, state: TurnState) -> None:
        """Keep the state that a turn's last commit left, with the row that it left."""
        if _size(state) > MAX_CHARACTERS:
            return
        self._turns[row.turn_id] = (row.version, state)
        self._turns.move_to_end(row.turn_id)
        if len(self._turns) > MAX_TURNS:
            self._turns.popitem(last=False)

    def state(self, row: TurnRow) -> TurnState | None:
        """Find the state of a turn as the store has it now; None: fold it from the log."""
        version, state = self._turns.get(row.turn_id, (0, None))
        return state if version == row.version else None


def _size(state: TurnState) -> int:
    """Count the characters of a turn: its items as text and as values, what it ended with, and its agent."""
    agents = state.pinned.by_name.values()
    return (
        sum(2 * len(item.json) for item in state.items.values())
        + len(state.output or "")
        + sum(len(agent.instructions or "") for agent in agents)
        + sum(len(f.name) + len(f.description) + len(f.parameters_json) for agent in agents for f in agent.functions)
    )
