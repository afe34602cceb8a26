"""What is about to be done beside a call whose failure ends its run keeps its output."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call
from tests.support.room import quiet

from baton_server.app.calls.leases import Leases
from baton_server.app.turns.beside import come
from baton_server.app.turns.turn import Driven, Mail
from baton_server.core.inputs import CallSettled
from baton_server.core.items import Settlement, TextPart
from baton_server.core.tools import FailureText

HARD = replace(WEATHER, on_crash=FailureText(fail_turn=True))


def mail(call_id: str, settlement: Settlement) -> Mail:
    """Bring what a call gave."""
    given = CallSettled(call_id=call_id, settlement=settlement, output=(TextPart(text="so"),))
    return Mail(given=given, counted=asyncio.get_running_loop().create_future())


def held(*call_ids: str) -> Leases:
    """Say which calls a worker holds."""
    kept = {call_id: SimpleNamespace(worker=object()) for call_id in call_ids}
    return cast(Leases, SimpleNamespace(get=kept.get))


def driven() -> tuple[Driven, Turn]:
    """Bring a turn to two calls, of which the first ends the run where it fails."""
    turn = Turn(functions=(HARD, NOTE))
    turn.begin()
    turn.reply(call(id="c1"), call("take_note", '{"text":"x"}', id="c2"))
    return Driven(turn_id="turn_0a", state=turn.state), turn


async def test_a_result_that_comes_a_moment_after_the_failure_is_fed_before_it() -> None:
    """It has taken effect, so that it belongs to the history."""
    one, turn = driven()
    first, second = turn.open
    one.mailbox.append(mail(first, Settlement.CRASH))
    coming = asyncio.ensure_future(come(one, turn.state, held(first, second)))
    await quiet(3)

    one.mailbox.append(mail(second, Settlement.OUTPUT))
    one.came.set()
    await coming

    assert [cast(CallSettled, each.given).call_id for each in one.mailbox] == [second, first]


async def test_a_failure_waits_for_nothing_that_nobody_holds() -> None:
    """Nor does a failure that is told to the model."""
    one, turn = driven()
    first, second = turn.open
    one.mailbox.append(mail(first, Settlement.CRASH))
    alone = asyncio.ensure_future(come(one, turn.state, held(first)))
    await quiet(1)

    soft = Driven(turn_id="turn_0a", state=turn.state, mailbox=[mail(second, Settlement.CRASH)])
    told = asyncio.ensure_future(come(soft, turn.state, held(first, second)))
    await quiet(1)

    assert alone.done()
    assert told.done()
