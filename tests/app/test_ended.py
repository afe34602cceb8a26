"""States of turns that ended here: given back only while the turn's row proves them, and never many."""

from __future__ import annotations

from dataclasses import replace

from baton_server.app.turns.ended import MAX_CHARACTERS, MAX_TURNS, EndedTurns
from baton_server.core.agents import Agent
from baton_server.core.events import TurnSnapshot, TurnStatus
from baton_server.core.items import Item, ItemStatus, Message, Role
from baton_server.core.run_config import Pinned, RunConfig
from baton_server.core.state import TurnState
from baton_server.core.tools import FunctionTool
from baton_server.ports.store import TurnRow


def row(turn_id: str = "turn_1", version: int = 3) -> TurnRow:
    """Make the row of an ended turn."""
    return TurnRow(
        turn_id=turn_id,
        session_id="session_1",
        status=TurnStatus.COMPLETED,
        snapshot=b"",
        agent_digest="a",
        config_digest="c",
        request_id="r",
        version=version,
    )


def state(text: str = "{}") -> TurnState:
    """Make the state of a turn with one item of some JSON text."""
    snapshot = TurnSnapshot(
        turn_id="turn_1",
        session_id="session_1",
        status=TurnStatus.COMPLETED,
        agent="a",
        last_agent="a",
        agent_digest="a",
        run_config_digest="c",
        request_id="r",
    )
    made = TurnState.of(snapshot, Pinned(agent=Agent(name="a"), config=RunConfig()))
    made.items[0] = Item(
        item_id="item_1_000000",
        turn_id="turn_1",
        agent="a",
        status=ItemStatus.COMPLETED,
        json=text,
        body=Message(role=Role.ASSISTANT, content=()),
    )
    return made


def test_state_is_given_back_while_the_row_is_as_it_was_left() -> None:
    """What was kept is the state that a rebuild would give; a row of another version asks for the rebuild."""
    ended, kept = EndedTurns(), state()
    ended.keep(row(), kept)

    assert ended.state(row()) is kept
    assert ended.state(replace(row(), version=4)) is None
    assert ended.state(row("turn_2")) is None
    assert ended.state(row("turn_2", version=0)) is None


def test_large_turns_are_not_kept() -> None:
    """A turn of long texts is read from the store again, so that the server does not hold it."""
    ended = EndedTurns()
    ended.keep(row(), state("x" * (MAX_CHARACTERS + 1)))

    assert ended.state(row()) is None


def test_only_the_latest_are_kept() -> None:
    """However many turns end, the server holds a bounded number of them."""
    ended = EndedTurns()
    for number in range(MAX_TURNS + 1):
        ended.keep(row(f"turn_{number}"), state())

    assert ended.state(row("turn_0")) is None
    assert ended.state(row("turn_1")) is not None
    assert ended.state(row(f"turn_{MAX_TURNS}")) is not None


def test_all_that_a_turn_holds_counts() -> None:
    """Its agent and its output too: a turn of few words may run with an agent of many."""
    long = "x" * MAX_CHARACTERS
    agents = (
        Agent(name="a", instructions=long),
        Agent(name="a", tools=(FunctionTool(name="f", parameters_json=long),)),
        Agent(name="a", tools=(FunctionTool(name="f", description=long),)),
    )
    large = [replace(state(), pinned=Pinned(agent=agent, config=RunConfig())) for agent in agents]
    large.append(replace(state(), output=long))
    ended = EndedTurns()

    for made in large:
        ended.keep(row(), made)
        assert ended.state(row()) is None
