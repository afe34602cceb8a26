"""Follows a turn to its rest, over breaks and restarts of the server, and cancels it when the person says stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from baton import AgentsException, Client
from baton.runs.rests import MAX_SERVED_RESTS
from baton.runs.turn_status import ENDED
from baton.transport.retry import Backoff, Timing
from baton.v1 import event_pb2, runner_pb2, session_pb2
from baton_server.cli.talk.hosting import Hosting
from baton_server.cli.talk.screen import Screen
from baton_server.cli.talk.transcript import THINKING, Transcript


@dataclass(slots=True, kw_only=True)
class View:
    """Who looks at a turn. `own_input`: the user's messages need not be shown; `position`: events seen so far.

    `began` is called once for each turn, with session and turn; `on_event` with each event.
    """

    screen: Screen
    own_input: bool = True
    position: int = 0
    began: Callable[[str, str], None] = lambda session_id, turn_id: None
    on_event: Callable[[event_pb2.Event], None] = lambda event: None
    turn_id: str = ""
    transcript: Transcript = field(init=False)

    def __post_init__(self) -> None:
        self.transcript = Transcript(own_input=self.own_input)

    @property
    def deltas(self) -> event_pb2.DeltaLevel.ValueType:
        """Say which fragments are wanted: none where nobody sees them."""
        return event_pb2.DELTA_LEVEL_FRAGMENTS if self.screen.live else event_pb2.DELTA_LEVEL_NONE

    def started(self, session_id: str, turn_id: str) -> None:
        """Take note of the turn; a stream that was resumed says it again."""
        if turn_id and turn_id != self.turn_id:
            self.turn_id = turn_id
            self.began(session_id, turn_id)

    async def take(self, client: Client, part: event_pb2.StreamPart) -> None:
        """Show a part."""
        if part.WhichOneof("part") == "event":
            self.position = part.event.sequence
            self.on_event(part.event)
            if part.event.HasField("item_done"):
                await client.complete(part.event.session_id, part.event.item_done.item)
        self.screen.show(self.transcript.feed(part))


async def follow_run(
    client: Client,
    request: runner_pb2.RunRequest,
    view: View,
    stop: asyncio.Event,
    here: Hosting,
) -> runner_pb2.RunResponse:
    """Run, or go on with a run of the same request_id, until its turn rests. `stop` cancels the turn.

    `here`: functions of this process. A rest only because they were not attached for a moment is none.
    """
    backoff = Backoff(Timing())
    view.screen.show([THINKING])
    async with _cancelling(client, view.screen, stop) as known:
        for _ in range(MAX_SERVED_RESTS):
            response = await _until_rest(client, request, view, known)
            if response.turn.status in ENDED or not here.serves_all(response.required_actions):
                break
            await here.attached()
            await backoff.wait()
    return response


async def follow_session(
    client: Client,
    session: session_pb2.Session,
    view: View,
    until: session_pb2.Follow.ValueType,
    stop: asyncio.Event,
) -> session_pb2.Session:
    """Show what goes on in a session; return it as it stands then. `stop` cancels its turn."""
    async with _cancelling(client, view.screen, stop) as known:
        known(session.session_id, session.active_turn_id)
        parts = client.watch(session.session_id, after_sequence=view.position, follow_until=until, deltas=view.deltas)
        async with aclosing(parts):
            async for part in parts:
                known(session.session_id, part.event.turn_id)
                await view.take(client, part)
    return await client.get_session(session.session_id)


Known = Callable[[str, str], None]
"""Is told which turn it is: session and turn; empty: not known yet."""


async def _until_rest(
    client: Client, request: runner_pb2.RunRequest, view: View, known: Known
) -> runner_pb2.RunResponse:
    messages = client.run_streamed(request, after_sequence=view.position, deltas=view.deltas)
    response = runner_pb2.RunResponse()
    async with aclosing(messages):
        async for message in messages:
            if message.HasField("started"):
                known(message.started.session_id, message.started.turn_id)
                view.started(message.started.session_id, message.started.turn_id)
            if message.HasField("result"):
                response = message.result
            for part in message.parts:
                await view.take(client, part)
    return response


@asynccontextmanager
async def _cancelling(client: Client, screen: Screen, stop: asyncio.Event) -> AsyncIterator[Known]:
    """Cancel the turn that the block follows, once both is known: which one it is, and that it is to stop.

    With the block the screen comes to rest.
    """
    turn: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    def known(session_id: str, turn_id: str) -> None:
        if turn_id and not turn.done():
            turn.set_result((session_id, turn_id))

    async def cancel() -> None:
        await stop.wait()
        session_id, turn_id = await turn
        try:
            await client.cancel(session_id, turn_id)
        except AgentsException as error:
            screen.note(f"the turn could not be cancelled: {error}")

    task = asyncio.create_task(cancel())
    try:
        yield known
    finally:
        screen.rest()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
