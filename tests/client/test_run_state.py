"""Runs that pause for decisions, and runs that ended early: their states, and how they go on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.client.old_turn import OldTurn
from tests.client.scripted import ScriptedServer, soon
from tests.client.turns import Log, answer, call, message, output, parts, started, undecided, waiting
from tests.client.turns import result as last

import baton
from baton import Agent, Runner, RunResult, RunState, Session, ToolApprovalItem
from baton.v1 import error_pb2, event_pb2, item_pb2, runner_pb2, session_pb2

AGENT: Agent[Any] = Agent(name="Assistant")


async def paused(server: ScriptedServer, *names: str, **options: Any) -> RunResult:
    """Run up to where it waits for decisions about calls of these functions, each called once."""
    calls = [call(name, number) for number, name in enumerate(names, 1)]
    actions = [undecided(name, number) for number, name in enumerate(names, 1)]

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        return waiting(*calls, actions=actions)

    server.runner.on_run = run
    return await soon(Runner.run(AGENT, "Weather?", **options))


def old_turn(server: ScriptedServer, *names: str) -> OldTurn:
    """Say what the server knows of the turn of `paused`."""
    turn = OldTurn(server)
    turn.items = [call(name, number) for number, name in enumerate(names, 1)]
    turn.wait_for(*(undecided(name, number) for number, name in enumerate(names, 1)))
    return turn


def settling(turn: OldTurn, *made: item_pb2.Item, text: str = "") -> None:
    """Have the turn go on by some items; with a `text` it ends, else what waits has to be set by the test."""

    async def goes_on() -> AsyncIterator[event_pb2.StreamPart]:
        turn.log.sequence = max(turn.log.sequence, 7)
        for item in made:
            turn.items.append(item)
            yield turn.log.item(item)
        turn.turn.last_sequence = turn.log.sequence
        if text:
            turn.end(text)

    turn.goes_on = goes_on


# --- a pause ------------------------------------------------------------------------------------


async def test_a_run_that_waits_for_decisions_gives_a_result_with_interruptions(server: ScriptedServer) -> None:
    """It is no failure: there is no final output, and each interruption shows what is to be decided."""
    result = await paused(server, "get_weather", "send")

    assert result.final_output is None
    assert [(item.name, item.call_id, item.agent) for item in result.interruptions] == [
        ("get_weather", "fc_1", AGENT),
        ("send", "fc_2", AGENT),
    ]
    assert [item.type for item in result.new_items][-2:] == ["tool_approval_item", "tool_approval_item"]
    assert result.to_state().get_interruptions() == result.interruptions


async def test_an_approval_is_sent_bound_to_what_was_seen_and_the_turn_goes_on(server: ScriptedServer) -> None:
    """The digests of arguments and definition travel with it; the final output comes from the same turn."""
    result = await paused(server, "get_weather")
    turn = old_turn(server, "get_weather")
    settling(turn, output("sunny"), message("Sunny.", 2), text="Sunny.")
    state = result.to_state()

    state.approve(result.interruptions[0], always_approve=True, always_in_session=True, decided_by="Ann")
    again = await soon(Runner.run(AGENT, state))

    assert isinstance(again, RunResult) and again.final_output == "Sunny."
    (request,) = turn.submitted
    assert request.session_id == "sess_1"
    assert request.inputs[0].decision == event_pb2.Decision(
        turn_id="turn_1",
        call_id="call_1",
        verdict=event_pb2.VERDICT_APPROVE,
        always=True,
        always_in_session=True,
        decided_by="Ann",
        arguments_digest="args_1",
        definition_digest="def",
    )
    assert (turn.watched[0].turn_id, turn.watched[0].after_sequence) == ("turn_1", 7)
    assert [item.type for item in again.new_items] == [
        "tool_call_item",
        "tool_approval_item",
        "tool_call_output_item",
        "message_output_item",
    ]
    assert again.context_wrapper.is_tool_approved("get_weather", "fc_1") is True
    assert again.context_wrapper.is_tool_approved("get_weather", "another") is True  # always
    assert again.context_wrapper.get_approval_status("other", "another") is None
    assert len(server.runner.requests) == 1


async def test_a_rejection_carries_its_words(server: ScriptedServer) -> None:
    """The model is told them; the run goes on."""
    result = await paused(server, "send")
    turn = old_turn(server, "send")
    settling(turn, output("Not today."), message("I may not.", 2), text="I may not.")
    state = result.to_state()

    state.reject(result.interruptions[0], rejection_message="Not today.")
    await soon(Runner.run(AGENT, state))

    assert turn.decisions == [("call_1", False, "Not today.")]
    assert state.approvals.rulings[0].message == "Not today."


async def test_some_are_decided_now_and_others_later(server: ScriptedServer) -> None:
    """Any subset, in any order: what is undecided interrupts again, what was shown keeps its place."""
    result = await paused(server, "a", "b")
    turn = old_turn(server, "a", "b")
    settling(turn, output("x", 2))
    turn.wait_for(undecided("a", 1))
    state = result.to_state()
    state.approve(result.interruptions[1])

    second = await soon(Runner.run(AGENT, state))
    settling(turn, output("y", 1), message("Done.", 3), text="Done.")
    last_state = second.to_state()
    last_state.reject(second.interruptions[0])
    third = await soon(Runner.run(AGENT, last_state))

    assert [item.call_id for item in second.interruptions] == ["fc_1"]
    assert turn.decisions == [("call_2", True, ""), ("call_1", False, "")]
    assert [f"{item.type}:{item.call_id}" for item in third.new_items] == [
        "tool_call_item:fc_1",
        "tool_call_item:fc_2",
        "tool_approval_item:fc_1",
        "tool_approval_item:fc_2",
        "tool_call_output_item:fc_2",
        "tool_call_output_item:fc_1",
        "message_output_item:None",
    ]


async def test_nothing_decided_sends_nothing_and_interrupts_again(server: ScriptedServer) -> None:
    """A state that is run as it is only asks how the turn stands."""
    result = await paused(server, "a")
    turn = old_turn(server, "a")

    again = await soon(Runner.run(AGENT, result.to_state()))

    assert turn.submitted == []
    assert [item.call_id for item in again.interruptions] == ["fc_1"]


async def test_what_is_added_goes_behind_the_decisions(server: ScriptedServer) -> None:
    """In the same batch, so that it joins the run before the model is asked again."""
    result = await paused(server, "a")
    turn = old_turn(server, "a")
    settling(turn, output("x", 1), message("Done.", 2), text="Done.")
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.add_input("and tomorrow?")
    state.add_input([{"role": "user", "content": "and then?"}])

    await soon(Runner.run(AGENT, state))

    (request,) = turn.submitted
    assert [one.WhichOneof("input") for one in request.inputs] == ["decision", "items_json"]
    assert json.loads(request.inputs[1].items_json) == [
        {"role": "user", "content": "and tomorrow?"},
        {"role": "user", "content": "and then?"},
    ]
    assert request.if_busy == session_pb2.IF_BUSY_UNSPECIFIED  # steers


async def test_a_state_that_is_run_twice_sends_its_batch_under_one_id(server: ScriptedServer) -> None:
    """A process that crashed behind it may do it again: nothing is said twice."""
    result = await paused(server, "a")
    turn = old_turn(server, "a")
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.add_input("More.")
    written = state.to_string()

    await soon(Runner.run(AGENT, state))
    await soon(Runner.run(AGENT, await RunState.from_string(AGENT, written)))

    first, second = turn.submitted
    assert first == second


async def test_a_decision_that_another_one_forestalled_is_told(server: ScriptedServer) -> None:
    """The state forgets it, so that the run can be waited for all the same."""
    result = await paused(server, "a")
    turn = old_turn(server, "a")
    turn.outcome.status = session_pb2.INPUT_STATUS_DISCARDED
    turn.outcome.error.reason = error_pb2.ERROR_REASON_DECISION_CONFLICT
    state = result.to_state()
    state.approve(result.interruptions[0])

    with pytest.raises(baton.StateError) as caught:
        await soon(Runner.run(AGENT, state))
    settling(turn, output("no", 1), message("I may not.", 2), text="I may not.")
    again = await soon(Runner.run(AGENT, state))

    assert caught.value.reason == "DECISION_CONFLICT"
    assert again.final_output == "I may not." and len(turn.submitted) == 1


async def test_only_what_waits_can_be_decided_about(server: ScriptedServer) -> None:
    """Another run's interruption, an approval with a message, words without end."""
    state = (await paused(server, "a")).to_state()
    other = (await paused(server, "a", "b")).interruptions[1]
    own = state.get_interruptions()[0]

    with pytest.raises(baton.UserError, match=r"does not wait for the call call_2 of b, but for call_1"):
        state.approve(other)
    with pytest.raises(TypeError, match="only an interruption"):
        state.reject("call_1")  # type: ignore[arg-type]
    with pytest.raises(baton.UserError, match="at most 4096 characters, not 5000"):
        state.reject(own, rejection_message="x" * 5000)
    with pytest.raises(baton.UserError, match="began with the agent 'Assistant', not with 'Other'"):
        await Runner.run(Agent(name="Other"), state)
    assert state.inputs() == []


