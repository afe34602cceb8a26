"""Watch: the log from any point, gap-free, then what happens, until the caller wants no more."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from tests.api.calling import (
    Client,
    attach,
    client_of,
    events_in,
    everything,
    frame,
    fresh,
    helper,
    kinds,
    parts_in,
    refused,
    result_for,
    soon,
    until,
)
from tests.api.conftest import Serve, Served
from tests.support.scripted_model import Gate, calls, message, say
from tests.support.server import server

from baton.v1 import event_pb2
from baton.v1 import session_pb2 as pb
from baton_server.core.inputs import ModelReplied
from baton_server.core.responses import read_item
from baton_server.ports.model import ModelRequest, TextDelta

KYOTO = ("get_weather", '{"city":"Kyoto"}')


async def talked(served: Served, turns: int = 2) -> str:
    """Make a session with some turns in it, at rest."""
    made = await served.client.session()
    for number in range(turns):
        await served.client.run(session_id=made.session_id, text=f"m{number}")
    return made.session_id


async def test_a_watch_begins_at_any_sequence(serve: Serve) -> None:
    """From each point on, the events are the rest of the log, and the last word is where it ends."""
    served = await serve(lambda _: say("ok"))
    session_id = await talked(served)
    whole = await served.client.events(session_id)
    for after in range(len(whole) + 1):
        request = pb.WatchRequest(session_id=session_id, after_sequence=after, follow=pb.FOLLOW_NONE)
        messages = await everything(served.client.sessions.Watch(request))

        assert events_in(messages) == whole[after:]
        (beat,) = [part.heartbeat for part in parts_in(messages) if part.HasField("heartbeat")]
        assert messages[-1].parts[-1].HasField("heartbeat")
        assert beat.last_sequence == len(whole)
        assert beat.now.seconds > 0


async def test_events_are_the_same_bytes_however_they_are_read(serve: Serve) -> None:
    """Live, replayed and by pages, each event is the same, byte for byte."""
    gate = Gate()
    served = await serve(say("one ", gate, "two"), say("three"))
    made = await served.client.session()
    request = pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER)
    live = served.client.sessions.Watch(request)
    await until(live, "session_created")
    await served.client.submit(made.session_id, "hi")
    await gate.reached()
    gate.open()
    seen = [part.event for part in await until(live, "session_idle") if part.HasField("event")]

    replayed = await served.client.rest(made.session_id, after_sequence=1)
    listed = await served.client.events(made.session_id, after_sequence=1, page_size=3)

    assert [event.SerializeToString() for event in seen] == [event.SerializeToString() for event in replayed]
    assert [event.SerializeToString() for event in seen] == [event.SerializeToString() for event in listed]


async def test_a_commit_travels_as_one_message(serve: Serve) -> None:
    """What was recorded together is told together, so that no reader sees half of it."""
    served = await serve(calls(KYOTO), say("done"))
    made = await served.client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    live = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER))
    await until(live, "session_created")
    await served.client.submit(made.session_id, "hi")

    told = []
    while not any("session_requires_action" in kinds_ for kinds_ in told):
        told.append(kinds(events_in([await soon(anext(aiter(live)))])))

    assert [one for one in told if one] == [
        ["session_in_progress", "turn_created", "turn_in_progress", "agent_changed", "item_added"],
        ["item_added", "round_completed", "session_requires_action"],
    ]


async def test_a_watch_of_what_is_at_rest_ends_at_once(serve: Serve) -> None:
    """REST, the default, ends with OK where nothing goes on: idle, or waiting for what nobody serves."""
    served = await serve(calls(KYOTO), say("done"))
    made = await served.client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    assert kinds(await served.client.rest(made.session_id)) == ["session_created"]

    await served.client.submit(made.session_id, "hi")
    waiting = await served.client.rest(made.session_id)
    again = await served.client.rest(made.session_id, after_sequence=waiting[-1].sequence)
    (action,) = (await served.client.get(made.session_id)).required_actions
    await served.client.submit(made.session_id, result_for(action, output="18"))
    ended = await served.client.rest(made.session_id, after_sequence=waiting[-1].sequence)

    assert kinds(waiting)[-1] == "session_requires_action"
    assert again == []
    assert kinds(ended)[-1] == "session_idle"


async def test_a_watch_does_not_rest_while_a_worker_has_a_call(serve: Serve) -> None:
    """A call with a worker is work; the watch goes on to the answer."""
    served = await serve(calls(KYOTO), say("done"))
    worker = await attach(served.client, "get_weather")
    made = await served.client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    await served.client.submit(made.session_id, "hi")
    call = (await soon(worker.read())).call
    watch = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id))
    await until(watch, "session_requires_action")
    await worker.write(frame(result={"call_id": call.call_id, "attempt": 1, "output": "18"}))

    assert kinds(events_in(await everything(watch)))[-1] == "session_idle"


async def test_a_worker_that_leaves_lets_the_watch_rest(serve: Serve) -> None:
    """When the last worker takes its handlers back, the grace begins, and then the session rests."""
    served = await serve(calls(KYOTO), say("done"))
    worker = await attach(served.client, "get_weather", credit=0)
    made = await served.client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    await served.client.submit(made.session_id, "hi")
    watch = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id))
    await until(watch, "session_requires_action")
    await worker.write(frame(unregister={"handlers": [{"name": "get_weather"}]}))

    assert events_in(await everything(watch)) == []


async def test_a_watch_may_go_on_for_ever(serve: Serve) -> None:
    """FOREVER goes on over rests, until the caller leaves; which changes nothing for others."""
    served = await serve(lambda _: say("ok"))
    made = await served.client.session()
    one, two = (
        served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER))
        for _ in range(2)
    )
    for _ in range(2):
        await served.client.run(session_id=made.session_id)
        seen = [kinds([part.event for part in await until(watch, "session_idle")]) for watch in (one, two)]
        assert [kind for kind in seen[0] if kind] == [kind for kind in seen[1] if kind]
    one.cancel()
    await served.client.run(session_id=made.session_id)

    assert "turn_completed" in kinds([part.event for part in await until(two, "session_idle")])


async def test_none_ends_while_a_turn_runs(serve: Serve) -> None:
    """NONE gives what is in the log and ends, though more is to come."""
    gate = Gate()
    served = await serve(say("half ", gate, "done"))
    made = await served.client.session()
    await served.client.submit(made.session_id, "hi")
    await gate.reached()

    messages = await everything(
        served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_NONE))
    )

    assert kinds(events_in(messages))[-1] == "item_added"
    gate.open()


async def test_a_quiet_watch_hears_a_heartbeat(serve: Serve) -> None:
    """Where nothing happens, the stream still says that it lives and where it stands."""
    served = await serve(heartbeat_s=0.05)
    made = await served.client.session()
    watch = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER))

    parts = [*await until(watch, "heartbeat"), *await until(watch, "heartbeat")]

    assert [part.WhichOneof("part") for part in parts] == ["event", "heartbeat", "heartbeat"]
    assert [part.heartbeat.last_sequence for part in parts[1:]] == [1, 1]


async def test_a_sequence_that_was_never_reached_is_refused(serve: Serve) -> None:
    """A reader with a sequence of another log, or of a lost one, is told instead of waiting for ever."""
    client = (await serve()).client
    made = await client.session()
    for call in (
        everything(client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, after_sequence=2))),
        client.events(made.session_id, after_sequence=2),
    ):
        told = await refused(call)

        assert (told.code, told.reason) == (grpc.StatusCode.OUT_OF_RANGE, "SEQUENCE_AHEAD")
        assert told.metadata == {"after_sequence": "2", "last_sequence": "1"}


async def test_a_watch_of_one_turn_passes_over_the_others(serve: Serve) -> None:
    """Only that turn's events come, its rest is the end, and the sequence told covers what was passed over."""
    served = await serve(lambda _: say("ok"))
    session_id = await talked(served, turns=3)
    turns = (await served.client.sessions.ListTurns(pb.ListTurnsRequest(session_id=session_id))).turns
    whole = await served.client.events(session_id)

    for turn in turns:
        request = pb.WatchRequest(session_id=session_id, turn_id=turn.turn_id)
        messages = await everything(served.client.sessions.Watch(request))

        own = [event for event in whole if event.turn_id == turn.turn_id]
        assert events_in(messages) == own == await served.client.events(session_id, turn_id=turn.turn_id, page_size=2)
        assert (own[0].sequence, own[-1].sequence) == (turn.first_sequence, turn.last_sequence)
        assert parts_in(messages)[-1].heartbeat.last_sequence == len(whole)


