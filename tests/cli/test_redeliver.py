"""`baton redeliver`, and what is shown of a call that nobody knows about."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.commands import House
from tests.support.scripted_model import calls, say
from tests.support.scripted_worker import ScriptedWorker, acked

from baton.v1 import handler_pb2, session_pb2

ONCE = [{"name": "pay", "execution": {"side_effects": handler_pb2.SIDE_EFFECTS_ONCE}}]


async def in_doubt(house: House) -> tuple[str, str]:
    """Bring a call into doubt: its worker dies over it. Returns session and call."""
    worker = await ScriptedWorker.attached(house.server.address, handlers=ONCE)
    session = await house.session("pay", key="user-7")
    await house.client.submit(session.session_id, "Pay.")
    call = await acked(worker)
    await worker.break_connection()
    await house.until(session.session_id, "effect_unknown")
    return session.session_id, call.call_id


async def test_it_has_the_call_delivered_again(tmp_path: Path) -> None:
    """The next worker gets it, flagged; the log keeps who said so."""
    async with House.opened(tmp_path, calls(("pay", "{}")), say("Paid."), registration_grace_s=0.05) as house:
        session_id, call_id = await in_doubt(house)

        ran = await house.baton("redeliver", "user-7", "pay", "--by", "ops")

        assert ran.out == f"{call_id} is delivered again\n"
        worker = await ScriptedWorker.attached(house.server.address, handlers=ONCE)
        call = await worker.expect("call")
        assert (call.call_id, call.attempt, call.may_have_run) == (call_id, 2, True)
        await worker.finish(call, output="paid")
        events = await house.until(session_id, "turn_completed")
        assert [event.effect_decided.decided_by for event in events if event.HasField("effect_decided")] == ["ops"]
        await worker.close()


async def test_a_call_that_is_in_no_doubt_is_refused(tmp_path: Path) -> None:
    """It says in which state the call is, and nothing changes."""
    async with House.opened(tmp_path, calls(("pay", "{}")), say("Paid.")) as house:
        waiting = await house.waiting("pay")

        ran = await house.baton("redeliver", waiting.session_id, waiting.call, code=1)

        assert "not EFFECT_UNKNOWN" in ran.err
        session = await house.client.get_session(waiting.session_id)
        assert [action.call_id for action in session.required_actions] == [waiting.call]


async def test_the_list_says_what_to_do_about_one(tmp_path: Path) -> None:
    """By which key to look, how to answer, and how to have it run again."""
    async with House.opened(tmp_path, calls(("pay", "{}")), registration_grace_s=0.05) as house:
        session_id, call_id = await in_doubt(house)

        ran = await house.baton("actions")

        assert "may have run, and it must not run twice" in ran.out
        assert f"baton redeliver {session_id} {call_id}" in " ".join(ran.out.split())


async def test_json_gives_the_outcome(tmp_path: Path) -> None:
    """One message of the contract."""
    async with House.opened(tmp_path, calls(("pay", "{}")), say("Paid."), registration_grace_s=0.05) as house:
        await in_doubt(house)

        ran = await house.baton("redeliver", "user-7", "pay", "--json")

        assert json.loads(ran.out)["status"] == session_pb2.InputStatus.Name(session_pb2.INPUT_STATUS_SETTLED)
