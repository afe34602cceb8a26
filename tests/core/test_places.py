"""The places of outputs in a nested run in which several calls wait for a decision."""

from dataclasses import replace

from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call

from baton_server.core import texts
from baton_server.core.agents import Agent
from baton_server.core.events import Decision, Event, ItemAdded
from baton_server.core.ids import item_id
from baton_server.core.inputs import CallSettled, DecisionMade, DecisionsMade
from baton_server.core.items import FunctionCallOutput, Item, Settlement, TextPart
from baton_server.core.responses import output_json
from baton_server.core.state import TurnState
from baton_server.core.tools import AgentTool, Approval

CAREFUL = replace(WEATHER, approval=Approval(always=True))
BOSS = Agent(name="Boss", tools=(AgentTool(name="ask_expert", agent="Expert"),))
EXPERT = Agent(name="Expert", tools=(CAREFUL, NOTE))


def waiting(calls: int) -> tuple[Turn, tuple[str, ...], list[str]]:
    """Brings a nested run to calls that somebody must allow; gives the turn, the run's path, the calls."""
    turn = Turn(agent=BOSS, others=(EXPERT,))
    turn.begin()
    turn.reply(call("ask_expert", '{"input":"Hi"}', id="a1"))
    path = (turn.call_ids()[0],)
    turn.reply(*(call(id=f"c{number}") for number in range(calls)), path=path)
    return turn, path, list(turn.open)


def outputs(turn: Turn, path: tuple[str, ...]) -> list[str]:
    """Reads the outputs of the nested run's next request."""
    return [item["output"] for item in turn.sent(path) if item.get("type") == "function_call_output"]


def test_what_is_allowed_one_by_one_stands_in_the_order_of_the_calls() -> None:
    """Though the last one ran first."""
    turn, path, (first, second, third) = waiting(3)

    for call_id, words in ((third, "three"), (first, "one"), (second, "two")):
        turn.decide(call_id)
        turn.settle(call_id, words)

    assert outputs(turn, path) == ["one", "two", "three"]


def test_a_rejection_has_the_run_go_on_with_what_was_decided_by_then() -> None:
    """What is still undecided stands behind that."""
    turn, path, (first, second, third) = waiting(3)

    turn.decide(third)
    turn.settle(third, "three")
    turn.decide(second, approve=False)
    turn.decide(first)
    turn.settle(first, "one")

    assert outputs(turn, path) == [texts.APPROVAL_REJECTED, "three", "one"]


def test_what_is_decided_at_once_stands_together() -> None:
    """A rejection and an approval in one breath leave nobody between them."""
    turn, path, (first, second, third, fourth) = waiting(4)

    turn.log += turn.runner.step(turn.state, DecisionsMade(made=(decision(first, approve=False), decision(third))))
    turn.settle(third, "three")
    for call_id, words in ((fourth, "four"), (second, "two")):
        turn.decide(call_id)
        turn.settle(call_id, words)

    assert outputs(turn, path) == [texts.APPROVAL_REJECTED, "three", "two", "four"]


def test_a_log_that_has_an_output_elsewhere_goes_on() -> None:
    """An earlier server gave places in the order of the decisions: no two items get one number."""
    turn, path, (first, second) = waiting(2)
    turn.decide(second)
    place = turn.state.calls[first].output_number
    earlier = Event(body=ItemAdded(item=output_of(second, path, place), in_history=False), turn_id="turn_0a", round=1)
    earlier = replace(earlier, run_path=path)
    state = TurnState.rebuilt(turn.created, turn.pinned, [*turn.log, earlier])

    made = [*turn.runner.step(state, decision(first)), *turn.runner.step(state, result(first))]

    given = [event.body.item for event in (earlier, *made) if isinstance(event.body, ItemAdded)]
    assert [item.body.call_id for item in given if isinstance(item.body, FunctionCallOutput)] == [second, first]
    assert len({item.item_id for item in given}) == 2


def decision(call_id: str, *, approve: bool = True) -> DecisionMade:
    """Says that somebody decides about a call."""
    return DecisionMade(decision=Decision(call_id=call_id, approve=approve))


def result(call_id: str) -> CallSettled:
    """Says what a call gave."""
    return CallSettled(call_id=call_id, settlement=Settlement.OUTPUT, output=(TextPart(text="so"),))


def output_of(call_id: str, path: tuple[str, ...], number: int) -> Item:
    """Makes the item of a call's output, with a number."""
    body = FunctionCallOutput(call_id=call_id, name="get_weather", output=(), settlement=Settlement.OUTPUT)
    return Item(
        item_id=item_id("turn_0a", number),
        turn_id="turn_0a",
        agent="Expert",
        run_path=path,
        json=output_json("c1", (TextPart(text="so"),)),
        body=body,
    )