async def test_a_watch_of_an_ended_turn_ends_though_another_runs(serve: Serve) -> None:
    """REST of a turn is that turn's, and not the session's."""
    gate = Gate()
    served = await serve(say("one"), say(gate, "two"))
    made = await served.client.session()
    first = await served.client.run(session_id=made.session_id)
    await served.client.submit(made.session_id, "more")
    await gate.reached()

    events = await served.client.rest(made.session_id, turn_id=first.turn.turn_id)

    assert kinds(events)[-1] == "turn_completed"
    gate.open()


@pytest.mark.parametrize("follow", ["FOLLOW_REST", "FOLLOW_FOREVER", "FOLLOW_NONE"])
async def test_a_turn_that_is_not_there_cannot_be_watched(serve: Serve, follow: str) -> None:
    """An unknown turn, or one of another session, is told by its own reason."""
    served = await serve(lambda _: say("ok"))
    made, other = await served.client.session(), await served.client.run()
    for turn_id in ("turn_none", other.turn.turn_id):
        request = pb.WatchRequest(session_id=made.session_id, turn_id=turn_id, follow=follow)

        told = await refused(everything(served.client.sessions.Watch(request)))

        assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "TURN_NOT_FOUND")
        assert (await refused(served.client.events(made.session_id, turn_id=turn_id))).reason == "TURN_NOT_FOUND"


