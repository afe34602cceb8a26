"""Turns that wait for people outlive servers and the time after which their sessions go; they are not deleted."""

from __future__ import annotations

from typing import Any

from tests.api.approvals import APPROVE, decide, status, undecided
from tests.api.calling import fresh, refused, sweeper_at
from tests.support.stage import Stage, Turn

from baton.v1 import session_pb2

DAY_S = 24 * 3600.0


def pausing(**approval: Any) -> list[dict[str, Any]]:
    """Make the tool whose calls must be allowed."""
    rule = {"always": True, **approval}
    return [{"function": {"name": "f", "parameters_json": '{"type":"object"}', "needs_approval": rule}}]


async def paused(stage: Stage, *, session: dict[str, Any] | None = None, **approval: Any) -> Turn:
    """Start a turn that waits for a decision."""
    text, agent = stage.script([("f", "{}")], tools=pausing(**approval))
    made = await stage.client.session(agent=agent, **(session or {}))
    answer = await stage.client.submit(made.session_id, text)
    turn = Turn(stage.client, made.session_id, answer.turn_id)
    await turn.waiting()
    return turn


async def test_a_session_whose_turn_waits_for_a_decision_is_not_deleted(stage: Stage) -> None:
    """Nobody knows yet that it ended: it is refused; once the turn is cancelled it goes."""
    turn = await paused(stage)
    request = session_pb2.DeleteSessionRequest(request_id=fresh(), session_id=turn.session_id)

    busy = await refused(stage.client.sessions.DeleteSession(request))
    waiting = await undecided(stage.client, turn.session_id)
    await turn.cancel()
    await turn.ended()
    await stage.client.sessions.DeleteSession(request)
    gone = await refused(stage.client.get(turn.session_id))

    assert busy.reason == "TURN_RUNNING"
    assert len(waiting) == 1
    assert gone.reason == "SESSION_NOT_FOUND"


async def test_a_session_whose_turn_waits_for_a_decision_does_not_expire(stage: Stage) -> None:
    """However long nobody decides; when the turn has ended, its life begins anew, and ends."""
    turn = await paused(stage, session={"expires_after": {"seconds": 60}})

    await sweeper_at(stage.baton, DAY_S).sweep()
    (action,) = await undecided(stage.client, turn.session_id)
    decided = await decide(stage.client, action, APPROVE)
    worker = await stage.worker("f")
    await worker.finish(await worker.expect("call"))
    await turn.completed()
    await sweeper_at(stage.baton, 30.0).sweep()
    kept = await stage.client.get(turn.session_id)
    await sweeper_at(stage.baton, DAY_S).sweep()
    gone = await refused(stage.client.get(turn.session_id))

    assert status(decided) == "SETTLED"
    assert kept.session_id == turn.session_id
    assert gone.reason == "SESSION_NOT_FOUND"


async def test_the_time_for_a_decision_is_counted_over_restarts(stage: Stage) -> None:
    """A part of it passes before and a part after; until it is over, the call waits."""
    turn = await paused(stage, expires={"seconds": 60})
    stage.pass_time(40)
    before = await undecided(stage.client, turn.session_id)
    passed = stage.clock.wall()

    await stage.restart()
    stage.clock.advance(passed - stage.clock.wall())
    stage.pass_time(19)
    still = await undecided(stage.client, turn.session_id)
    stage.pass_time(2)

    (decided,) = [
        event.approval_decided
        for event in await stage.again(turn).until("approval_decided")
        if event.HasField("approval_decided")
    ]
    assert [action.call_id for action in before] == [action.call_id for action in still]
    assert before[0].expires_at == still[0].expires_at
    assert decided.error.metadata["call_id"] == still[0].call_id


async def test_a_grant_for_the_session_stands_after_a_restart(stage: Stage) -> None:
    """A turn of the next server needs nobody; another session's call still waits."""
    turn = await paused(stage)
    (action,) = await undecided(stage.client, turn.session_id)
    await decide(stage.client, action, APPROVE, always_in_session=True, decided_by="anna")
    worker = await stage.worker("f")
    await worker.finish(await worker.expect("call"))
    await turn.completed()

    await stage.restart()
    text, _ = stage.script([("f", "{}")])
    answer = await stage.client.submit(turn.session_id, text)
    worker = await stage.worker("f")
    await worker.finish(await worker.expect("call"))
    later = Turn(stage.client, turn.session_id, answer.turn_id)
    await later.completed()
    other = await paused(stage)

    (granted,) = await later.told("approval_decided")
    assert (granted.decision.decided_by, granted.decision.call_id != action.call_id) == ("anna", True)
    assert len(await undecided(stage.client, other.session_id)) == 1
