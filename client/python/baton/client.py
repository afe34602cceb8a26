"""The services themselves, for what `Runner` and `Session` do not cover. Answers are the contract's messages."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from baton.agent_calls import AgentCalls, AnyAgent, written_agent
from baton.content import complete_item, list_items, read_content
from baton.errors import FunctionError, TooLargeError
from baton.outputs import MAX_RESULT_BYTES, payload_bytes, result_of, result_of_error
from baton.paging import pages
from baton.plan import cancel_request, streamed_request
from baton.raw_items import write_items
from baton.resume import follow
from baton.v1 import agent_pb2, event_pb2, handler_pb2, item_pb2, runner_pb2, session_pb2


class Client(AgentCalls):
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

    # -- what is put in --------------------------------------------------------------------------

    async def submit(
        self,
        session_id: str,
        *inputs: str | Sequence[Any] | session_pb2.Input,
        if_busy: session_pb2.IfBusy.ValueType = session_pb2.IF_BUSY_UNSPECIFIED,
        request_id: str = "",
    ) -> session_pb2.SubmitInputResponse:
        """Put a batch into a session: texts, lists of Responses API items, or inputs of the contract.

        Watch from the answer's `sequence` to see all that follows from it. `request_id` empty: a new one.
        """
        request = session_pb2.SubmitInputRequest(
            request_id=request_id or _new_id(),
            session_id=session_id,
            inputs=[_input(given) for given in inputs],
            if_busy=if_busy,
        )
        return await self._connection.unary(self._connection.sessions.SubmitInput, request)

    async def settle(self, action: event_pb2.RequiredAction, result: Any) -> session_pb2.InputOutcome:
        """Give the result of an open call, in any state of it.

        `result` becomes what a function's return value would; a `FunctionError` says that the call failed. `action` is
        one of a session, of `list_required_actions` or of a run: inside an event it does not say whose it is. Raises
        TooLargeError, with nothing sent: the call stays open.
        """
        if not action.session_id:
            raise ValueError(
                f"the required action of {action.call_id} comes out of an event and does not say whose it is; "
                "set its session_id and turn_id to the event's, or read it with get_session"
            )
        written = result_of_error(result) if isinstance(result, FunctionError) else result_of(result)
        size = payload_bytes(written)
        if size > MAX_RESULT_BYTES:
            raise TooLargeError(
                f"the result has {size:,} bytes, at most {MAX_RESULT_BYTES:,} are taken; the call stays open",
                reason="RESULT_TOO_LARGE",
                metadata={"size": str(size), "limit": str(MAX_RESULT_BYTES)},
            )
        settled = session_pb2.ToolResult(turn_id=action.turn_id, call_id=action.call_id)
        match written.WhichOneof("outcome"):
            case "output":
                settled.output = written.output
            case "output_json":
                settled.output_json = written.output_json
            case "output_parts":
                settled.output_parts.CopyFrom(written.output_parts)
            case _:
                settled.error = written.failure
        answer = await self.submit(action.session_id, session_pb2.Input(tool_result=settled))
        return answer.outcomes[0]

    async def cancel(
        self,
        session_id: str,
        turn_id: str,
        mode: event_pb2.CancelMode.ValueType = event_pb2.CANCEL_MODE_NOW,
    ) -> session_pb2.InputOutcome:
        """Cancel a turn, at once or after its round. No error if it has ended."""
        request = cancel_request(session_id, turn_id, mode)
        answer = await self._connection.unary(self._connection.sessions.SubmitInput, request)
        return answer.outcomes[0]

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

    async def redeliver(self, action: event_pb2.RequiredAction, *, decided_by: str = "") -> session_pb2.InputOutcome:
        """Have a call of unknown effect delivered again: it took no effect, or may take it twice.

        Who knows what came of it uses `settle`. `decided_by`: who says so, for the log. Raises StateError (CALL_STATE)
        where the call is in another state by now.
        """
        redelivery = session_pb2.Redelivery(turn_id=action.turn_id, call_id=action.call_id, decided_by=decided_by)
        answer = await self.submit(action.session_id, session_pb2.Input(redelivery=redelivery))
        return answer.outcomes[0]

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


def _input(given: str | Sequence[Any] | session_pb2.Input) -> session_pb2.Input:
    if isinstance(given, session_pb2.Input):
        return given
    if isinstance(given, str):
        return session_pb2.Input(text=given)
    return session_pb2.Input(items_json=write_items(given))


def _identified(request: runner_pb2.RunRequest) -> runner_pb2.RunRequest:
    """Copy a request, with an id of its own if it has none."""
    made = runner_pb2.RunRequest()
    made.CopyFrom(request)
    made.request_id = made.request_id or _new_id()
    return made


def _new_id() -> str:
    return uuid.uuid4().hex