async def test_without_fragments_only_facts_come(serve: Serve) -> None:
    """With deltas NONE neither fragments nor resets are sent."""
    gate = Gate()
    served = await serve(say("one ", gate, "two"))
    made = await served.client.session()
    await served.client.submit(made.session_id, "hi")
    await gate.reached()
    request = pb.WatchRequest(session_id=made.session_id, deltas=event_pb2.DELTA_LEVEL_NONE)
    watch = served.client.sessions.Watch(request)
    before = await until(watch, "item_added")
    gate.open()

    parts = [*before, *parts_in(await everything(watch))]

    assert {part.WhichOneof("part") for part in parts} == {"event", "heartbeat"}


async def test_pages_of_events_go_to_the_end_however_large_they_are(serve: Serve) -> None:
    """A page that closes early says that there is more."""
    served = await serve()
    made = await served.client.session()
    big = "x" * 200_000
    for _ in range(12):
        await _add(served.client, made.session_id, f'[{{"role":"user","content":"{big}"}}]')

    request = pb.ListEventsRequest(session_id=made.session_id)
    first = await served.client.sessions.ListEvents(request)
    events = await served.client.events(made.session_id)

    assert first.has_more
    assert first.last_sequence == first.events[-1].sequence < 13
    assert [event.sequence for event in events] == list(range(1, 14))


async def _add(client: Client, session_id: str, items_json: str) -> None:
    await client.sessions.AddItems(pb.AddItemsRequest(request_id=fresh(), session_id=session_id, items_json=items_json))


class Rambling:
    """A model that writes until it is told to stop."""

    def __init__(self) -> None:
        self.enough = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReplied]:
        """Implement `ports.model.Model`."""
        text = ""
        while not self.enough.is_set():
            yield TextDelta(output_index=0, part_index=0, text="word ")
            text += "word "
            await asyncio.sleep(0)
        yield ModelReplied(round=request.round, items=(read_item(message(text)),))

    async def close(self) -> None:
        """Implement `ports.model.Model`."""


async def test_heartbeats_come_while_fragments_are_passed_over(tmp_path: Path) -> None:
    """What goes on without being sent does not count as a sign of life."""
    model = Rambling()
    async with server(tmp_path, model, heartbeat_s=0.1) as baton, client_of(baton) as client:
        made = await client.session()
        watch = client.sessions.Watch(
            pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER, deltas=event_pb2.DELTA_LEVEL_NONE)
        )
        await client.submit(made.session_id, "ramble")
        await until(watch, "turn_in_progress")

        await until(watch, "heartbeat")
        await until(watch, "heartbeat")

        model.enough.set()
        await until(watch, "turn_completed")
