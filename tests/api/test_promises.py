"""Promises at the edges of one another: decisions beside decisions, calls of one key, turns that follow others."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tests.api.approvals import APPROVE, KYOTO, NARA, REJECT, decide, decision, guarded, status, undecided
from tests.api.calling import WEATHER, attach, helper, soon, told
from tests.api.conftest import Serve
from tests.api.programs import programs
from tests.api.test_continues import asked, continues, exhausted
from tests.support.faulty_store import FaultyStore
from tests.support.scripted_model import Gate, calls, say
from tests.support.stage import Stage, eventually

from baton.v1 import agent_pb2, error_pb2
from baton_server.engine.clock import SystemClock
from baton_server.ports.store import Batch, Store


class Hasty(SystemClock):
    """A clock by which every pause is short."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a fiftieth of the time."""
        await super().sleep(seconds / 50)


async def test_a_decision_about_one_call_holds_against_one_about_all(serve: Serve) -> None:
    """Whoever allows a function for good and rejects one call of it has rejected that one."""
    served = await serve(calls(KYOTO, NARA))
    worker = await attach(served.client, "get_weather")
    answer = await served.client.run(agent=guarded("get_weather"))
    kyoto, nara = answer.required_actions

    await served.client.submit(answer.session_id, decision(kyoto, APPROVE, always=True), decision(nara, REJECT))

    assert (await soon(worker.read())).call.call_id == kyoto.call_id
    made = {one.decision.call_id: one.decision.verdict for one in told(await _log(served, answer), "approval_decided")}
    assert made == {kyoto.call_id: APPROVE, nara.call_id: REJECT}


async def test_a_decision_that_was_acknowledged_holds_against_the_end_of_its_time(stage: Stage) -> None:
    """Also where the end was about to be written when the decision came."""
    rule = {"always": True, "expires": {"seconds": 60}}
    tool = {"function": {"name": "f", "parameters_json": '{"type":"object"}', "needs_approval": rule}}
    turn = await stage.turn([("f", "{}")], tools=[tool])
    await turn.waiting()
    (action,) = await turn.actions()
    came, go = stage.store.hold(lambda batch: _of_turn(batch) and bool(batch.events))
    stage.pass_time(61)
    await soon(came.wait())

    outcome = await decide(stage.client, action, APPROVE)
    go.set()

    (decided,) = told(await turn.until("approval_decided"), "approval_decided")
    assert status(outcome) == "SETTLED"
    assert (decided.decision.verdict, decided.HasField("error")) == (APPROVE, False)


async def test_no_call_runs_before_somebody_was_asked_about_it(serve: Serve) -> None:
    """Nor one that waits behind another one of its key, once that is rejected."""
    execution = {"idempotency_fields": ["/city"]}
    rule = {"hook": {"name": "ask"}}
    function = {"name": "get_weather", "parameters_json": WEATHER, "needs_approval": rule, "execution": execution}
    served = await serve(calls(KYOTO, KYOTO), say("Nothing then."))
    ran: list[Any] = []

    def run(given: Any) -> str:
        ran.append(given)
        return "18"

    ask = {"NEEDS_APPROVAL:ask": lambda _: {"needs_approval": True}}
    async with programs(served.client, functions={"get_weather": run}, hooks=ask):
        answer = await served.client.run(agent=agent_pb2.Agent(name="Helper", tools=[{"function": function}]))
        first, second = answer.required_actions
        await decide(served.client, first, REJECT)
        assert [one.call_id for one in await undecided(served.client, answer.session_id)] == [second.call_id]
        await decide(served.client, second, REJECT)
        await served.client.rest(answer.session_id)

    assert ran == []


async def test_a_message_that_a_continuing_turn_left_behind_finds_the_whole_history(serve: Serve) -> None:
    """Its own turn goes on from no other one: it has the session's history."""
    gate = Gate()
    served = await serve(calls(KYOTO), say("18.", gate), say("Nara too."))
    old = await exhausted(served.client)
    await served.client.submit(old.session_id, continues(old.turn.turn_id))
    await gate.reached()

    await served.client.submit(old.session_id, "And Nara?")
    gate.open()
    events = await served.client.rest(old.session_id)

    seen = [asked(item) for item in served.model.input_of(2)]
    assert seen == ["What is it?", "function_call", "function_call_output", "message", "And Nara?"]
    assert told(events, "turn_created")[-1].turn.continues == ""


async def test_a_request_of_a_nested_run_that_has_ended_is_given_up(serve: Serve) -> None:
    """A guardrail stopped the run while the model was writing for it; the turn goes on."""
    gate, last = Gate(), Gate()
    served = await serve(calls(("ask_inner", '{"input":"x"}')), say("thinking", gate), say("Done.", last))
    inner = {"name": "Inner", "input_guardrails": [{"name": "no", "hook": {"name": "judge"}}]}
    tool = {"agent": {"agent": "Inner", "tool_name": "ask_inner"}}
    agent = agent_pb2.Agent(name="Helper", tools=[tool], agents=[inner])

    async with programs(served.client, hooks={"INPUT_GUARDRAIL:judge": lambda _: {"tripped": True}}):
        running = asyncio.ensure_future(served.client.run(agent=agent))
        await last.reached()
        await eventually(lambda: served.model.closed == 1)
        last.open()
        answer = await running

    assert answer.turn.output == "Done."


async def test_what_can_never_be_asked_ends_its_turn(serve: Serve) -> None:
    """Over a fault of the server that stays nobody waits for ever; the error says where to look."""
    made: list[FaultyStore] = []

    def around(store: Store) -> Store:
        made.append(FaultyStore(store))
        return cast(Store, made[0])

    served = await serve(say("Done."), clock=Hasty(), around_store=around)
    made[0].fail("items.history", times=99, error=RuntimeError("as the test says"))
    filters = [{"hook": {"name": "ask"}}]
    session = await served.client.session(agent=helper(), run_config={"model_input_filters": filters})

    await served.client.submit(session.session_id, "Hi")
    events = await served.client.rest(session.session_id)

    (failed,) = told(events, "turn_failed")
    assert failed.turn.error.reason == error_pb2.ERROR_REASON_INTERNAL
    assert failed.turn.error.metadata["error_id"] in failed.turn.error.message


def _of_turn(batch: Batch) -> bool:
    return batch.turn is not None and batch.request is None


async def _log(served: Any, answer: Any) -> list[Any]:
    return list(await served.client.events(answer.session_id))
