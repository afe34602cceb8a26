"""One long turn with a bit of everything, and all of it as one text. Run as a program, it prints the text."""

import json
from dataclasses import asdict

from tests.core.driving import Turn
from tests.core.making import call, hosted, say, think

from baton_server.core.events import CancelMode
from baton_server.core.inputs import CallsUnheld, GraceOver
from baton_server.core.items import Settlement
from baton_server.core.run_config import RunConfig


def story() -> Turn:
    """Tells it: four rounds, good and bad calls, a lost worker, a steered message, two cancels."""
    turn = Turn(config=RunConfig(unlimited_turns=True))
    turn.begin("Weather in Kyoto, Oslo and Bergen?")
    turn.reply(think(), hosted())
    turn.reply(say("Looking."), *(call(id=f"c{n}") for n in range(3)), call(arguments="{", id="bad"))
    first, second, third = turn.open
    turn.settle(third, "sun")
    turn.lose(first, may_retry=True)
    turn.lose(first, 2, may_retry=False)
    turn.settle(second, "no idea", Settlement.FAILURE, attempt=1, worker_id="worker_1")
    turn.steer("And in Tromsø 🌦?")
    turn.reply(call(id="c4"), call(id="c4"), call("take_note", "", id="c5"), call("take_note", "{}", id="c6"))
    turn.cancel(CancelMode.AFTER_ROUND)
    turn.feed(CallsUnheld(call_ids=(turn.open[1],)))
    turn.settle(turn.open[0], "snow")
    turn.cancel(CancelMode.NOW)
    turn.feed(GraceOver())
    return turn


def told(turn: Turn) -> str:
    """Writes its events and its state as one line of JSON, key order kept."""
    events = [[type(event.body).__name__, asdict(event)] for event in turn.log]
    state = {name: repr(getattr(turn.state, name)) for name in ("status", "usage", "items", "calls")}
    return json.dumps([events, state], default=str)


if __name__ == "__main__":
    print(told(story()))