# --- another process ----------------------------------------------------------------------------


async def test_a_state_is_written_down_without_the_run(server: ScriptedServer) -> None:
    """Ids, what waits, what is decided; no instructions, no input, no context, and JSON all through."""
    result = await paused(server, "send", context={"secret": 1}, session=Session("user-7", address=server.address))
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=True, rejection_message="No.")
    state.add_input("And?")

    text = state.to_string()
    read = await RunState.from_string(AGENT, text, context_override="mine")

    assert "secret" not in text and "Weather?" not in text
    assert (read.session_id, read.turn_id, read.context) == ("sess_1", "turn_1", "mine")
    assert read.position == state.position
    assert read.inputs() == state.inputs()
    (item,) = read.get_interruptions()
    assert isinstance(item, ToolApprovalItem)
    assert (item.name, item.call_id, item.raw_item["arguments"]) == ("send", "fc_1", "{}")
    assert read.to_json() == state.to_json() == json.loads(text)


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        ("nonsense", "this is no state of a run"),
        ("[]", "version 'list'"),
        ('{"version": 99}', "version 99"),
        ('{"version": 1}', "damaged"),
    ],
)
async def test_what_is_no_state_is_refused(damaged: str, told: str) -> None:
    """By a sentence, whatever it is."""
    with pytest.raises(baton.UserError, match=told):
        await RunState.from_string(AGENT, damaged)


