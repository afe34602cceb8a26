"""A run's own stream begins with the events of its acceptance, which are at hand; whatever came since is not lost."""

from pathlib import Path

from tests.api.calling import client_of, soon
from tests.support.scripted_model import Gate, ScriptedModel, say
from tests.support.server import server

from baton.v1 import event_pb2
from baton_server.app.calls.registry import Registry
from baton_server.app.turns.rest import Rest
from baton_server.app.watch import Watch, Watcher
from baton_server.main import Baton
from baton_server.ports.store import EventRow


async def watched(baton: Baton, watch: Watch) -> list[int]:
    """Watch until the turn rests; returns the sequences of the events that came, in order."""
    watcher = Watcher(baton.runtime, baton.driver, Rest(baton.runtime, Registry(), baton.driver))
    messages = [event_pb2.StreamPart.FromString(part) async for parts in watcher.parts(watch) for part in parts]
    return [message.event.sequence for message in messages if message.HasField("event")]


async def log_of(baton: Baton, session_id: str) -> list[EventRow]:
    """Read the log of a session."""
    return list(await baton.runtime.store.events.after(session_id, 0, 100))


async def test_whatever_was_at_hand_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    """The turn had ended before its caller took the first message: the rest is read from the log."""
    async with server(tmp_path, ScriptedModel([say("one")])) as baton, client_of(baton) as client:
        session = await client.session()
        answer = await client.submit(session.session_id, "Go.")
        await client.rest(session.session_id)
        log = [row for row in await log_of(baton, session.session_id) if row.turn_id == answer.turn_id]
        assert len(log) > 4

        for count in range(1, len(log) + 1):
            watch = Watch(session_id=session.session_id, turn_id=answer.turn_id, at_hand=log[:count])
            assert await soon(watched(baton, watch)) == [row.sequence for row in log]


async def test_of_a_turn_that_works_nothing_is_read(tmp_path: Path) -> None:
    """All that it has committed is at hand; what follows comes by the bus."""
    gate = Gate()
    async with server(tmp_path, ScriptedModel([say("one", gate)])) as baton, client_of(baton) as client:
        session = await client.session()
        answer = await client.submit(session.session_id, "Go.")
        await gate.reached()
        log = await log_of(baton, session.session_id)
        watch = Watch(session_id=session.session_id, turn_id=answer.turn_id, at_hand=log)
        watcher = Watcher(baton.runtime, baton.driver, Rest(baton.runtime, Registry(), baton.driver))
        parts = watcher.parts(watch)

        first = [event_pb2.StreamPart.FromString(part) for part in await anext(parts)]

        assert [one.event.sequence for one in first] == [row.sequence for row in log if row.turn_id == answer.turn_id]
        gate.open()
        rest = [event_pb2.StreamPart.FromString(part) async for more in parts for part in more]
        assert [one.event.WhichOneof("event") for one in rest if one.HasField("event")][-1] == "turn_completed"
