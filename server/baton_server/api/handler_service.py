"""HandlerService: workers attach."""

from __future__ import annotations

from baton.v1 import handler_pb2
from baton_server.api.rpc import Context, Rpc
from baton_server.api.worker_stream import WorkerStream
from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.workers import Workers
from baton_server.app.runtime import Runtime


class HandlerService:
    """Serves workers' streams."""

    def __init__(self, runtime: Runtime, workers: Workers, dispatcher: Dispatcher, version: str) -> None:
        self._runtime, self._workers, self._dispatcher, self._version = runtime, workers, dispatcher, version

    def rpcs(self) -> dict[str, Rpc]:
        """List the methods."""
        return {"Connect": Rpc(request=handler_pb2.ConnectRequest, bidi=self.connect)}

    async def connect(self, context: Context) -> None:
        """Attach a worker."""
        stream = WorkerStream(self._runtime, self._workers, self._dispatcher, context, self._version)
        await stream.run()
