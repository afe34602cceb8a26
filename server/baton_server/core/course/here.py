"""Where a run stands, and what a stage may say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from baton_server.core.agents import Agent
from baton_server.core.commands import Command
from baton_server.core.recorder import Recorder
from baton_server.core.rules import Rules
from baton_server.core.run import Run
from baton_server.core.run_config import HistoryMode, RunConfig
from baton_server.core.state import TurnState

Move = Callable[[Recorder], None]
"""Something to be done now: it records at least one event."""

Next = Move | tuple[Command, ...] | None
"""What a stage says: a move, what is waited for, or nothing."""


@dataclass(frozen=True, slots=True)
class Here:
    """A run of a turn, and the rules by which it goes on."""

    state: TurnState
    run: Run
    rules: Rules

    @property
    def agent(self) -> Agent:
        """Give the agent that goes on."""
        return self.state.agent(self.run)

    @property
    def config(self) -> RunConfig:
        """Give the options of the turn."""
        return self.state.pinned.config

    @property
    def reads_history(self) -> bool:
        """Tell whether a hook that shows what the run goes on from needs the session's history."""
        return not self.run.path and self.config.mode is HistoryMode.SESSION
