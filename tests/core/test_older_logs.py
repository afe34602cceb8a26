"""Logs of older versions, which numbered some items otherwise: a turn goes on from them all the same."""

from dataclasses import replace

from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call

from baton_server.core import ids
from baton_server.core.events import Event, ItemAdded
from baton_server.core.inputs import CallSettled
from baton_server.core.items import FunctionCallOutput, Settlement, TextPart
from baton_server.core.state import TurnState
from baton_server.core.tools import Approval

ASKS = Approval(always=True)


def renumbered(event: Event, number: int) -> Event:
    """Gives the item of an event another number."""
    assert isinstance(event.body, ItemAdded)
    item = replace(event.body.item, item_id=ids.item_id(event.turn_id, number))
    return replace(event, body=replace(event.body, item=item))


def test_an_output_never_gets_the_number_that_an_older_log_gave_to_another() -> None:
    """Once an output also moved where its call had been decided about before it was asked about."""
    turn = Turn(functions=(replace(WEATHER, approval=ASKS), replace(NOTE, approval=ASKS)))
    turn.begin()
    turn.reply(call(id="c1"))
    turn.decide(turn.open[0], always=True)
    turn.settle(turn.open[0])
    turn.reply(call(id="c2"), call("take_note", '{"text":"x"}', id="c3"))
    before, after = turn.open
    turn.decide(after)
    number = turn.state.calls[after].output_number
    turn.settle(before)
    assert isinstance(turn.log[-1].body, ItemAdded)

    old = TurnState.rebuilt(turn.created, turn.pinned, [*turn.log[:-1], renumbered(turn.log[-1], number)])
    given = CallSettled(call_id=after, settlement=Settlement.OUTPUT, output=(TextPart(text="noted"),))
    events = turn.runner.step(old, given)

    numbers = [ids.number_of(event.body.item.item_id) for event in events if isinstance(event.body, ItemAdded)]
    assert number not in numbers
    outputs = [item.body for item in old.items_of(old.own) if isinstance(item.body, FunctionCallOutput)]
    assert [output.call_id for output in outputs][-2:] == [before, after]
    assert old.calls[before].output_number == number
