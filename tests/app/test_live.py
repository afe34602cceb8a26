"""The text that is being written: once its round is over, nothing more of it goes out by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from baton_server.app.runtime import Limits
from baton_server.app.turns.live import LiveRound
from baton_server.app.turns.turn import Driven, UnderWay
from baton_server.ports.bus import Part, Place
from baton_server.ports.model import TextDelta
from baton_server.wire.stream import ProtoParts

INTERVAL_S = 0.01


def live_round(emitted: list[Part]) -> LiveRound:
    """Make a round that has published a fragment and holds the next one back."""
    live = LiveRound(
        at=Place(turn_id="turn_1", round=1, model_attempt=1, item_id="", output_index=0, part_index=0, offset=0),
        first_number=0,
        parts=ProtoParts(),
        limits=Limits(delta_interval_s=INTERVAL_S),
        emit=emitted.extend,
        heard=lambda: True,
    )
    for word in ("one ", "two "):
        live.add(TextDelta(output_index=0, part_index=0, text=word))
    assert len(emitted) == 1
    return live


async def interval_passed() -> None:
    """Wait until every timer has fired that was set for the interval."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(2 * INTERVAL_S, passed.set)
    await asyncio.wait_for(passed.wait(), 10)


async def test_what_is_held_back_goes_out_after_the_interval() -> None:
    """As long as the round goes on."""
    emitted: list[Part] = []
    live_round(emitted)

    await interval_passed()

    assert len(emitted) == 2


def _let_go(live: LiveRound) -> None:
    asking = asyncio.ensure_future(asyncio.Event().wait())
    under_way = UnderWay(round=1, task=asking, live=live)
    Driven(turn_id="turn_1", requests={(): under_way}).let_go()


@pytest.mark.parametrize("end", [LiveRound.stop, _let_go], ids=["stopped", "its turn is let go"])
async def test_what_was_stopped_sends_nothing_more(end: Callable[[LiveRound], None]) -> None:
    """A fragment behind the end of its turn would belong to no message; the text so far is still to be had."""
    emitted: list[Part] = []
    live = live_round(emitted)

    end(live)
    live.add(TextDelta(output_index=0, part_index=0, text="three"))
    await interval_passed()

    assert len(emitted) == 1
    assert live.text() == "one two "