async def test_another_process_goes_on_by_what_the_server_keeps(server: ScriptedServer) -> None:
    """It has the agent and the JSON: the items, the input and the history come from the log."""
    state = (await paused(server, "a")).to_state()
    turn = old_turn(server, "a")
    asked = item_pb2.Item(item_id="item_0", message=item_pb2.Message(role=item_pb2.MESSAGE_ROLE_USER))
    asked.message.content.add(text="Weather?")
    turn.items.insert(0, asked)
    settling(turn, output("x", 1), message("Done.", 2), text="Done.")
    read = await RunState.from_json(AGENT, state.to_json())
    read.approve(read.get_interruptions()[0])

    again = await soon(Runner.run(AGENT, read))

    assert again.final_output == "Done."
    assert again.input == [{"content": "Weather?", "role": "user"}]
    assert [item.type for item in again.new_items] == [
        "tool_call_item",
        "tool_approval_item",
        "tool_call_output_item",
        "message_output_item",
    ]
    assert [item.get("type", item.get("role")) for item in again.to_input_list()] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
    ]


async def test_what_the_log_says_of_a_turn_is_what_its_answer_would(server: ScriptedServer) -> None:
    """Replies with their tokens, and what guardrails said by their own names."""
    state = (await paused(server, "a")).to_state()
    turn = old_turn(server, "a")
    settling(turn, output("x", 1), message("Done.", 2, output_index=0), text="Done.")
    turn.config.input_guardrails.add(name="Numbers?").hook.name = "Numbers_"
    told = [
        {"hook_settled": event_pb2.HookSettled(kind=10, name="Numbers_", answer_json='{"tripped":false,"info":[1]}')},
        {"hook_settled": event_pb2.HookSettled(kind=22, name="trim", answer_json="{}")},
        {"round_completed": event_pb2.RoundCompleted(response_id="resp_1", usage=item_pb2.Usage(input_tokens=3))},
        {"round_completed": event_pb2.RoundCompleted(response_id="resp_2", usage=item_pb2.Usage(input_tokens=4))},
    ]
    turn.events = [event_pb2.Event(sequence=n, round=1, **arm) for n, arm in enumerate(told, 1)]

    @baton.input_guardrail(name="Numbers?")
    def numbers(_context: Any, _agent: Any, _input: Any) -> bool:
        return False

    config = baton.RunConfig(input_guardrails=[numbers])
    running = Runner.run(AGENT, state, run_config=config)
    again = await soon(running)

    assert [one.response_id for one in again.raw_responses] == ["resp_1", "resp_2"]
    assert [one.usage.input_tokens for one in again.raw_responses] == [3, 4]
    assert [[item["type"] for item in one.output] for one in again.raw_responses] == [["function_call"], ["message"]]
    (guardrail,) = again.input_guardrail_results
    assert (guardrail.guardrail, guardrail.output.output_info, guardrail.output.tripwire_triggered) == (
        numbers,
        [1],
        False,
    )


