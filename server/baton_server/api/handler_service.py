"""HandlerService: workers attach, or watch and settle without a stream both ways; and who asks about them."""

from __future__ import annotations

import asyncio
from typing import Any

from baton.v1 import handler_pb2 as pb
from baton_server.api.attaching import Reception
from baton_server.api.call_watch import CallWatch
from baton_server.api.pages import page_of, token_after
from baton_server.api.rpc import Context, Rpc
from baton_server.api.views import Views
from baton_server.api.worker_frames import Desk
from baton_server.api.worker_stream import WorkerStream
from baton_server.app.calls.explain import Explain
from baton_server.app.calls.frames import Ack, ResultVerdict
from baton_server.app.calls.listing import Listing
from baton_server.app.runtime import Runtime
from baton_server.core.errors import BatonError, Refused
from baton_server.ports.workers import WorkerView
from baton_server.wire import check
from baton_server.wire.frames import read_extend, read_hook_answers, read_nack, read_progress, read_result
from baton_server.wire.workers import close_workers, write_explanation, write_extended, write_settled


class HandlerService:
    """Serves workers, and who looks at them."""

    def __init__(
        self, runtime: Runtime, desk: Desk, views: Views, listing: Listing, explain: Explain, version: str
    ) -> None:
        self._runtime, self._desk, self._views = runtime, desk, views
        self._listing, self._explain = listing, explain
        self._returns = desk.dispatcher.returns
        self._reception = Reception(desk.workers, runtime.limits, version)

    def rpcs(self) -> dict[str, Rpc]:
        """List the methods."""
        return {
            "Connect": Rpc(request=pb.ConnectRequest, bidi=self.connect),
            "WatchCalls": Rpc(request=pb.WatchCallsRequest, writing=self.watch_calls),
            "SettleCall": Rpc(request=pb.SettleCallRequest, unary=self.settle_call),
            "ExtendCall": Rpc(request=pb.ExtendCallRequest, unary=self.extend_call),
            "ListWorkers": Rpc(request=pb.ListWorkersRequest, unary=self.list_workers),
            "ExplainCall": Rpc(request=pb.ExplainCallRequest, unary=self.explain_call),
        }

    # -- workers ---------------------------------------------------------------------------------

    async def connect(self, context: Context) -> None:
        """Attach a worker."""
        await WorkerStream(self._runtime, self._desk, self._reception, context).run()

    async def watch_calls(self, request: pb.WatchCallsRequest, context: Context) -> None:
        """Bring calls to a worker that settles them by other rpcs."""
        await CallWatch(self._runtime, self._desk, self._reception, request, context).run()

    async def settle_call(self, request: pb.SettleCallRequest, _: Context) -> pb.SettleCallResponse:
        """Take a result, answers of hooks, or a call that is given back."""
        check.check_settle_call(request)
        match request.WhichOneof("settlement"):
            case "result":
                return write_settled([await self._result(request.result, request.worker_id)])
            case "hook_answers":
                answers = read_hook_answers(request.hook_answers)
                return write_settled(await self._desk.hooks.settle(request.worker_id, answers))
            case _:
                await self._give_back(request.nack, request.worker_id)
                return write_settled(())

    async def extend_call(self, request: pb.ExtendCallRequest, _: Context) -> pb.ExtendCallResponse:
        """Renew the lease of an attempt, and tell whether it is to stop."""
        check.check_extend_call(request)
        asked = request.extend
        extended = await self._returns.extend(asked.call_id, asked.attempt, read_extend(asked))
        if extended.failure is not None:
            raise Refused(extended.failure)
        if request.HasField("progress"):
            self._returns.progress(read_progress(request.progress))
        return write_extended(extended, self._returns.stop_of(asked.call_id, asked.attempt))

    async def _result(self, result: pb.Result, worker_id: str) -> Ack:
        try:
            check.check_result(result, 0)
        except BatonError as error:
            verdict = ResultVerdict.REFUSED
            return Ack(call_id=result.call_id, attempt=result.attempt, verdict=verdict, failure=error.failure)
        return await self._returns.settle(read_result(result), worker_id)

    async def _give_back(self, nack: pb.Nack, worker_id: str) -> None:
        """Give a call back, and wait until that is on disk; for a call that is not the sender's there is nothing."""
        delay_s, not_begun = read_nack(nack)
        written: asyncio.Future[Any] | None = self._returns.nack(
            nack.call_id, nack.attempt, worker_id, delay_s=delay_s, not_begun=not_begun, reason=nack.reason
        )
        if written is not None:
            await asyncio.shield(written)

    # -- who looks at them -----------------------------------------------------------------------

    async def list_workers(self, request: pb.ListWorkersRequest, _: Context) -> pb.ListWorkersResponse:
        """List workers, the newest first."""
        check.check_list_workers(request)
        page = page_of(request)
        scope = request.scope if request.HasField("scope") else None
        found = sorted(self._listing.workers(request.name, scope), key=_place, reverse=True)
        left = [view for view in found if not page.after or _place(view) < page.after]
        shown = close_workers(left[: page.size])
        after = _place(left[len(shown) - 1]) if len(left) > len(shown) else ""
        return pb.ListWorkersResponse(workers=shown, next_page_token=token_after(request, after))

    async def explain_call(self, request: pb.ExplainCallRequest, _: Context) -> pb.ExplainCallResponse:
        """Say why a call does not run, or what settled it."""
        check.check_explain_call(request)
        explanation = await self._explain.call(request.call_id)
        action = None if explanation.call is None else self._views.actions([explanation.call])[0]
        return write_explanation(explanation, action)


def _place(view: WorkerView) -> str:
    """Say where a worker stands in the list: by when it attached, as text that sorts."""
    return f"{view.attached_at:020.6f} {view.worker_id}"
