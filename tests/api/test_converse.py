"""Converse: watching and putting in on one stream, in an order that a caller can rely on."""

from typing import Any

import grpc
import pytest
from tests.api.calling import (
    Client,
    events_in,
    everything,
    frames,
    fresh,
    helper,
    kinds,
    parts_in,
    refused,
    result_for,
    soon,
    submit_request,
    told,
    until,
)
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import error_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')


class Conversation:
    """A Converse stream whose messages are kept in order."""

    def __init__(self, client: Client) -> None:
        self.call = client.sessions.Converse()
        self.messages: list[pb.ConverseResponse] = []

    async def write(self, **arm: Any) -> None:
        """Send a frame."""
        await self.call.write(pb.ConverseRequest(**arm))

    async def answer(self) -> pb.ConverseResponse:
        """Read up to the next answer."""
        while True:
            message = await soon(self.call.read())
            self.messages.append(message)
            if message.WhichOneof("answer"):
                return message

    async def end(self) -> list[pb.ConverseResponse]:
        """Half-close, and read to the end; returns all messages of the stream."""
        await self.call.done_writing()
        self.messages.extend(await everything(frames(self.call)))
        assert await soon(self.call.code()) is grpc.StatusCode.OK
        return self.messages


async def test_a_session_is_made_watched_and_talked_to_on_one_stream(serve: Serve) -> None:
    """From `create` to the answer and the rest of the session, one stream is enough."""
    served = await serve(say("Hello, ", "you."))
    talk = Conversation(served.client)
    await talk.write(create=pb.CreateSessionRequest(request_id=fresh(), agent=helper()))
    made = (await talk.answer()).session
    await talk.write(submit=submit_request("", "hi", request_id="x"))
    submitted = (await talk.answer()).submitted

    messages = await talk.end()

    assert messages[0].HasField("session")
    assert (submitted.request_id, submitted.outcomes[0].status) == ("x", pb.INPUT_STATUS_STARTED)
    assert kinds(events_in(messages)) == kinds(await served.client.events(made.session_id))
    assert told(events_in(messages), "turn_completed")[0].turn.output == "Hello, you."
    assert parts_in(messages)[-1].HasField("heartbeat")


async def test_the_answer_of_a_submit_comes_before_what_follows_from_it(serve: Serve) -> None:
    """However fast the turn is, `submitted` precedes its first event."""
    served = await serve(lambda _: say("ok"))
    talk = Conversation(served.client)
    await talk.write(create=pb.CreateSessionRequest(request_id=fresh(), agent=helper()))
    await talk.answer()
    for _ in range(12):
        await talk.write(submit=submit_request("", "hi", if_busy=pb.IF_BUSY_QUEUE))
    messages = await talk.end()

    answered: dict[str, int] = {}
    created: dict[str, int] = {}
    for place, message in enumerate(messages):
        if message.HasField("submitted"):
            answered[message.submitted.turn_id] = place
        for event in events_in([message]):
            created.setdefault(event.turn_id, place)
    assert len(answered) == 12
    assert all(answered[turn_id] < created[turn_id] for turn_id in answered)


async def test_a_watched_session_is_told_from_where_the_caller_was(serve: Serve) -> None:
    """With `watch` first, events come from its after_sequence, behind the session as it stood."""
    served = await serve(say("one"), say("two"))
    made = await served.client.session()
    await served.client.run(session_id=made.session_id)
    before = await served.client.events(made.session_id)
    talk = Conversation(served.client)
    await talk.write(watch=pb.WatchRequest(session_id=made.session_id, after_sequence=4))
    session = (await talk.answer()).session
    await talk.write(submit=submit_request(made.session_id, "more"))

    messages = await talk.end()

    assert session.last_sequence == len(before)
    assert events_in(messages) == (await served.client.events(made.session_id))[4:]


