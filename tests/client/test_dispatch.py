"""Why a call does not run, who is attached, and what somebody says about a call of unknown effect."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from tests.client.scripted import Failing, ScriptedServer, soon
from tests.client.turns import answer

import baton
from baton import Agent, Client, Runner, function_tool
from baton.v1 import event_pb2, handler_pb2, session_pb2


async def test_workers_are_listed_page_by_page(server: ScriptedServer) -> None:
    """With the filters of the question on each page."""

    def answer(request: handler_pb2.ListWorkersRequest) -> handler_pb2.ListWorkersResponse:
        last = request.page_token == "2"
        worker = handler_pb2.Worker(worker_id="worker_1" if last else "worker_2")
        return handler_pb2.ListWorkersResponse(workers=[worker], next_page_token="" if last else "2")

    server.handlers.answers = {"ListWorkers": answer}

    found = [worker.worker_id async for worker in Client().workers(name="pay", scope="")]

    assert found == ["worker_2", "worker_1"]
    assert [(one.name, one.HasField("scope")) for one in server.handlers.requests] == [("pay", True)] * 2
    assert [worker async for worker in Client().workers()]
    assert not server.handlers.requests[-1].HasField("scope")


async def test_a_call_is_explained(server: ScriptedServer) -> None:
    """In the server's words."""
    cause = handler_pb2.Cause(kind=handler_pb2.CAUSE_KIND_NO_WORKER, text="nobody serves pay")
    server.handlers.answers = {"ExplainCall": lambda request: handler_pb2.ExplainCallResponse(causes=[cause])}

    explained = await soon(Client().explain("call_7"))

    assert [one.text for one in explained.causes] == ["nobody serves pay"]
    assert server.handlers.requests[0].call_id == "call_7"


async def test_a_call_of_unknown_effect_is_delivered_again(server: ScriptedServer) -> None:
    """Under the ids of the required action, with who said so."""
    outcome = session_pb2.InputOutcome(status=session_pb2.INPUT_STATUS_SETTLED)
    server.sessions.answers = {"SubmitInput": lambda _request: session_pb2.SubmitInputResponse(outcomes=[outcome])}
    action = event_pb2.RequiredAction(session_id="sess_1", turn_id="turn_1", call_id="call_1")

    assert await soon(Client().redeliver(action, decided_by="ann")) == outcome

    (request,) = server.sessions.requests
    redelivery = session_pb2.Redelivery(turn_id="turn_1", call_id="call_1", decided_by="ann")
    assert (request.session_id, list(request.inputs)) == ("sess_1", [session_pb2.Input(redelivery=redelivery)])
    assert request.request_id


async def test_a_call_that_is_in_another_state_by_now_is_an_error(server: ScriptedServer) -> None:
    """Somebody else was faster."""

    def refuse(_request: object) -> None:
        raise Failing(grpc.StatusCode.FAILED_PRECONDITION, "CALL_STATE", state="LEASED")

    server.sessions.answers = {"SubmitInput": refuse}
    action = event_pb2.RequiredAction(session_id="sess_1", turn_id="turn_1", call_id="call_1")

    with pytest.raises(baton.StateError) as caught:
        await soon(Client().redeliver(action))

    assert (caught.value.reason, caught.value.metadata) == ("CALL_STATE", {"state": "LEASED"})


async def test_a_run_that_rests_with_a_call_of_unknown_effect_says_so(server: ScriptedServer) -> None:
    """Also where its function is this process's own: to wait for a worker would change nothing."""

    @function_tool(side_effects="once")
    def pay() -> str:
        return "paid"

    action = event_pb2.RequiredAction(
        call_id="call_1", name="pay", state=event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN, idempotency_key="k"
    )
    response = answer(required_actions=[action])
    response.turn.status = event_pb2.TURN_STATUS_WAITING

    async def on_run(_request: object) -> object:
        return response

    server.runner.on_run = on_run  # type: ignore[assignment]
    running = asyncio.create_task(Runner.run(Agent(name="A", tools=[pay]), "Pay!"))
    await server.attached()

    with pytest.raises(baton.EffectUnknownError, match="pay took effect") as caught:
        await soon(running)
    assert [one.idempotency_key for one in caught.value.required_actions] == ["k"]
    assert not caught.value.retryable and len(server.runner.requests) == 1
