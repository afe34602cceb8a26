"""The server is killed in the middle of a streamed message; who listened gets all of it, once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from tests.crash.house import House, agent, house, said
from tests.crash.raw_clients import BROKEN, PATIENCE_S, RawWatcher, going, persist, text_of
from tests.support.model_server import ModelServer

from baton.v1 import event_pb2, runner_pb2, session_pb2

pytestmark = pytest.mark.slow

TEXT = "seven words that come one by one"
OTHER = "an altogether different reply, since a model says nothing twice"
PAUSE = 7
"""Events of the model's stream after which it falls silent: in the middle of the text."""


def script(model_server: ModelServer, name: str, second: str = TEXT) -> str:
    """Load a model that stops in the middle of a reply, gives it whole when it is asked again, and knows a word."""
    return model_server.load(name, {"text": TEXT, "pause_after_events": PAUSE}, {"text": second}, {"text": "word"})


@pytest.mark.parametrize("second", [TEXT, OTHER], ids=["the same reply", "another reply"])
async def test_a_watcher_that_comes_back_gets_the_whole_text_once(
    second: str, tmp_path: Path, model_server: ModelServer
) -> None:
    """The fragments that it had are void; those that come are the text of the one message in the log."""
    model = script(model_server, "cut-watch", second)
    async with house(tmp_path / "baton.db", model_server.base_url) as home:
        session_id = await home.new_session(agent(model))
        watcher = RawWatcher(home.channel, session_id)
        async with going(watcher):
            answer = await home.submit(session_id, said("speak"))
            await watcher.until(lambda: any(watcher.texts.values()))
            (so_far,) = watcher.texts.values()
            assert TEXT.startswith(so_far)
            assert so_far != TEXT
            home.process.kill()
            turn = await watcher.until_ended(answer.turn_id)
            assert turn.output == second
            await home.check_takes_input(watcher, session_id)
        made = [event.item_done.item for event in watcher.events if event.HasField("item_done")]
        assert [text_of(item.message.content) for item in made] == [second, "word"]
        assert len(home.process.starts) == 2
        assert len(model_server.requests("cut-watch")) == 3


@dataclass(slots=True, kw_only=True)
class Streamed:
    """What one RunStreamed brought. `cut`: it broke before its result."""

    started: runner_pb2.RunStarted = field(default_factory=runner_pb2.RunStarted)
    result: runner_pb2.RunResponse | None = None
    events: list[event_pb2.Event] = field(default_factory=list)
    text: str = ""
    cut: bool = False


async def streamed(home: House, request: runner_pb2.RunStreamedRequest, grown: asyncio.Event) -> Streamed:
    """Send a streamed run and read it to its end; `grown` is set at its first fragment."""
    seen = Streamed()
    try:
        async for response in home.runner.RunStreamed(request, wait_for_ready=True):
            match response.WhichOneof("frame"):
                case "started":
                    seen.started = response.started
                case "result":
                    seen.result = response.result
                case None:
                    for part in response.parts:
                        _take(seen, part, grown)
    except grpc.aio.AioRpcError as error:
        assert error.code() in BROKEN, error
        seen.cut = True
    return seen


async def begins(reading: asyncio.Future[Streamed], grown: asyncio.Event) -> None:
    """Wait for the first fragment of a run that is being read; one that ends without any says how."""
    growing = asyncio.ensure_future(grown.wait())
    await asyncio.wait({reading, growing}, return_when=asyncio.FIRST_COMPLETED)
    growing.cancel()
    assert grown.is_set(), f"it ended without any text: {reading.result()}"


async def persisted(home: House, request: runner_pb2.RunStreamedRequest, grown: asyncio.Event) -> Streamed:
    """Send a streamed run until it comes to its end: a channel may not know yet that its server has died."""
    while True:
        seen = await streamed(home, request, grown)
        if not seen.cut:
            return seen


def _take(seen: Streamed, part: event_pb2.StreamPart, grown: asyncio.Event) -> None:
    if part.HasField("event"):
        seen.events.append(part.event)
    elif part.HasField("reset"):
        seen.text = "".join(text_of(item.message.content) for item in part.reset.items)
        if seen.text:
            grown.set()
    elif part.HasField("delta"):
        assert part.delta.offset == len(seen.text.encode())
        seen.text += part.delta.output_text
        grown.set()


async def test_a_streamed_run_sent_again_shows_the_whole_turn(tmp_path: Path, model_server: ModelServer) -> None:
    """Cut and sent again with its request_id it is the same turn, from its first event to its result."""
    paused = {"pause_after_events": PAUSE}
    model = model_server.load("cut-run", {"text": TEXT, **paused}, {"text": OTHER, **paused})
    request = runner_pb2.RunStreamedRequest(request_id="the-run", agent=agent(model), text="speak")
    async with house(tmp_path / "baton.db", model_server.base_url) as home:
        grown = asyncio.Event()
        reading = asyncio.ensure_future(streamed(home, request, grown))
        async with asyncio.timeout(PATIENCE_S):
            await begins(reading, grown)
            home.process.kill()
            first = await reading
            grown.clear()
            reading = asyncio.ensure_future(persisted(home, request, grown))
            await begins(reading, grown)
            model_server.resume("cut-run")
            second = await reading
            third = await streamed(home, request, asyncio.Event())
    assert first.cut
    assert first.started.created
    assert first.result is None
    assert not second.cut
    assert (second.started.turn_id, second.started.created) == (first.started.turn_id, False)
    assert second.text == OTHER
    for seen in (second, third):
        sequences = [event.sequence for event in seen.events]
        assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
        assert seen.events[: len(first.events)] == first.events
        assert seen.result is not None
        assert seen.result.turn.status == event_pb2.TURN_STATUS_COMPLETED
        assert seen.result.turn.output == OTHER
    assert third.events == second.events


async def test_a_run_sent_again_waits_for_its_turn(tmp_path: Path, model_server: ModelServer) -> None:
    """A unary run that broke is answered when it is sent again, by the turn that it had started."""
    model = script(model_server, "cut-unary")
    request = runner_pb2.RunRequest(request_id="the-run", agent=agent(model), text="speak")
    async with house(tmp_path / "baton.db", model_server.base_url) as home:
        asking = asyncio.ensure_future(persist(lambda: home.runner.Run(request, wait_for_ready=True)))
        assert await model_server.wait_for("cut-unary", lambda requests: len(requests) == 1)
        home.process.kill()
        answer = await asking
        listed = await home.sessions.ListTurns(session_pb2.ListTurnsRequest(session_id=answer.session_id))
    assert answer.turn.output == TEXT
    assert [turn.turn_id for turn in listed.turns] == [answer.turn.turn_id]