# --- streamed -----------------------------------------------------------------------------------


async def test_a_stream_ends_at_a_pause_and_the_next_one_tells_only_what_is_new(server: ScriptedServer) -> None:
    """The agent that goes on first, then what came of the calls; the items of both runs are whole."""
    log = Log()

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Any:
        yield started()
        yield parts(log.agent(), log.item(call("a", 1)), log.item(call("b", 2)), log.item(output("y", 2)))
        yield last(waiting(call("a", 1), call("b", 2), output("y", 2), actions=[undecided("a", 1)], sequence=7))

    server.runner.on_stream = stream
    first = Runner.run_streamed(AGENT, "Weather?")
    told = [getattr(event, "name", event.type) async for event in first.stream_events()]
    turn = old_turn(server, "a", "b")
    turn.items.append(output("y", 2))
    settling(turn, output("x", 1), message("Done.", 3), text="Done.")
    state = first.to_state()
    state.approve(first.interruptions[0])

    second = Runner.run_streamed(AGENT, state)
    more = [getattr(event, "name", event.type) async for event in second.stream_events()]

    assert told == ["agent_updated_stream_event", "tool_called", "tool_called", "tool_output"]
    assert (first.final_output, first.is_complete, len(first.interruptions)) == (None, True, 1)
    assert more == ["agent_updated_stream_event", "tool_output", "raw_response_event", "message_output_created"]
    assert second.final_output == "Done."
    assert [f"{item.type}:{item.call_id}" for item in second.new_items] == [
        "tool_call_item:fc_1",
        "tool_call_item:fc_2",
        "tool_approval_item:fc_1",
        "tool_call_output_item:fc_2",
        "tool_call_output_item:fc_1",
        "message_output_item:None",
    ]


async def test_a_run_that_goes_on_has_no_state(server: ScriptedServer) -> None:
    """Not before its events are read to their end."""

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Any:
        yield started()
        yield last(answer(text="Done."))

    server.runner.on_stream = stream
    streaming = Runner.run_streamed(AGENT, "Hi")

    with pytest.raises(baton.UserError, match="read its events to their end"):
        streaming.to_state()
    async for _event in streaming.stream_events():
        pass
    assert streaming.to_state().get_interruptions() == []
