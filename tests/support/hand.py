"""A worker by hand, for the room of calls: its link, and what it says.

worker = await room.worker("f")
call = worker.expect(Deliver)
worker.ack(call)
await worker.result(call, "done")
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from baton_server.app.calls.frames import CancelReason, Credit, Deliver, End, Frame, Handler, Held, Introduction, Stop
from baton_server.app.calls.worker import Worker
from baton_server.app.calls.workers import Attached
from baton_server.core.inputs import CallSettled
from baton_server.core.items import Settlement, TextPart

if TYPE_CHECKING:
    from tests.support.room import Room

T = TypeVar("T", bound=Frame)


class Hand:
    """A worker by hand, and its link. `frames`: what it was sent and has not looked at."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.frames: list[Frame] = []
        self.unwritten: list[Deliver] = []
        self.takes = True
        self.over = False
        self.attached: Attached

    async def attach(self, hello: Introduction, credit: Credit) -> None:
        """Say Hello."""
        self.attached = await self._room.workers.attach(hello, self)
        assert not self.frames, "something came before Welcome"
        self._room.workers.welcomed(self.attached.worker, credit)
        await self._room.quiet()

    @property
    def worker(self) -> Worker:
        """Say how the server knows it."""
        return self.attached.worker

    @property
    def id(self) -> str:
        """Say its worker_id."""
        return self.worker.worker_id

    @property
    def token(self) -> str:
        """Say its resume token."""
        return self.attached.resume_token

    async def back(self, *names: str | Handler, held: Iterable[Held] = (), **hello: Any) -> Hand:
        """Attach again with the token of this one, on a new stream."""
        return await self._room.worker(*names, resume_token=self.token, held=tuple(held), **hello)

    # -- Link ------------------------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Implement Link."""
        if self.over:
            return
        if isinstance(frame, End):
            self.over = True
        if isinstance(frame, Deliver) and not self.takes:
            self.unwritten.append(frame)
            return
        self.frames.append(frame)
        if isinstance(frame, Deliver):
            self._room.dispatcher.returns.writing(self.worker, frame.call.call_id, frame.call.attempt)
            self._room.dispatcher.returns.written(self.worker, frame.call.call_id, frame.call.attempt)

    @property
    def full(self) -> bool:
        """Implement Link."""
        return not self.takes

    def read_on(self) -> None:
        """Take what waits to be written, and from now on what comes."""
        self.takes = True
        waiting, self.unwritten = self.unwritten, []
        for frame in waiting:
            self.send(frame)

    def withdraw(self, call_id: str, attempt: int) -> bool:
        """Implement Link."""
        left = [one for one in self.unwritten if (one.call.call_id, one.call.attempt) != (call_id, attempt)]
        found = len(left) < len(self.unwritten)
        self.unwritten = left
        return found

    # -- what it says ----------------------------------------------------------------------------

    def ack(self, deliver: Deliver) -> None:
        """Ack a call."""
        self.beat()
        self._room.dispatcher.returns.acked(deliver.call.call_id, deliver.call.attempt, self.id)

    def beat(self) -> None:
        """Give a sign of life."""
        self._room.workers.heard(self.attached.worker)

    async def result(self, deliver: Deliver, text: str = "done", **fields: Any) -> None:
        """Send a result."""
        given = CallSettled(
            call_id=deliver.call.call_id,
            settlement=Settlement.OUTPUT,
            output=(TextPart(text=text),),
            attempt=deliver.call.attempt,
            digest=text,
        )
        self._room.dispatcher.returns.result(self.attached.worker, replace(given, **fields))
        await self._room.quiet()

    async def nack(self, deliver: Deliver, **fields: Any) -> None:
        """Give a call back."""
        self._room.dispatcher.returns.nack(deliver.call.call_id, deliver.call.attempt, self.id, **fields)
        await self._room.quiet()

    async def breaks(self) -> None:
        """Lose the stream."""
        self.over = True
        self._room.workers.broke(self.attached.worker, self)
        await self._room.quiet()

    # -- what came -------------------------------------------------------------------------------

    def expect(self, kind: type[T]) -> T:
        """Take the next frame, which must be of this kind."""
        assert self.frames, f"{kind.__name__} was expected, nothing came"
        frame = self.frames.pop(0)
        assert isinstance(frame, kind), f"{kind.__name__} was expected, this came: {frame}"
        return frame

    def nothing(self) -> None:
        """Make sure that nothing more came."""
        assert not self.frames, self.frames

    def stop(self) -> tuple[str, CancelReason, float]:
        """Take a Stop: call, reason and grace."""
        stop = self.expect(Stop)
        return stop.call_id, stop.reason, stop.grace_s


def held(*delivered: Deliver, **said: Any) -> tuple[Held, ...]:
    """Name what a worker still holds."""
    return tuple(Held(call_id=one.call.call_id, attempt=one.call.attempt, begun=True, **said) for one in delivered)
