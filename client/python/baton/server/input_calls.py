"""The calls that put something into a session: messages, results, decisions, cancels."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from baton.context.approvals import Ruling
from baton.errors import FunctionError, TooLargeError
from baton.items.outputs import MAX_RESULT_BYTES, payload_bytes, result_of, result_of_error
from baton.items.raw_items import write_items
from baton.own_words import OF_SUBMITTED, in_own_words
from baton.server.cancelling import cancel_request
from baton.server.connection import Connection, connection_for
from baton.v1 import event_pb2, session_pb2


class InputCalls:
    """Puts things into sessions. A part of `Client`, whose docstring says what holds for all calls.

    A required action is one of a session, of `list_required_actions`, or of a run: inside an event it does not say
    whose it is.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address

    @property
    def _connection(self) -> Connection:
        return connection_for(self._address)

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
            request_id=request_id or uuid.uuid4().hex,
            session_id=session_id,
            inputs=[_input(given) for given in inputs],
            if_busy=if_busy,
        )
        with in_own_words(names=OF_SUBMITTED):
            return await self._connection.unary(self._connection.sessions.SubmitInput, request)

    async def settle(self, action: event_pb2.RequiredAction, result: Any) -> session_pb2.InputOutcome:
        """Give the result of an open call, in any state of it.

        `result` becomes what a function's return value would; a `FunctionError` says that the call failed. Raises
        TooLargeError, with nothing sent: the call stays open.
        """
        _whose(action)
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

    async def redeliver(self, action: event_pb2.RequiredAction, *, decided_by: str = "") -> session_pb2.InputOutcome:
        """Have a call of unknown effect delivered again: it took no effect, or may take it twice.

        Who knows what came of it uses `settle`. `decided_by`: who says so, for the log. Raises StateError (CALL_STATE)
        where the call is in another state by now.
        """
        redelivery = session_pb2.Redelivery(turn_id=action.turn_id, call_id=action.call_id, decided_by=decided_by)
        answer = await self.submit(action.session_id, session_pb2.Input(redelivery=redelivery))
        return answer.outcomes[0]

    async def approve(
        self,
        action: event_pb2.RequiredAction,
        *,
        always: bool = False,
        always_in_session: bool = False,
        decided_by: str = "",
    ) -> session_pb2.InputOutcome:
        """Allow a call that waits for a decision, as it was seen. See `decide`."""
        return await self.decide(
            action, True, always=always, always_in_session=always_in_session, decided_by=decided_by
        )

    async def reject(
        self,
        action: event_pb2.RequiredAction,
        *,
        message: str | None = None,
        always: bool = False,
        always_in_session: bool = False,
        decided_by: str = "",
    ) -> session_pb2.InputOutcome:
        """Refuse a call that waits for a decision. `message`: what the model is told. See `decide`."""
        return await self.decide(
            action,
            False,
            message=message,
            always=always,
            always_in_session=always_in_session,
            decided_by=decided_by,
        )

    async def decide(
        self,
        action: event_pb2.RequiredAction,
        approve: bool,
        *,
        message: str | None = None,
        always: bool = False,
        always_in_session: bool = False,
        decided_by: str = "",
    ) -> session_pb2.InputOutcome:
        """Decide about a call, bound to the arguments and the definition that `action` shows.

        `always`: also about later calls of the same function by the same agent in this turn; `always_in_session`: in
        later turns too. `decided_by`: who says so, for the log. The outcome is DUPLICATE where the same was decided
        before, DISCARDED where the contrary was. Raises StateError (APPROVAL_STALE) where the call is another one.
        """
        _whose(action)
        ruling = Ruling(
            turn_id=action.turn_id,
            call_id=action.call_id,
            tool_name=action.name,
            agent_name=action.agent,
            approve=approve,
            always=always,
            always_in_session=always_in_session,
            message=message,
            decided_by=decided_by,
            arguments_digest=action.approval.arguments_digest,
            definition_digest=action.approval.definition_digest,
        )
        answer = await self.submit(action.session_id, session_pb2.Input(decision=ruling.to_pb()))
        return answer.outcomes[0]

    async def continue_turn(
        self,
        session_id: str,
        turn_id: str,
        *more: str | Sequence[Any] | session_pb2.Input,
        max_turns: int | None = None,
        unlimited_turns: bool = False,
    ) -> session_pb2.SubmitInputResponse:
        """Begin a turn that goes on from one that ended by its limit of rounds, a failed model request, or a cancel.

        The answer names the new turn. `more`: messages that join it. `max_turns` None: the old limit, counted anew.
        Raises StateError (TURN_NOT_CONTINUABLE) for a turn that ended otherwise.
        """
        continues = session_pb2.ContinueInput(turn_id=turn_id, max_turns=max_turns, unlimited_turns=unlimited_turns)
        return await self.submit(session_id, session_pb2.Input(continues=continues), *more)


def _whose(action: event_pb2.RequiredAction) -> None:
    """Check that an action says whose it is. Raises ValueError."""
    if not action.session_id:
        raise ValueError(
            f"the required action of {action.call_id} comes out of an event and does not say whose it is; "
            "set its session_id and turn_id to the event's, or read it with get_session"
        )


def _input(given: str | Sequence[Any] | session_pb2.Input) -> session_pb2.Input:
    if isinstance(given, session_pb2.Input):
        return given
    if isinstance(given, str):
        return session_pb2.Input(text=given)
    return session_pb2.Input(items_json=write_items(given))
