"""RunStreamed: the same turn as Run's, told while it happens, however often the stream breaks."""

import asyncio
from typing import Any

import pytest
from tests.api.calling import (
    Client,
    attach,
    events_in,
    everything,
    frame,
    frames,
    helper,
    kinds,
    parts_in,
    refused,
    result_for,
    run_request,
    soon,
    streamed_request,
    until,
)
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import event_pb2, runner_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')

TURN = [
    *("session_in_progress", "turn_created", "turn_in_progress", "agent_changed", "item_added"),
    *("item_done", "round_completed", "turn_completed"),
]
"""The events of a turn with one answer."""


async def test_the_first_message_says_which_turn_and_the_last_how_it_rests(serve: Serve) -> None:
    """`started` comes before anything of the turn, `result` after all of it, and equals what Run answers."""
    served = await serve(say("Hello, ", "you."))
    request = streamed_request(text="hi")

    messages = await everything(served.client.runner.RunStreamed(request))
    result = await served.client.runner.Run(run_request(request_id=request.request_id, text="hi"))

    assert messages[0].WhichOneof("frame") == "started"
    assert [bool(message.parts) for message in messages] == [False, *[True] * (len(messages) - 2), False]
    assert messages[0].started.created
    assert (messages[0].started.session_id, messages[0].started.turn_id) == (result.session_id, result.turn.turn_id)
    assert kinds(events_in(messages)) == TURN
    assert messages[-1].result == result


async def test_fragments_come_before_the_item_that_they_make(serve: Serve) -> None:
    """Joined by their offsets the fragments of an item are its text, and none comes after it."""
    gate = Gate()
    served = await serve(say(gate, "Grüße, ", "du ", "da 👋."))
    stream = served.client.runner.RunStreamed(streamed_request(text="hi"))
    await gate.reached()
    before = await until(frames(stream), "reset")
    gate.open()

    parts = [*before, *parts_in(await everything(frames(stream)))]

    done = next(n for n, part in enumerate(parts) if part.event.HasField("item_done"))
    deltas = [(n, part.delta) for n, part in enumerate(parts) if part.HasField("delta")]
    assert deltas
    assert all(n < done for n, _ in deltas)
    text = b""
    for _, delta in deltas:
        assert delta.offset == len(text)
        assert (delta.item_id, delta.round, delta.model_attempt) == (parts[done].event.item_done.item.item_id, 1, 1)
        text += delta.output_text.encode()
    assert text.decode() == parts[done].event.item_done.item.message.content[0].text == "Grüße, du da 👋."


async def test_without_fragments_only_facts_are_streamed(serve: Serve) -> None:
    """With deltas NONE the stream holds events and heartbeats alone."""
    served = await serve(say("one ", "two"))

    messages = await everything(served.client.runner.RunStreamed(streamed_request(deltas=event_pb2.DELTA_LEVEL_NONE)))

    assert {part.WhichOneof("part") for part in parts_in(messages)} == {"event", "heartbeat"}


@pytest.mark.parametrize("read", range(1, 6))
async def test_a_stream_that_breaks_is_taken_up_where_it_was(serve: Serve, read: int) -> None:
    """Cut anywhere and sent again from the last sequence seen, the streams together tell the turn exactly once."""
    gate = Gate()
    served = await serve(say("one ", gate, "two"))
    request = streamed_request(text="hi")
    first = served.client.runner.RunStreamed(request)
    seen: list[event_pb2.Event] = []
    before = await _some(first, min(read, 3))
    await gate.reached()
    seen.extend(events_in(before))
    first.cancel()
    request.after_sequence = seen[-1].sequence if seen else 0
    gate.open()

    messages = await everything(served.client.runner.RunStreamed(request))

    assert not messages[0].started.created
    assert kinds([*seen, *events_in(messages)]) == TURN
    assert messages[-1].result.turn.output == "one two"
    assert len(served.model.requests) == 1


async def test_a_second_client_sees_the_whole_turn(serve: Serve) -> None:
    """Who comes later with the same request, after the first one left, gets every event and the result."""
    gate = Gate()
    served = await serve(say("one ", gate, "two"))
    request = streamed_request(text="hi")
    first = served.client.runner.RunStreamed(request)
    started = (await soon(first.read())).started
    await gate.reached()
    first.cancel()
    gate.open()

    whole = await everything(served.client.runner.RunStreamed(request))
    watched = await served.client.rest(started.session_id, turn_id=started.turn_id)

    assert kinds(events_in(whole)) == TURN
    assert events_in(whole) == watched


async def test_a_finished_turn_is_replayed(serve: Serve) -> None:
    """Long after its end the request still tells the turn, from the start or from the middle."""
    served = await serve(say("hello"))
    request = streamed_request(text="hi")
    live = await everything(served.client.runner.RunStreamed(request))

    replayed = await everything(served.client.runner.RunStreamed(request))
    request.after_sequence = events_in(live)[3].sequence
    rest = await everything(served.client.runner.RunStreamed(request))

    assert events_in(replayed) == events_in(live)
    assert replayed[-1] == live[-1] == rest[-1]
    assert events_in(rest) == events_in(live)[4:]


