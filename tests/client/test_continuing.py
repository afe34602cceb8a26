"""Runs that ended early and go on: in a new turn, with what the first one made before what it makes now."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from tests.client.old_turn import OldTurn
from tests.client.scripted import Failing, ScriptedServer, soon
from tests.client.turns import answer, call, failed, message, output, undecided, waiting

import baton
from baton import Agent, Runner, RunResult
from baton.v1 import error_pb2, event_pb2, runner_pb2, session_pb2

AGENT: Agent[Any] = Agent(name="Assistant")


async def paused(server: ScriptedServer) -> RunResult:
    """Run up to where it waits for a decision."""

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        return waiting(call("a"), actions=[undecided("a")])

    server.runner.on_run = run
    return await soon(Runner.run(AGENT, "Weather?"))


async def test_a_run_that_reached_its_limit_goes_on_in_a_new_turn(server: ScriptedServer) -> None:
    """With another limit where one is given; what it made before stands before what it makes now."""
    requests: list[runner_pb2.RunRequest] = []
    ended = failed(error_pb2.ERROR_REASON_MAX_TURNS_EXCEEDED, call("a", 1), output("x", 1), max_turns="1")

    async def run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        requests.append(request)
        if not request.HasField("continues"):
            return ended
        made = answer(message("Done.", 5, output_index=0), text="Done.")
        made.turn.turn_id = "turn_2"
        return made

    server.runner.on_run = run
    with pytest.raises(baton.MaxTurnsExceeded) as caught:
        await soon(Runner.run(AGENT, "Weather?", max_turns=1))
    turn = OldTurn(server)
    turn.items, turn.turn = [call("a", 1), output("x", 1)], ended.turn
    assert caught.value.run_data is not None
    state = caught.value.run_data.to_state()
    state.add_input("Hurry.")

    result = await soon(Runner.run(AGENT, state, max_turns=3))

    again = requests[-1]
    assert again.session_id == "sess_1" and not again.HasField("agent") and not again.HasField("run_config")
    assert again.continues == session_pb2.ContinueInput(turn_id="turn_1", max_turns=3)
    assert json.loads(again.items_json) == [{"role": "user", "content": "Hurry."}]
    assert [item.type for item in result.new_items] == [
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]
    assert (result.final_output, result.turn_id, result.input) == ("Done.", "turn_2", "Weather?")
    assert result.usage.requests == 2 + 2
    assert turn.submitted == []
    assert result.to_state().position.earlier == ("turn_1",)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, session_pb2.ContinueInput(turn_id="turn_1")),
        ({"max_turns": None}, session_pb2.ContinueInput(turn_id="turn_1", unlimited_turns=True)),
    ],
)
async def test_the_old_limit_holds_unless_another_one_is_said(
    server: ScriptedServer, options: dict[str, Any], expected: session_pb2.ContinueInput
) -> None:
    """None lifts it, as where a run begins."""
    result = await paused(server)
    turn = OldTurn(server)
    turn.turn.status = event_pb2.TURN_STATUS_CANCELLED
    server.runner.requests.clear()

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        return answer(text="Done.")

    server.runner.on_run = run
    await soon(Runner.run(AGENT, result.to_state(), **options))

    (request,) = server.runner.requests
    assert request.continues == expected


async def test_what_cannot_be_gone_on_with_is_refused_by_the_server(server: ScriptedServer) -> None:
    """A turn that failed otherwise."""
    result = await paused(server)
    turn = OldTurn(server)
    turn.turn.status = event_pb2.TURN_STATUS_FAILED

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        raise Failing(grpc.StatusCode.FAILED_PRECONDITION, "TURN_NOT_CONTINUABLE", turn_id="turn_1")

    server.runner.on_run = run

    with pytest.raises(baton.StateError) as caught:
        await soon(Runner.run(AGENT, result.to_state()))
    assert caught.value.reason == "TURN_NOT_CONTINUABLE"


async def test_a_run_that_has_its_output_gives_it_again_and_takes_nothing_more(server: ScriptedServer) -> None:
    """Its state is run twice: the same result; something new is for another run."""
    state = (await paused(server)).to_state()
    turn = OldTurn(server)
    turn.items = [call("a", 1), output("x", 1)]
    turn.end("Done.")

    again = await soon(Runner.run(AGENT, state))
    state.add_input("More?")

    assert again.final_output == "Done." and turn.submitted == []
    with pytest.raises(baton.UserError, match="begin another one"):
        await soon(Runner.run(AGENT, state))