async def test_a_session_that_was_there_is_told_from_its_end(serve: Serve) -> None:
    """With `create` of a known key nothing old is told again."""
    served = await serve(say("one"), say("two"))
    made = await served.client.session(key="user-7")
    await served.client.run(session_id=made.session_id)
    last = (await served.client.get(made.session_id)).last_sequence
    talk = Conversation(served.client)
    await talk.write(create=pb.CreateSessionRequest(request_id=fresh(), key="user-7", get_or_create=True))
    assert (await talk.answer()).session.session_id == made.session_id
    await talk.write(submit=submit_request("", "more"))

    messages = await talk.end()

    assert events_in(messages)[0].sequence == last + 1


async def test_a_refused_frame_is_answered_and_the_stream_lives(serve: Serve) -> None:
    """Malformed, refused, unknown and unreadable frames each get an `error`; the next frame is taken."""
    served = await serve(say("ok"))
    raw = served.client.channel.stream_stream(
        "/baton.v1.SessionService/Converse",
        request_serializer=bytes,
        response_deserializer=pb.ConverseResponse.FromString,
    )
    talk = Conversation(served.client)
    talk.call = raw()
    create = pb.ConverseRequest(create=pb.CreateSessionRequest(request_id=fresh(), agent=helper()))
    await talk.call.write(create.SerializeToString())
    made = (await talk.answer()).session
    bad = [
        (pb.ConverseRequest(submit=pb.SubmitInputRequest(request_id="a")), "a", "INVALID_REQUEST"),
        (pb.ConverseRequest(submit=submit_request("sess_other", "hi", request_id="b")), "b", "INVALID_REQUEST"),
        (
            pb.ConverseRequest(submit=submit_request("", {"cancel": {"turn_id": "turn_1"}}, request_id="c")),
            "c",
            "TURN_NOT_FOUND",
        ),
        (pb.ConverseRequest(watch=pb.WatchRequest(session_id=made.session_id)), "", "INVALID_REQUEST"),
        (pb.ConverseRequest(), "", "INVALID_REQUEST"),
        (b"\xff\xff\xff", "", "INVALID_REQUEST"),
        (b"\0" * (16 * 1024 * 1024 + 1), "", "MESSAGE_TOO_LARGE"),
    ]
    for frame, request_id, reason in bad:
        await talk.call.write(frame if isinstance(frame, bytes) else frame.SerializeToString())
        error = (await talk.answer()).error
        assert error.request_id == request_id
        assert error_pb2.ErrorReason.Name(error.error.reason) == f"ERROR_REASON_{reason}"
        assert error.error.message
    await talk.call.write(pb.ConverseRequest(submit=submit_request("", "hi")).SerializeToString())

    messages = await talk.end()

    assert told(events_in(messages), "turn_completed")[0].turn.output == "ok"


async def test_the_half_close_waits_for_rest(serve: Serve) -> None:
    """The caller has said all; the server goes on until the session rests, then ends with OK."""
    gate = Gate()
    served = await serve(say("one ", gate, "two"))
    talk = Conversation(served.client)
    await talk.write(create=pb.CreateSessionRequest(request_id=fresh(), agent=helper()))
    await talk.answer()
    await talk.write(submit=submit_request("", "hi"))
    await talk.answer()
    await talk.call.done_writing()
    await gate.reached()
    gate.open()

    messages = await everything(frames(talk.call))

    assert kinds(events_in(messages))[-1] == "session_idle"
    assert await soon(talk.call.code()) is grpc.StatusCode.OK


async def test_the_stream_stays_over_rests_until_the_half_close(serve: Serve) -> None:
    """Between two inputs the session rests, and the stream does not end."""
    served = await serve(calls(KYOTO), say("18"), say("more"))
    talk = Conversation(served.client)
    config = {"unserved_grace": {"seconds": 0}}
    await talk.write(create=pb.CreateSessionRequest(request_id=fresh(), agent=helper("get_weather"), run_config=config))
    made = (await talk.answer()).session
    await talk.write(submit=submit_request("", "hi"))
    await talk.answer()
    await served.client.rest(made.session_id)
    (action,) = (await served.client.get(made.session_id)).required_actions
    await talk.write(submit=submit_request("", result_for(action, output="18")))
    await talk.answer()
    await served.client.rest(made.session_id)
    await talk.write(submit=submit_request("", "hi again"))
    await talk.answer()

    messages = await talk.end()

    assert kinds(events_in(messages)).count("turn_completed") == 2


