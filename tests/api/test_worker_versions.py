"""Versions of a function stand side by side."""

from __future__ import annotations

from typing import Any

from tests.api.calling import kinds
from tests.support.stage import ANY_OBJECT, Stage

from baton.v1 import error_pb2, session_pb2

CITY = '{"type":"object","properties":{"city":{"type":"string"}}}'
PLACE = '{"type":"object","properties":{"place":{"type":"string"}}}'


def f(version: str, parameters_json: str = "", **said: Any) -> list[dict[str, Any]]:
    """Declare one version of f."""
    return [{"name": "f", "version": version, "parameters_json": parameters_json, **said}]


async def test_the_newest_version_that_somebody_can_take_is_called(stage: Stage) -> None:
    """A rollout moves calls to the new version as soon as it is there, and back while it is busy."""
    old = await stage.worker(handlers=f("1"))
    await stage.call("f")
    assert (await old.expect("call")).version == "1"
    new = await stage.worker(handlers=f("2"), credit=1)

    await stage.call("f")
    assert (await new.expect("call")).version == "2"
    await stage.call("f")

    assert (await old.expect("call")).version == "1"
    await new.nothing()


async def test_one_worker_may_serve_several_versions(stage: Stage) -> None:
    """And unregisters them one by one."""
    worker = await stage.worker(handlers=[*f("1", CITY), *f("2", PLACE)])
    assert [(one.name, one.version, one.HasField("error")) for one in worker.welcome.handlers] == [
        ("f", "1", False),
        ("f", "2", False),
    ]
    await stage.call("f")
    assert (await worker.expect("call")).version == "2"

    await worker.send(unregister={"handlers": [{"name": "f", "version": "2"}]})
    await worker.nothing()
    await stage.call("f")

    assert (await worker.expect("call")).version == "1"


async def test_one_version_means_one_set_of_parameters(stage: Stage) -> None:
    """Another one is refused for that version alone; beside it, it is welcome."""
    await stage.worker(handlers=f("1", CITY))

    worker = await stage.worker(handlers=[*f("1", PLACE), *f("2", PLACE)])

    bad, fine = worker.welcome.handlers
    assert bad.error.reason == error_pb2.ERROR_REASON_HANDLER_CONFLICT
    assert dict(bad.error.metadata) == {"name": "f", "scope": "", "version": "1"}
    assert not fine.HasField("error")


async def test_a_turn_stays_with_the_version_whose_parameters_it_took(stage: Stage) -> None:
    """Arguments that were made for one schema do not reach a handler of another."""
    old = await stage.worker(handlers=f("1", CITY), credit=1)
    turn = await stage.turn([("f", "{}")], [("f", "{}")], tools=[{"function": {"name": "f"}}])
    first = await old.expect("call")
    new = await stage.worker(handlers=f("2", PLACE))

    await old.finish(first)
    await turn.until("session_requires_action", times=2)

    await new.nothing()
    assert await turn.state() == "QUEUED"
    asked = session_pb2.GetTurnRequest(session_id=turn.session_id, turn_id=turn.turn_id, with_pinned=True)
    (tool,) = (await stage.client.sessions.GetTurn(asked)).agent.tools
    assert tool.function.handler_version == "1"
    await old.send(credit={"messages": 1})
    await old.finish(await old.expect("call"))
    await turn.completed()


async def test_a_call_of_a_version_that_nobody_serves_waits_for_it(stage: Stage) -> None:
    """It is as unserved as one whose name nobody serves, also for whoever runs the agent until it rests."""
    other = await stage.worker(handlers=f("1"))
    tools = [{"function": {"name": "f", "parameters_json": ANY_OBJECT, "handler_version": "7"}}]
    text, agent = stage.script([("f", "{}")], tools=tools)

    answer = await stage.client.run(agent=agent, text=text)

    (action,) = answer.required_actions
    assert action.state == 3  # UNSERVED
    await other.nothing()
    right = await stage.worker(handlers=f("7"))
    call = await right.expect("call")
    assert (call.call_id, call.version) == (action.call_id, "7")
    await right.finish(call)
    assert "turn_completed" in kinds(await stage.client.rest(answer.session_id))
