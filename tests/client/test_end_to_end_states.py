"""Runs that pause and go on, at a real server: decisions here, elsewhere and in another process; ends that are none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.end_to_end import Serve, ended, program, serve
from tests.support.scripted_model import Gate, calls, say

import baton
from baton import Agent, Client, RunContext, Runner, RunState, SQLiteSession, ToolCallOutputItem, function_tool
from baton.v1 import event_pb2

__all__ = ["serve"]


@function_tool(needs_approval=True)
async def send(ctx: RunContext[Any], to: str) -> str:
    """Send it."""
    return f"sent to {to} by {ctx.context}"


@function_tool
async def look(at: str) -> str:
    """Look at it."""
    return f"seen {at}"


def helper(*tools: Any) -> Agent[Any]:
    """Make an agent."""
    return Agent(name="Assistant", tools=list(tools) or [send, look])


def outputs(result: Any) -> list[Any]:
    """What the functions gave."""
    return [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]


ANN, BOB = ("send", '{"to":"Ann"}'), ("send", '{"to":"Bob"}')


async def test_approved_and_rejected_calls_go_on_together(serve: Serve) -> None:
    """The sibling that needs nobody runs before the pause; the model reads its output first, then the others."""
    async with serve(calls(ANN, ("look", '{"at":"it"}'), BOB), say("Done.")) as served:
        paused = await Runner.run(helper(), "Send it.", context="me")
        state = paused.to_state()
        first, second = state.get_interruptions()
        state.approve(first, decided_by="a test")
        state.reject(second, rejection_message="Not to Bob.")

        result = await Runner.run(helper(), state)

        assert (paused.final_output, outputs(paused)) == (None, ["seen it"])
        assert result.final_output == "Done."
        assert outputs(result) == ["seen it", "sent to Ann by me", "Not to Bob."] == served.outputs()


async def test_always_spares_the_next_pause_and_lasts_for_the_turn(serve: Serve) -> None:
    """Later calls of the same function run at once; the next turn asks again."""
    async with serve(calls(ANN), calls(BOB), say("Done."), calls(ANN)):
        session = SQLiteSession("s")
        paused = await Runner.run(helper(), "Send it.", session=session)
        state = paused.to_state()
        state.approve(paused.interruptions[0], always_approve=True)

        result = await Runner.run(helper(), state)
        again = await Runner.run(helper(), "Once more.", session=session)

        assert outputs(result) == ["sent to Ann by None", "sent to Bob by None"]
        assert len(again.interruptions) == 1


async def test_always_in_session_spares_later_turns_too(serve: Serve) -> None:
    """Our own: a decision that the session keeps."""
    async with serve(calls(ANN), say("Done."), calls(BOB), say("Again.")):
        session = SQLiteSession("s")
        paused = await Runner.run(helper(), "Send it.", session=session)
        state = paused.to_state()
        state.approve(paused.interruptions[0], always_in_session=True)
        await Runner.run(helper(), state)

        again = await Runner.run(helper(), "Once more.", session=session)

        assert (again.final_output, outputs(again)) == ("Again.", ["sent to Bob by None"])


async def test_who_decides_elsewhere_has_the_run_go_on(serve: Serve) -> None:
    """By the inbox of all that waits; the function runs in the process that began the run, in its context."""
    async with serve(calls(ANN), say("Done.")) as served:
        client = Client()
        paused = await Runner.run(helper(), "Send it.", context="me")
        waits = event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION
        (action,) = [one async for one in client.list_required_actions(states=[waits])]

        outcome = await client.approve(action, decided_by="Ann")
        result = await Runner.run(helper(), paused.to_state())
        late = await client.reject(action)

        assert outcome.turn_id == paused.turn_id
        assert (result.final_output, served.outputs()) == ("Done.", ["sent to Ann by me"])
        assert late.error.reason


async def test_a_streamed_run_pauses_and_goes_on_in_another_way(serve: Serve) -> None:
    """Begun streamed, resumed without, and the other way round."""
    async with serve(calls(ANN), calls(BOB), say("Done.")):
        streamed = Runner.run_streamed(helper(), "Send it.")
        told = [event.name async for event in streamed.stream_events() if event.type == "run_item_stream_event"]
        state = streamed.to_state()
        state.approve(streamed.interruptions[0])
        second = await Runner.run(helper(), state)
        state = second.to_state()
        state.approve(second.interruptions[0])
        third = Runner.run_streamed(helper(), state)
        more = [event.name async for event in third.stream_events() if event.type == "run_item_stream_event"]

        assert (told, more) == (["tool_called"], ["tool_output", "message_output_created"])
        assert third.final_output == "Done."
        assert [item.type for item in third.new_items] == [
            "tool_call_item",
            "tool_approval_item",
            "tool_call_output_item",
            "tool_call_item",
            "tool_approval_item",
            "tool_call_output_item",
            "message_output_item",
        ]
        assert [reply.response_id is not None for reply in third.raw_responses] == [True, True, True]


async def test_what_is_added_is_read_after_the_outputs(serve: Serve) -> None:
    """It joins the turn that waited."""
    async with serve(calls(ANN), say("Done.")) as served:
        state = (await Runner.run(helper(), "Send it.")).to_state()
        state.approve(state.get_interruptions()[0])
        state.add_input("Quickly.")

        result = await Runner.run(helper(), state)

        assert result.final_output == "Done."
        assert served.model.input_of(-1)[-1]["content"] == "Quickly."


async def test_a_cancelled_run_goes_on_after_its_round(serve: Serve) -> None:
    """The round that ran is finished; the state goes on with the next one, and the items are whole."""
    gate = Gate()
    async with serve(calls(("look", '{"at":"it"}'), before=gate), say("Seen.")):
        streamed = Runner.run_streamed(helper(look), "Look.")
        events = streamed.stream_events()
        assert (await anext(events)).type == "agent_updated_stream_event"
        await gate.reached()
        streamed.cancel(mode="after_turn")
        await _cancel_asked(streamed)
        gate.open()
        told = [event.name async for event in events if event.type == "run_item_stream_event"]

        result = await Runner.run(helper(look), streamed.to_state())

        assert told == ["tool_called", "tool_output"] and streamed.final_output is None
        assert (result.final_output, outputs(result)) == ("Seen.", ["seen it"])
        assert result.session_id == streamed.session_id and result.turn_id != streamed.turn_id
        assert result.usage.requests == 2


async def test_a_run_goes_on_beyond_its_limit(serve: Serve) -> None:
    """With a new one; the functions of this process serve the new turn too."""
    async with serve(calls(("look", '{"at":"a"}')), calls(("look", '{"at":"b"}')), say("Seen.")) as served:
        with pytest.raises(baton.MaxTurnsExceeded) as caught:
            await Runner.run(helper(look), "Look.", max_turns=1)
        assert caught.value.run_data is not None

        result = await Runner.run(helper(look), caught.value.run_data.to_state(), max_turns=5)

        assert outputs(result) == ["seen a", "seen b"] == served.outputs()
        assert result.final_output == "Seen."


async def test_a_client_has_an_ended_turn_go_on(serve: Serve) -> None:
    """Without a runner: by its ids."""
    async with serve(calls(("look", '{"at":"a"}')), say("Seen.")):
        client = Client()
        with pytest.raises(baton.MaxTurnsExceeded) as caught:
            await Runner.run(helper(look), "Look.", max_turns=1, session=SQLiteSession("s"))
        data = caught.value.run_data
        assert data is not None

        answer = await client.continue_turn(data.session_id, data.turn_id, "Well?", max_turns=2)
        ended_by = [
            part.event.WhichOneof("event")
            async for part in client.watch(data.session_id, after_sequence=answer.sequence)
            if part.HasField("event")
        ]

        assert answer.turn_id != data.turn_id
        assert "turn_completed" in ended_by
        with pytest.raises(baton.StateError) as refused:
            await client.continue_turn(data.session_id, answer.turn_id)
        assert refused.value.reason == "TURN_NOT_CONTINUABLE"


@pytest.mark.slow
async def test_another_process_decides_and_serves_the_call(serve: Serve) -> None:
    """The first one is gone; its state is a text, and the second one's own function and context are used."""
    text = """
        import asyncio, sys
        from baton import Agent, RunContext, Runner, RunState, function_tool

        @function_tool(needs_approval=True)
        async def send(ctx: RunContext, to: str) -> str:
            '''Send it.'''
            return f"sent to {to} by {ctx.context}"

        agent = Agent(name="Assistant", instructions=lambda ctx, agent: f"You serve {ctx.context}.", tools=[send])

        async def main():
            result = await Runner.run(agent, "Send it.", context="the first")
            print(result.to_state().to_string())

        asyncio.run(main())
    """
    async with serve(calls(ANN), say("Done.")) as served:
        async with program(served.baton.address, text) as process:
            code, written, errors = await ended(process)
            assert (code, errors) == (0, "")
        agent: Agent[Any] = Agent(
            name="Assistant", instructions=lambda ctx, _agent: f"You serve {ctx.context}.", tools=[send]
        )
        state = await RunState.from_string(agent, written)
        state.approve(state.get_interruptions()[0])

        result = await Runner.run(agent, state, context="the second")

        assert result.final_output == "Done."
        assert served.outputs() == ["sent to Ann by the second"]
        assert [request.instructions for request in served.model.requests] == [
            "You serve the first.",
            "You serve the second.",
        ]
        assert result.input == [{"content": "Send it.", "role": "user"}]


async def _cancel_asked(streamed: Any) -> None:
    """Wait until the server has heard of the cancel."""
    async for part in Client().watch(streamed.session_id, turn_id=streamed.turn_id):
        if part.event.HasField("cancel_requested"):
            return