async def test_follow_none_ends_with_the_half_close(serve: Serve) -> None:
    """Who watches with NONE gets what is there when it has said all."""
    gate = Gate()
    served = await serve(say("one ", gate, "two"))
    made = await served.client.session()
    talk = Conversation(served.client)
    await talk.write(watch=pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_NONE))
    await talk.answer()
    await talk.write(submit=submit_request("", "hi"))
    await talk.answer()
    await gate.reached()

    messages = await talk.end()

    assert "turn_completed" not in kinds(events_in(messages))
    gate.open()


async def test_leaving_a_conversation_leaves_the_turn(serve: Serve) -> None:
    """A broken stream ends neither the session nor what goes on in it."""
    gate = Gate()
    served = await serve(say("one ", gate, "two"))
    made = await served.client.session()
    talk = Conversation(served.client)
    await talk.write(watch=pb.WatchRequest(session_id=made.session_id))
    await talk.answer()
    await talk.write(submit=submit_request("", "hi"))
    await gate.reached()
    talk.call.cancel()
    gate.open()

    assert kinds(await served.client.rest(made.session_id))[-1] == "session_idle"


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ({"watch": {"session_id": "sess_none"}}, "SESSION_NOT_FOUND"),
        ({"create": {"request_id": "x", "agent_ref": {"agent_id": "agent_none"}}}, "AGENT_NOT_FOUND"),
        ({"create": {"request_id": "x", "key": "taken"}}, "SESSION_KEY_TAKEN"),
    ],
)
async def test_a_first_frame_that_cannot_be_taken_ends_the_stream(
    serve: Serve, first: dict[str, Any], reason: str
) -> None:
    """There is nothing to talk about; the reasons are those of the two rpcs."""
    served = await serve()
    await served.client.session(key="taken")
    talk = Conversation(served.client)
    await talk.write(**first)

    assert (await refused(everything(frames(talk.call)))).reason == reason


async def test_a_first_watch_behind_the_log_ends_the_stream(serve: Serve) -> None:
    """As Watch does: a sequence that was never reached is no place to begin."""
    served = await serve()
    made = await served.client.session()
    talk = Conversation(served.client)
    await talk.write(watch=pb.WatchRequest(session_id=made.session_id, after_sequence=9))

    assert (await refused(everything(frames(talk.call)))).reason == "SEQUENCE_AHEAD"


@pytest.mark.parametrize("closed", [True, False])
async def test_a_stream_that_says_nothing_is_ended(serve: Serve, closed: bool) -> None:
    """Without a first frame in time, or at all, the stream ends with what was expected."""
    served = await serve(hello_timeout_s=0.05)
    talk = Conversation(served.client)
    if closed:
        await talk.call.done_writing()

    told_ = await refused(everything(frames(talk.call)))

    assert (told_.code, told_.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert "first frame" in told_.message


async def test_a_deleted_session_ends_the_conversation(serve: Serve) -> None:
    """The stream ends with the reason, and does not hang on a caller who is still to write."""
    served = await serve()
    made = await served.client.session()
    talk = Conversation(served.client)
    await talk.write(watch=pb.WatchRequest(session_id=made.session_id))
    await talk.answer()
    await until(frames(talk.call), "session_created")
    await served.client.sessions.DeleteSession(pb.DeleteSessionRequest(request_id=fresh(), session_id=made.session_id))

    assert (await refused(everything(frames(talk.call)))).reason == "SESSION_NOT_FOUND"
