"""Progress reaches whoever watches the session, while the function works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.api.calling import parts_in, soon
from tests.support.scripted_worker import ScriptedWorker
from tests.support.stage import Stage, Turn

from baton.v1 import event_pb2, handler_pb2, session_pb2


class Watching:
    """Somebody who watches a session."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def until(self, arm: str) -> list[event_pb2.StreamPart]:
        """Read up to the first part, or event, of an arm."""
        found: list[event_pb2.StreamPart] = []

        async def read() -> None:
            async for message in self._call:
                found.extend(parts_in([message]))
                if any(arm in (p.delta.WhichOneof("delta"), p.event.WhichOneof("event")) for p in parts_in([message])):
                    return

        await soon(read())
        return found


@asynccontextmanager
async def watching(stage: Stage, turn: Turn) -> AsyncIterator[Watching]:
    """Watch a session from its first event on, until its calls are open."""
    request = session_pb2.WatchRequest(session_id=turn.session_id, follow=session_pb2.FOLLOW_FOREVER)
    call = stage.client.sessions.Watch(request)
    seen = Watching(call)
    await seen.until("session_requires_action")
    yield seen
    call.cancel()


async def report(worker: ScriptedWorker, call: handler_pb2.Call, number: int, **said: str) -> None:
    """Report."""
    await worker.send(progress={"call_id": call.call_id, "attempt": call.attempt, "number": number, **said})


def reports(parts: list[event_pb2.StreamPart]) -> list[event_pb2.Delta]:
    """List the reports among some parts."""
    return [part.delta for part in parts if part.delta.HasField("progress")]


async def test_a_report_is_seen_while_the_function_works(stage: Stage) -> None:
    """With its call, its turn and the round that made it."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    async with watching(stage, turn) as watcher:
        await report(worker, call, 1, progress_json='{"done":0.5}')

        (delta,) = reports(await watcher.until("progress"))

        assert (delta.turn_id, delta.round) == (turn.turn_id, 1)
        assert (delta.progress.call_id, delta.progress.attempt, delta.progress.number) == (call.call_id, 1, 1)
        assert delta.progress.progress_json == '{"done":0.5}'
        await worker.finish(call)


async def test_the_last_report_comes_before_the_result(stage: Stage) -> None:
    """Of a flood the first and the last are seen; the log has none of them."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    async with watching(stage, turn) as watcher:
        for number in range(1, 101):
            await report(worker, call, number, output_so_far="x" * number)
        await worker.finish(call)

        parts = await watcher.until("turn_completed")

    assert [delta.progress.number for delta in reports(parts)] == [1, 100]
    kinds = [part.event.WhichOneof("event") or part.delta.WhichOneof("delta") for part in parts]
    assert kinds.index("item_added") > max(n for n, kind in enumerate(kinds) if kind == "progress")
    assert not any("x" * 50 in str(event) for event in await stage.client.events(turn.session_id))


async def test_a_report_of_somebody_else_is_not_seen(stage: Stage) -> None:
    """Nor is one of an attempt that was given back; both are passed over without a word."""
    worker, stranger = await stage.worker("f"), await stage.worker("g")
    turn = await stage.call("f")
    call = await worker.expect("call")
    async with watching(stage, turn) as watcher:
        await report(stranger, call, 5, text="not mine")
        await stranger.nothing()
        await worker.send(nack={"call_id": call.call_id, "attempt": 1})
        again = await worker.expect("call")
        await report(worker, call, 6, text="too late")
        await report(worker, again, 1, text="at work")

        (delta,) = reports(await watcher.until("progress"))

        assert delta.progress.text == "at work"
        await worker.finish(again)
