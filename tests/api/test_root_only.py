"""Watching the turn's own run alone: what nested runs do is left out, and its sequences count all the same."""

from __future__ import annotations

from tests.api.calling import Client, events_in, everything, fresh, kinds, parts_in, streamed_request
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import agent_pb2, event_pb2
from baton.v1 import runner_pb2 as runner
from baton.v1 import session_pb2 as pb

GRAPH = agent_pb2.Agent(
    name="Writer",
    tools=[{"agent": {"agent": "Researcher", "tool_name": "research"}}],
    agents=[{"name": "Researcher"}],
)
RESEARCH = (calls(("research", '{"input":"Find out."}')), say("Found ", "it."))
SCRIPT = (*RESEARCH, say("Written."))


async def watched(client: Client, session_id: str, **fields: object) -> list[event_pb2.StreamPart]:
    """Watch a session that rests from its first event on."""
    request = pb.WatchRequest(session_id=session_id, **fields)
    return parts_in(await everything(client.sessions.Watch(request)))


def nested(parts: list[event_pb2.StreamPart]) -> bool:
    """Tell whether anything of a nested run is among parts."""
    return any(part.event.run_path or part.delta.run_path or part.reset.run_path for part in parts)


def written(parts: list[event_pb2.StreamPart]) -> str:
    """Join the text being made, as whoever reads it shows it: a reset takes the place of what came before."""
    text = ""
    for part in parts:
        if part.HasField("reset"):
            text = "".join(piece.text for item in part.reset.items for piece in item.message.content)
        text += part.delta.output_text
    return text


async def test_a_watch_leaves_nested_runs_out(serve: Serve) -> None:
    """From the log; the last heartbeat stands where the log ends, so that nothing is sent again."""
    served = await serve(*SCRIPT)
    answer = await served.client.run(agent=GRAPH)
    all_events = await served.client.events(answer.session_id)

    whole = await watched(served.client, answer.session_id)
    root = await watched(served.client, answer.session_id, root_only=True)

    assert nested(whole) and not nested(root)
    shown = [part.event for part in root if part.HasField("event")]
    assert shown == [event for event in all_events if not event.run_path]
    assert {"nested_run_created", "nested_run_closed"} <= set(kinds(shown))
    assert root[-1].heartbeat.last_sequence == all_events[-1].sequence


async def test_a_streamed_run_leaves_nested_runs_out(serve: Serve) -> None:
    """Live, with its fragments; and it is the same run, however it is looked at."""
    gate = Gate()
    served = await serve(*RESEARCH, say("Writ", gate, "ten."))
    request = streamed_request(agent=GRAPH)
    request.root_only = True

    root: list[runner.RunStreamedResponse] = []
    async for message in served.client.runner.RunStreamed(request):
        root.append(message)
        if written(parts_in(root)):  # who came too late for a fragment is told all so far by a reset
            gate.open()
    request.root_only = False
    whole = await everything(served.client.runner.RunStreamed(request))

    assert not nested(parts_in(root)) and nested(parts_in(whole))
    assert written(parts_in(root)) == "Written."
    assert root[-1].result.turn.output == whole[-1].result.turn.output == "Written."
    assert (root[0].started.created, whole[0].started.created) == (True, False)


async def test_both_may_be_watched_on_one_stream(serve: Serve) -> None:
    """Converse takes the same filter."""
    served = await serve(*SCRIPT)
    made = await served.client.session(agent=GRAPH)
    call = served.client.sessions.Converse()
    watch = pb.WatchRequest(session_id=made.session_id, root_only=True)
    await call.write(pb.ConverseRequest(watch=watch))
    submit = pb.SubmitInputRequest(request_id=fresh(), inputs=[pb.Input(text="Go.")])
    await call.write(pb.ConverseRequest(submit=submit))
    await call.done_writing()

    messages = await everything(call)

    assert not nested(parts_in(messages))
    assert "turn_completed" in kinds(events_in(messages))


async def test_what_a_run_made_is_its_own(serve: Serve) -> None:
    """A nested run's items are not among the new ones; what came of it is."""
    served = await serve(*SCRIPT)

    answer: runner.RunResponse = await served.client.run(agent=GRAPH)

    made = [item.WhichOneof("item") for item in answer.new_items]
    assert made == ["function_call", "function_call_output", "message"]
    assert all(not item.run_path for item in answer.new_items)
