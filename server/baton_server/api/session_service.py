"""SessionService, its unary half: sessions, inputs, items, turns, and what is open."""

from __future__ import annotations

from baton.v1 import session_pb2 as pb
from baton_server.api.pages import page_of, token_after
from baton_server.api.reading import defaults, digest_fields, if_busy
from baton_server.api.rpc import Context, Rpc, body_digest
from baton_server.api.views import Views, in_call_order
from baton_server.app.outcomes import IfBusy, Submitted
from baton_server.app.requests import Request
from baton_server.app.runs import Runs
from baton_server.app.runtime import Runtime
from baton_server.app.sessions import Sessions
from baton_server.app.submit import Submissions
from baton_server.ports.store import Page
from baton_server.wire import check
from baton_server.wire.agents import write_agent
from baton_server.wire.errors import write_failure
from baton_server.wire.fit import DEFAULT_MESSAGE_BYTES, close_page, fit_message
from baton_server.wire.inputs import read_inputs, read_items_json
from baton_server.wire.names import SESSION_STATUSES
from baton_server.wire.run_config import write_config
from baton_server.wire.views import write_item_row, write_session, write_turn


class SessionService:
    """Keeps sessions. `Watch`, `Converse` and `ReadContent` are in `session_streams`."""

    def __init__(
        self, runtime: Runtime, sessions: Sessions, submissions: Submissions, runs: Runs, views: Views
    ) -> None:
        self._runtime, self._sessions, self._submissions = runtime, sessions, submissions
        self._runs, self._views = runs, views

    def rpcs(self) -> dict[str, Rpc]:
        """List the methods."""
        return {
            "CreateSession": Rpc(request=pb.CreateSessionRequest, unary=self.create),
            "GetSession": Rpc(request=pb.GetSessionRequest, unary=self.get),
            "ListSessions": Rpc(request=pb.ListSessionsRequest, unary=self.list),
            "UpdateSession": Rpc(request=pb.UpdateSessionRequest, unary=self.update),
            "DeleteSession": Rpc(request=pb.DeleteSessionRequest, unary=self.delete),
            "SubmitInput": Rpc(request=pb.SubmitInputRequest, unary=self.submit),
            "ListItems": Rpc(request=pb.ListItemsRequest, unary=self.list_items),
            "AddItems": Rpc(request=pb.AddItemsRequest, unary=self.add_items),
            "RemoveItems": Rpc(request=pb.RemoveItemsRequest, unary=self.remove_items),
            "ListTurns": Rpc(request=pb.ListTurnsRequest, unary=self.list_turns),
            "GetTurn": Rpc(request=pb.GetTurnRequest, unary=self.get_turn),
            "ListRequiredActions": Rpc(request=pb.ListRequiredActionsRequest, unary=self.list_required_actions),
        }

    # -- sessions --------------------------------------------------------------------------------

    async def create(self, request: pb.CreateSessionRequest, _: Context) -> pb.CreateSessionResponse:
        """Make a session."""
        check.check_create_session(request)
        return await self.create_checked(request)

    async def create_checked(self, request: pb.CreateSessionRequest) -> pb.CreateSessionResponse:
        """Make a session from a request that was checked."""
        row, created = await self._sessions.create(
            _request("CreateSession", "", request), request.key, defaults(request), request.get_or_create
        )
        return pb.CreateSessionResponse(session=_fit(await self._views.session(row)), created=created)

    async def get(self, request: pb.GetSessionRequest, _: Context) -> pb.GetSessionResponse:
        """Read a session."""
        check.check_get_session(request)
        if request.WhichOneof("which") == "key":
            row = await self._sessions.find_by_key(request.key)
        else:
            row = await self._sessions.find(request.session_id)
        return pb.GetSessionResponse(session=_fit(await self._views.session(row)))

    async def list(self, request: pb.ListSessionsRequest, _: Context) -> pb.ListSessionsResponse:
        """List sessions, newest first."""
        check.check_list_sessions(request)
        page = page_of(request)
        rows = await self._runtime.store.sessions.newest(
            Page(size=page.size + 1, after=page.after),
            [SESSION_STATUSES.to_core[status] for status in request.statuses],
            dict(request.metadata),
        )
        shown = close_page((write_session(row) for row in rows[: page.size]), DEFAULT_MESSAGE_BYTES)
        after = shown[-1].session_id if len(rows) > len(shown) else ""
        return pb.ListSessionsResponse(sessions=shown, next_page_token=token_after(request, after))

    async def update(self, request: pb.UpdateSessionRequest, _: Context) -> pb.UpdateSessionResponse:
        """Change a session's defaults."""
        check.check_update_session(request)
        row = await self._sessions.update(
            _request("UpdateSession", request.session_id, request),
            request.session_id,
            tuple(request.update_mask.paths),
            defaults(request),
        )
        return pb.UpdateSessionResponse(session=_fit(await self._views.session(row)))

    async def delete(self, request: pb.DeleteSessionRequest, _: Context) -> pb.DeleteSessionResponse:
        """Remove a session."""
        check.check_delete_session(request)
        await self._sessions.delete(_request("DeleteSession", "", request), request.session_id)
        return pb.DeleteSessionResponse()

    # -- inputs ----------------------------------------------------------------------------------

    async def submit(self, request: pb.SubmitInputRequest, _: Context) -> pb.SubmitInputResponse:
        """Put a batch of inputs into a session."""
        check.check_submit_input(request)
        return await self.submit_checked(request, request.session_id)

    async def submit_checked(self, request: pb.SubmitInputRequest, session_id: str) -> pb.SubmitInputResponse:
        """Put in a batch that was checked."""
        asked = Request(
            rpc="SubmitInput",
            session_id=session_id,
            request_id=request.request_id,
            digest=body_digest(request, ("request_id", "session_id")),
        )
        done = await self._submissions.submit(asked, session_id, read_inputs(request), if_busy(request, IfBusy.STEER))
        return _submitted(done, request.request_id)

    # -- items and turns -------------------------------------------------------------------------

    async def list_items(self, request: pb.ListItemsRequest, _: Context) -> pb.ListItemsResponse:
        """List a session's items."""
        check.check_list_items(request)
        if request.turn_id:
            await self._runs.turn(request.session_id, request.turn_id)
        else:
            await self._sessions.find(request.session_id)
        page = page_of(request)
        rows = await self._runtime.store.items.page(
            request.session_id,
            Page(size=page.size + 1, after=page.after),
            turn_id=request.turn_id,
            history_only=request.history_only,
            newest_first=request.newest_first,
        )
        shown = close_page((write_item_row(row) for row in rows[: page.size]), DEFAULT_MESSAGE_BYTES)
        after = shown[-1].item_id if len(rows) > len(shown) else ""
        return pb.ListItemsResponse(items=shown, next_page_token=token_after(request, after))

    async def add_items(self, request: pb.AddItemsRequest, _: Context) -> pb.AddItemsResponse:
        """Put items into the history without a turn."""
        check.check_add_items(request)
        names, sequence = await self._sessions.add_items(
            _request("AddItems", request.session_id, request),
            request.session_id,
            read_items_json(request.items_json).items,
        )
        return pb.AddItemsResponse(item_ids=names, sequence=sequence)

    async def remove_items(self, request: pb.RemoveItemsRequest, _: Context) -> pb.RemoveItemsResponse:
        """Take items out of the history."""
        check.check_remove_items(request)
        removed = await self._sessions.remove_items(
            _request("RemoveItems", request.session_id, request),
            request.session_id,
            None if request.WhichOneof("selection") == "all" else request.last,
        )
        response = pb.RemoveItemsResponse(
            items=[write_item_row(row) for row in removed.items], sequence=removed.sequence
        )
        fit_message(response, DEFAULT_MESSAGE_BYTES)
        return response

    async def list_turns(self, request: pb.ListTurnsRequest, _: Context) -> pb.ListTurnsResponse:
        """List a session's turns, newest first."""
        check.check_list_turns(request)
        await self._sessions.find(request.session_id)
        page = page_of(request)
        rows = await self._runtime.store.turns.newest(request.session_id, Page(size=page.size + 1, after=page.after))
        shown = close_page((write_turn(row) for row in rows[: page.size]), DEFAULT_MESSAGE_BYTES)
        after = shown[-1].turn_id if len(rows) > len(shown) else ""
        return pb.ListTurnsResponse(turns=shown, next_page_token=token_after(request, after))

    async def get_turn(self, request: pb.GetTurnRequest, _: Context) -> pb.GetTurnResponse:
        """Read a turn."""
        check.check_get_turn(request)
        row = await self._runs.turn(request.session_id, request.turn_id)
        calls = await self._runtime.store.calls.open_in(request.session_id)
        response = pb.GetTurnResponse(
            turn=write_turn(row),
            required_actions=self._views.actions(in_call_order(c for c in calls if c.turn_id == row.turn_id)),
        )
        if request.with_pinned:
            pinned = await self._runtime.pinned(row.agent_digest, row.config_digest)
            response.agent.CopyFrom(write_agent(pinned.agent))
            response.run_config.CopyFrom(write_config(pinned.config))
        fit_message(response, DEFAULT_MESSAGE_BYTES)
        return response

    async def list_required_actions(
        self, request: pb.ListRequiredActionsRequest, _: Context
    ) -> pb.ListRequiredActionsResponse:
        """List what is open over all sessions, oldest first."""
        check.check_list_required_actions(request)
        page = page_of(request)
        rows = await self._runtime.store.calls.open_everywhere(
            Page(size=page.size + 1, after=page.after), tuple(request.names), tuple(request.scopes)
        )
        wanted = set(request.states)
        actions = self._views.actions(rows[: page.size])
        shown = close_page(actions, DEFAULT_MESSAGE_BYTES)
        after = shown[-1].call_id if len(rows) > len(shown) else ""
        return pb.ListRequiredActionsResponse(
            required_actions=[a for a in shown if not wanted or a.state in wanted],
            next_page_token=token_after(request, after),
        )


def _request(rpc: str, scope: str, request: object) -> Request:
    message: pb.CreateSessionRequest = request  # type: ignore[assignment]  # any request with a request_id
    return Request(
        rpc=rpc,
        session_id=scope,
        request_id=message.request_id,
        digest=body_digest(message, digest_fields(message)),
    )


def _fit(session: pb.Session) -> pb.Session:
    fit_message(session, DEFAULT_MESSAGE_BYTES - 64)
    return session


def _submitted(done: Submitted, request_id: str) -> pb.SubmitInputResponse:
    return pb.SubmitInputResponse(
        turn_id=done.turn_id,
        sequence=done.sequence,
        request_id=request_id,
        outcomes=[
            pb.InputOutcome(
                status=pb.InputStatus.Value(f"INPUT_STATUS_{outcome.status}"),
                turn_id=outcome.turn_id,
                error=write_failure(outcome.failure) if outcome.failure is not None else None,
            )
            for outcome in done.outcomes
        ],
    )