async def test_a_streamed_turn_is_of_itself_alone(serve: Serve) -> None:
    """Of a session with other turns only this one's events are streamed."""
    served = await serve(say("one"), say("two"))
    made = await served.client.session()
    await served.client.run(session_id=made.session_id)

    messages = await everything(served.client.runner.RunStreamed(streamed_request(session_id=made.session_id)))

    assert kinds(events_in(messages)) == TURN
    assert {event.turn_id for event in events_in(messages)} == {messages[0].started.turn_id}
    assert messages[-1].result.turn.output == "two"


async def test_a_stream_rests_on_what_is_unserved_and_is_taken_up_again(serve: Serve) -> None:
    """The stream ends with the open call; settled, the same request goes on to the answer."""
    served = await serve(calls(KYOTO), say("18 degrees."))
    request = streamed_request(agent=helper("get_weather"))
    first = await everything(served.client.runner.RunStreamed(request))
    (action,) = first[-1].result.required_actions
    await served.client.submit(action.session_id, result_for(action, output="18"))
    request.after_sequence = events_in(first)[-1].sequence

    second = await everything(served.client.runner.RunStreamed(request))

    assert kinds(events_in(first))[-1] == "session_requires_action"
    assert kinds(events_in(second))[0] == "item_added"
    assert second[-1].result.turn.output == "18 degrees."


async def test_a_queued_turn_is_streamed_from_its_acceptance(serve: Serve) -> None:
    """Whoever queues sees the turn made, then begun when its time has come."""
    gate = Gate()
    served = await serve(say(gate, "one"), say("two"))
    made = await served.client.session()
    await served.client.submit(made.session_id, "a")
    await gate.reached()
    stream = served.client.runner.RunStreamed(streamed_request(session_id=made.session_id, text="b"))
    messages = [await soon(stream.read()) for _ in range(2)]
    assert [event.turn_created.turn.status for event in events_in(messages)] == [event_pb2.TURN_STATUS_QUEUED]

    gate.open()
    messages = [message async for message in frames(stream)]

    assert kinds(events_in(messages)) == TURN[2:]
    assert messages[-1].result.turn.output == "two"


async def test_leaving_a_stream_cancels_where_that_was_asked(serve: Serve) -> None:
    """With cancel_on_disconnect the turn ends when its reader goes away, whatever was read."""
    gate = Gate()
    served = await serve(lambda _: say("one ", gate, "two"))
    ended = []
    for read in (0, 1, 2):
        made = await served.client.session()
        request = streamed_request(session_id=made.session_id, cancel_on_disconnect=True)
        stream = served.client.runner.RunStreamed(request)
        await _some(stream, read)
        await served.model.asked(read + 1)
        stream.cancel()
        ended.append(kinds(await served.client.rest(made.session_id))[-2:])

    assert ended == [["turn_cancelled", "session_idle"]] * 3


async def test_a_stream_cannot_begin_behind_the_end_of_the_log(serve: Serve) -> None:
    """A sequence that the session never reached is refused, as Watch refuses it."""
    served = await serve(say("one"))

    told = await refused(everything(served.client.runner.RunStreamed(streamed_request(after_sequence=1000))))

    assert told.reason == "SEQUENCE_AHEAD"


async def test_a_large_turn_reaches_a_small_reader(serve: Serve) -> None:
    """Events and the result obey max_message_bytes: what does not fit is omitted and can be read apart."""
    words = "wörter " * 20_000
    served = await serve(calls(KYOTO), say(words, words))
    worker = await attach(served.client, "get_weather")
    stream = served.client.runner.RunStreamed(
        streamed_request(agent=helper("get_weather"), text=words, max_message_bytes=65_536, with_next_items=True)
    )
    reading = asyncio.ensure_future(everything(stream))
    call = (await soon(worker.read())).call
    await worker.write(frame(result={"call_id": call.call_id, "attempt": 1, "output": words}))

    messages = await reading

    assert max(message.ByteSize() for message in messages) <= 65_536
    result = messages[-1].result
    assert result.items_left_out or len(result.new_items) == 3
    content = await _content(served.client, result.session_id, result.turn.output_omitted.sha256)
    assert content.decode() == words * 2
    items = await _content(served.client, result.session_id, result.next_items_omitted.sha256)
    assert len(items) == result.next_items_omitted.omitted_bytes
    assert items.decode().count("wörter") == 4 * 20_000


async def _some(stream: Any, count: int) -> list[runner_pb2.RunStreamedResponse]:
    return [await soon(stream.read()) for _ in range(count)]


async def _content(client: Client, session_id: str, sha256: str) -> bytes:
    request = pb.ReadContentRequest(session_id=session_id, sha256=sha256)
    return b"".join(slice_.data for slice_ in await everything(client.sessions.ReadContent(request)))
