"""How a run proceeds on the server: as a turn that its request makes, or as one that is there already."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from baton.errors import BatonProtocolError, UserError
from baton.hosting.own import Hosted
from baton.own_words import in_own_words
from baton.reasons import error_from_pb
from baton.runs.plan import Plan
from baton.runs.run_state import RunState
from baton.runs.turn_reading import read_input, read_response
from baton.runs.turn_status import ENDED, rests
from baton.server.cancelling import Turn, streamed_request
from baton.server.connection import Connection
from baton.server.resume import follow
from baton.v1 import event_pb2, item_pb2, runner_pb2, session_pb2

INPUTS_AT_ONCE = 64
"""Of one SubmitInput."""

Messages = AsyncIterator[runner_pb2.RunStreamedResponse]


@dataclass(slots=True, kw_only=True)
class NewTurn:
    """A turn that a request makes. `earlier`: turns that it goes on from, as they ended. `turn` None: not known yet.

    `given`: what the first of them began with. `agents`: names of the request's, in its order.
    """

    connection: Connection
    request: runner_pb2.RunRequest
    earlier: Sequence[runner_pb2.RunResponse] = ()
    given: Sequence[Any] = ()
    agents: Sequence[str] = ()
    turn: Turn | None = None
    sequence: int = 0

    async def rest(self) -> runner_pb2.RunResponse:
        """Wait until it rests."""
        with in_own_words(self.agents):
            return await self.connection.unary(self.connection.runner.Run, self.request, None)

    async def messages(self, after_sequence: int) -> Messages:
        """Tell what happens in it until it rests: `started` first, `result` last."""
        request = streamed_request(self.request)
        request.root_only = True

        def open_stream(position: int) -> Any:
            request.after_sequence = position
            return self.connection.runner.RunStreamed(request)

        told: Messages = follow(
            self.connection,
            open_stream,
            "RunStreamed",
            after_sequence=after_sequence,
            is_last=lambda message: message.HasField("result"),
        )
        with in_own_words(self.agents):
            async for message in told:
                yield message


@dataclass(slots=True, kw_only=True)
class OldTurn:
    """A turn that is there. `sequence`: the last event of it that was seen; `seen`: its items; `agent`: who goes on.

    `used`: what it had used by its event number `used_until`.
    """

    connection: Connection
    turn: Turn
    sequence: int
    agent: str = ""
    seen: Sequence[item_pb2.Item] = ()
    earlier: Sequence[runner_pb2.RunResponse] = ()
    given: Sequence[Any] = ()
    used: item_pb2.Usage = field(default_factory=item_pb2.Usage)
    used_until: int = 0
    request: runner_pb2.RunRequest | None = field(default=None, init=False)

    async def rest(self) -> runner_pb2.RunResponse:
        """Wait until it rests."""
        async for message in self._messages(self.sequence, event_pb2.DELTA_LEVEL_NONE):
            if message.HasField("result"):
                return message.result
        raise BatonProtocolError(f"the stream of the turn {self.turn[1]} ended without a result")

    def messages(self, after_sequence: int) -> Messages:
        """Tell what happens in it until it rests: `started` first, `result` last."""
        return self._messages(after_sequence, event_pb2.DELTA_LEVEL_FRAGMENTS)

    async def _messages(self, after_sequence: int, deltas: event_pb2.DeltaLevel.ValueType) -> Messages:
        session_id, turn_id = self.turn
        request = session_pb2.WatchRequest(
            session_id=session_id, turn_id=turn_id, follow=session_pb2.FOLLOW_REST, deltas=deltas, root_only=True
        )
        position = after_sequence

        def open_stream(seen: int) -> Any:
            request.after_sequence = seen
            return self.connection.sessions.Watch(request)

        yield runner_pb2.RunStreamedResponse(
            started=runner_pb2.RunStarted(session_id=session_id, turn_id=turn_id, created=False)
        )
        while True:
            watched: AsyncIterator[session_pb2.WatchResponse] = follow(
                self.connection, open_stream, "Watch", after_sequence=position
            )
            async for message in watched:
                position = _last_sequence(message, position)
                yield runner_pb2.RunStreamedResponse(parts=message.parts)
            response = await read_response(self.connection, session_id, turn_id)
            if rests(response):
                break  # else it went on while it was read
        yield runner_pb2.RunStreamedResponse(result=response)


Course = NewTurn | OldTurn


async def begin(connection: Connection, plan: Plan, hosted: Hosted) -> Course:
    """Say how a run proceeds; of one that is resumed, send first what its state holds."""
    if plan.state is None:
        return NewTurn(connection=connection, request=plan.request(hosted), agents=tuple(plan.agents))
    position = plan.state.position
    earlier = [await read_response(connection, position.session_id, turn_id) for turn_id in position.earlier]
    now = await read_response(connection, position.session_id, position.turn_id)
    first = position.earlier[0] if position.earlier else position.turn_id
    given = () if plan.input else await read_input(connection, position.session_id, first)
    # Of a turn that is over the decisions too: one that came too late, or against another, must not pass in silence.
    inputs = plan.state.inputs(ended=now.turn.status in ENDED)
    if now.turn.status == event_pb2.TURN_STATUS_COMPLETED and plan.state.pending_input:
        raise UserError("the run has its final output, so that nothing can be added to it; begin another one")
    await _send(connection, plan.state, inputs)
    if now.turn.status in (event_pb2.TURN_STATUS_FAILED, event_pb2.TURN_STATUS_CANCELLED):
        request = plan.continuing(plan.state)
        return NewTurn(connection=connection, request=request, earlier=[*earlier, now], given=given)
    return OldTurn(
        connection=connection,
        turn=(position.session_id, position.turn_id),
        sequence=position.sequence,
        agent=now.turn.last_agent,
        seen=now.new_items,
        earlier=earlier,
        given=given,
        used=now.turn.usage,
        used_until=now.turn.last_sequence,
    )


async def _send(connection: Connection, state: RunState[Any], inputs: Sequence[session_pb2.Input]) -> None:
    """Send decisions and input. Raises what the server says of a decision that another one forestalled."""
    for start in range(0, len(inputs), INPUTS_AT_ONCE):
        batch = inputs[start : start + INPUTS_AT_ONCE]
        request = session_pb2.SubmitInputRequest(session_id=state.session_id, inputs=batch)
        digest = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
        request.request_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{state.position.request_id}/{digest}").hex
        with in_own_words():
            answer = await connection.unary(connection.sessions.SubmitInput, request)
        for given, outcome in zip(batch, answer.outcomes, strict=False):
            if given.HasField("decision") and outcome.status == session_pb2.INPUT_STATUS_DISCARDED:
                state.approvals.take_back(given.decision.call_id)
                raise error_from_pb(outcome.error)


def _last_sequence(message: session_pb2.WatchResponse, position: int) -> int:
    for part in message.parts:
        if part.HasField("event"):
            position = max(position, part.event.sequence)
        elif part.HasField("heartbeat"):
            position = max(position, part.heartbeat.last_sequence)
    return position
