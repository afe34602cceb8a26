"""The services themselves, for what `Runner` and `Session` do not cover. Answers are the contract's messages."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from baton.server.agent_calls import AgentCalls, AnyAgent, words_of, written_agent
from baton.server.cancelling import streamed_request
from baton.server.content import complete_item, list_items, read_content
from baton.server.input_calls import InputCalls
from baton.server.paging import pages
from baton.server.resume import follow
from baton.v1 import agent_pb2, event_pb2, handler_pb2, item_pb2, runner_pb2, session_pb2


class Client(AgentCalls, InputCalls):
    """Calls the services. Messages are those of `baton.v1`, failures exceptions of `baton.errors`.

    Calls are sent again after a broken connection, under the same request_id, for at most a minute. The client
    shares the event loop's connection: there is nothing to close. `address` None: the default server.
    """

    # -- sessions --------------------------------------------------------------------------------

    async def create_session(
        self,
        *,
        key: str = "",
        get_or_create: bool = False,
        agent: AnyAgent | agent_pb2.AgentRef | None = None,
        scopes: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
    ) -> session_pb2.Session:
        """Make a session, or get the one of that key. `agent`: the default of its turns, inline or a kept one."""
        request = session_pb2.CreateSessionRequest(
            request_id=_new_id(), key=key, get_or_create=get_or_create, scopes=scopes, metadata=metadata
        )
        if isinstance(agent, agent_pb2.AgentRef):
            request.agent_ref.CopyFrom(agent)
        elif agent is not None:
            request.agent.CopyFrom(written_agent(agent))
        with words_of(agent):
            answer = await self._connection.unary(self._connection.sessions.CreateSession, request)
        return answer.session

    async def get_session(self, session_id: str = "", *, key: str = "") -> session_pb2.Session:
        """Read a session by id or by key, with all that is open in it."""
        if bool(session_id) == bool(key):
            raise ValueError("name the session by its id or by its key")
        request = session_pb2.GetSessionRequest()
        if key:
            request.key = key
        else:
            request.session_id = session_id
        answer = await self._connection.unary(self._connection.sessions.GetSession, request)
        return answer.session

    async def list_sessions(
        self,
        *,
        metadata: Mapping[str, str] | None = None,
        statuses: Sequence[session_pb2.SessionStatus.ValueType] = (),
    ) -> AsyncIterator[session_pb2.Session]:
        """List sessions, newest first, page by page, without their agents and required actions.

        `metadata`: only those with all of these labels. `statuses`: only those; empty: all.
        """
        request = session_pb2.ListSessionsRequest(metadata=metadata, statuses=statuses)
        async for page in pages(self._connection, self._connection.sessions.ListSessions, request):
            for session in page.sessions:
                yield session

    async def delete_session(self, session_id: str) -> None:
        """Remove a session with its log."""
        request = session_pb2.DeleteSessionRequest(request_id=_new_id(), session_id=session_id)
        await self._connection.unary(self._connection.sessions.DeleteSession, request)

    async def list_items(
        self, session_id: str, *, turn_id: str = "", history_only: bool = False
    ) -> AsyncIterator[item_pb2.Item]:
        """List a session's items in the order of its log, page by page, texts complete."""
        request = session_pb2.ListItemsRequest(session_id=session_id, turn_id=turn_id, history_only=history_only)
        async for item in list_items(self._connection, request):
            yield item

    async def list_newest_items(
        self, session_id: str, *, turn_id: str = "", history_only: bool = False
    ) -> AsyncGenerator[item_pb2.Item]:
        """List a session's items from the newest back, page by page, large texts omitted."""
        request = session_pb2.ListItemsRequest(
            session_id=session_id, turn_id=turn_id, history_only=history_only, newest_first=True
        )
        async for page in pages(self._connection, self._connection.sessions.ListItems, request):
            for item in page.items:
                yield item

    async def list_turns(self, session_id: str) -> AsyncIterator[event_pb2.Turn]:
        """List a session's turns, newest first, page by page."""
        request = session_pb2.ListTurnsRequest(session_id=session_id)
        async for page in pages(self._connection, self._connection.sessions.ListTurns, request):
            for turn in page.turns:
                yield turn

    async def get_turn(
        self, session_id: str, turn_id: str, *, with_pinned: bool = False
    ) -> session_pb2.GetTurnResponse:
        """Read a turn, and what is open in it. `with_pinned`: also the agent and options that it was accepted with."""
        request = session_pb2.GetTurnRequest(session_id=session_id, turn_id=turn_id, with_pinned=with_pinned)
        return await self._connection.unary(self._connection.sessions.GetTurn, request)

    # -- runs ------------------------------------------------------------------------------------

    async def run(self, request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        """Run an agent and wait until the turn rests, over breaks, for however long that takes.

        A turn that failed is no exception: see `turn.status`, `turn.error` and `required_actions`. The same request
        again, with its request_id, waits again for the same turn. `request_id` empty: a new one. A caller that is
        cancelled leaves the turn alone.
        """
        return await self._connection.unary(self._connection.runner.Run, _identified(request), None)

    async def run_streamed(
        self,
        request: runner_pb2.RunRequest,
        *,
        after_sequence: int = 0,
        deltas: event_pb2.DeltaLevel.ValueType = event_pb2.DELTA_LEVEL_FRAGMENTS,
    ) -> AsyncGenerator[runner_pb2.RunStreamedResponse]:
        """Run an agent and yield what happens, over breaks: no event twice, none left out.

        `started` comes first, and again after a break; `result` is the last. Else as `run`. The same request again
        shows the turn from `after_sequence` on; 0: from its first event.
        """
        connection = self._connection
        streamed = streamed_request(_identified(request))
        streamed.deltas = deltas

        def open_stream(position: int) -> Any:
            streamed.after_sequence = position
            return connection.runner.RunStreamed(streamed)

        messages: AsyncIterator[runner_pb2.RunStreamedResponse] = follow(
            connection,
            open_stream,
            "RunStreamed",
            after_sequence=after_sequence,
            is_last=lambda message: message.HasField("result"),
        )
        async for message in messages:
            yield message

    # -- what comes out --------------------------------------------------------------------------

    async def watch(
        self,
        session_id: str,
        *,
        after_sequence: int = 0,
        follow_until: session_pb2.Follow.ValueType = session_pb2.FOLLOW_REST,
        deltas: event_pb2.DeltaLevel.ValueType = event_pb2.DELTA_LEVEL_FRAGMENTS,
        turn_id: str = "",
    ) -> AsyncGenerator[event_pb2.StreamPart]:
        """Yield a session's events above a sequence, and fragments, over breaks: none twice, none left out.

        Ends when the session rests, unless `follow_until` says otherwise. Resume another watch from the last
        event's or heartbeat's sequence.
        """
        connection = self._connection
        request = session_pb2.WatchRequest(session_id=session_id, follow=follow_until, deltas=deltas, turn_id=turn_id)

        def open_stream(position: int) -> Any:
            request.after_sequence = position
            return connection.sessions.Watch(request)

        messages: AsyncIterator[session_pb2.WatchResponse] = follow(
            connection, open_stream, "Watch", after_sequence=after_sequence
        )
        async for message in messages:
            for part in message.parts:
                yield part

    async def list_required_actions(
        self,
        *,
        names: Sequence[str] = (),
        scopes: Sequence[str] = (),
        states: Sequence[event_pb2.RequiredActionState.ValueType] = (),
    ) -> AsyncIterator[event_pb2.RequiredAction]:
        """List what is open over all sessions, oldest first, page by page. Empty filters: all."""
        request = session_pb2.ListRequiredActionsRequest(names=names, scopes=scopes, states=states)
        async for page in pages(self._connection, self._connection.sessions.ListRequiredActions, request):
            for action in page.required_actions:
                yield action

    async def explain(self, call_id: str) -> handler_pb2.ExplainCallResponse:
        """Say why a call does not run, the nearest cause first, or what settled it."""
        request = handler_pb2.ExplainCallRequest(call_id=call_id)
        return await self._connection.unary(self._connection.dispatch.ExplainCall, request)

    async def workers(self, *, name: str = "", scope: str | None = None) -> AsyncIterator[handler_pb2.Worker]:
        """List attached workers, and lost ones within their grace, newest first, page by page.

        `name`: only those that serve it. `scope`: only those of it, "" for the empty one; None: all.
        """
        request = handler_pb2.ListWorkersRequest(name=name, scope=scope)
        async for page in pages(self._connection, self._connection.dispatch.ListWorkers, request):
            for worker in page.workers:
                yield worker

    async def read_content(self, session_id: str, omitted: item_pb2.Omitted) -> str:
        """Read a text that was too large to travel in its place."""
        return (await read_content(self._connection, session_id, omitted.sha256)).decode()

    async def complete(self, session_id: str, item: item_pb2.Item) -> None:
        """Put the texts of an item that were too large to travel back in their places."""
        await complete_item(self._connection, session_id, item)

    def on_connection_change(self, told: Callable[[bool], None]) -> None:
        """Have `told` called when the server is lost, with False, and when it answers again, with True.

        Calls and streams try again by themselves meanwhile. Of the running event loop's connection.
        """
        self._connection.on_change(told)


def _identified(request: runner_pb2.RunRequest) -> runner_pb2.RunRequest:
    """Copy a request, with an id of its own if it has none."""
    made = runner_pb2.RunRequest()
    made.CopyFrom(request)
    made.request_id = made.request_id or _new_id()
    return made


def _new_id() -> str:
    return uuid.uuid4().hex
