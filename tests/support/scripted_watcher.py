"""A worker that watches calls, of which a test is the script. What it says, it says by rpcs of their own.

watcher = await Watcher.watching(client, "get_weather", credit=2)
call = await watcher.expect("call")
ack = await watcher.settle(call, output="18 °C")
"""

from __future__ import annotations

from typing import Any

import grpc

from baton.v1 import handler_pb2
from tests.api.calling import Client, Refusal, refusal_of, refused, soon
from tests.support.scripted_worker import result_of

OK = Refusal(code=grpc.StatusCode.OK, message="", reason="", metadata={})


class Watcher:
    """One WatchCalls. What comes must be expected in its order; heartbeats alone are passed over, and counted."""

    def __init__(self, client: Client, request: handler_pb2.WatchCallsRequest) -> None:
        self._client = client
        self._call = client.handlers.WatchCalls(request)
        self.welcome = handler_pb2.Welcome()
        self.beats = 0

    @classmethod
    async def watching(
        cls, client: Client, *names: str, credit: int | None = None, ends: dict[str, Any] | None = None, **hello: Any
    ) -> Watcher:
        """Watch for calls of functions, and take the Welcome. `ends`: other fields of the request than its Hello."""
        given: dict[str, Any] = {"handlers": [{"name": name} for name in names], **hello}
        if credit is not None:
            given["credit"] = {"messages": credit}
        watcher = cls(client, handler_pb2.WatchCallsRequest(hello=given, **(ends or {})))
        watcher.welcome = await watcher.expect("welcome")
        return watcher

    @property
    def worker_id(self) -> str:
        """Say who it is."""
        return self.welcome.worker_id

    # -- what comes ------------------------------------------------------------------------------

    async def frame(self) -> handler_pb2.WatchCallsResponse | None:
        """Take the next frame that is no heartbeat; None: the stream has ended with OK."""
        while True:
            frame = await soon(self._call.read())
            if frame is grpc.aio.EOF:
                return None
            assert isinstance(frame, handler_pb2.WatchCallsResponse)
            if not frame.HasField("heartbeat"):
                return frame
            self.beats += 1

    async def expect(self, arm: str) -> Any:
        """Take the next frame, which must be of this arm."""
        frame = await self.frame()
        assert frame is not None, f"{arm} was expected, the stream has ended"
        assert frame.WhichOneof("frame") == arm, f"{arm} was expected, this came: {str(frame)[:500]}"
        return getattr(frame, arm)

    async def ended(self) -> Refusal:
        """Wait for the end of the stream, with nothing before it; says how it ended."""
        try:
            frame = await self.frame()
        except grpc.aio.AioRpcError as error:
            return refusal_of(error)
        assert frame is None, f"the end was expected, this came: {str(frame)[:500]}"
        return OK

    def leave(self) -> None:
        """Go away, as a process does that is killed."""
        self._call.cancel()

    # -- what it says ----------------------------------------------------------------------------

    async def settle(self, call: handler_pb2.Call, **outcome: Any) -> handler_pb2.ResultAck:
        """Give a result back by name, and take its ack."""
        return await settled(self._client, call, self.worker_id, **outcome)

    async def finish(self, call: handler_pb2.Call, **outcome: Any) -> None:
        """Give a result back, which must settle the call."""
        ack = await self.settle(call, **outcome)
        assert ack.verdict == handler_pb2.RESULT_VERDICT_DURABLE, ack

    async def give_back(self, call: handler_pb2.Call, **fields: Any) -> handler_pb2.SettleCallResponse:
        """Give a call back."""
        nack = {"call_id": call.call_id, "attempt": call.attempt, **fields}
        request = handler_pb2.SettleCallRequest(worker_id=self.worker_id, nack=nack)
        return await soon(self._client.handlers.SettleCall(request))

    async def answer(self, **answer: Any) -> handler_pb2.ResultAck:
        """Answer a hook, and take the ack."""
        request = handler_pb2.SettleCallRequest(worker_id=self.worker_id, hook_answers={"answers": [answer]})
        (ack,) = (await soon(self._client.handlers.SettleCall(request))).acks
        return ack


async def settled(client: Client, call: handler_pb2.Call, worker_id: str = "", **outcome: Any) -> handler_pb2.ResultAck:
    """Give a result back, and take its ack. `worker_id` empty: by nobody in particular."""
    request = handler_pb2.SettleCallRequest(worker_id=worker_id, result=result_of(call, **outcome))
    (ack,) = (await soon(client.handlers.SettleCall(request))).acks
    assert (ack.call_id, ack.attempt) == (call.call_id, call.attempt)
    return ack


def extend_request(call: handler_pb2.Call, seconds: int = 60, **fields: Any) -> handler_pb2.ExtendCallRequest:
    """Make a request for a longer lease."""
    extend = {"call_id": call.call_id, "attempt": call.attempt, "lease": {"seconds": seconds}}
    return handler_pb2.ExtendCallRequest(extend=extend, **fields)


async def extended(client: Client, call: handler_pb2.Call, seconds: int = 60, **fields: Any) -> Any:
    """Renew the lease of a call."""
    return await soon(client.handlers.ExtendCall(extend_request(call, seconds, **fields)))


async def not_extended(client: Client, call: handler_pb2.Call) -> str:
    """Try to renew a lease that there is not; says why not."""
    return (await refused(client.handlers.ExtendCall(extend_request(call)))).reason
