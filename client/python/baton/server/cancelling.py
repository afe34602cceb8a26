"""Cancels the turn of a run, of which maybe nothing is known but its request."""

from __future__ import annotations

import asyncio
import logging
import uuid

import grpc

from baton.errors import AgentsException
from baton.server.connection import Connection
from baton.v1 import event_pb2, runner_pb2, session_pb2

CANCEL_S, CANCEL_HERE_S = 10.0, 2.0
"""How long it is tried to cancel a turn whose caller went away; and how long that may hold up the caller."""

_log = logging.getLogger("baton")

Turn = tuple[str, str]
"""Ids of a session and of a turn of it."""


async def abandon(connection: Connection, request: runner_pb2.RunRequest | None, turn: Turn | None = None) -> None:
    """Cancel the turn of a run whose caller is being cancelled, before that goes on.

    Here and now, since the event loop may be about to end; what takes too long goes on behind.
    """
    if not connection.closed:
        task = connection.spawn(cancel_turn(connection, request, turn, event_pb2.CANCEL_MODE_NOW))
        await asyncio.wait({task}, timeout=CANCEL_HERE_S)


async def cancel_turn(
    connection: Connection,
    request: runner_pb2.RunRequest | None,
    turn: Turn | None,
    mode: event_pb2.CancelMode.ValueType,
) -> None:
    """Cancel a run's turn. `turn` None: not known yet; then the same request, streamed, attaches to it and tells.

    What goes wrong is logged: the turn is bounded by its rounds. Without either there is nothing to cancel.
    """
    if turn is None and request is None:
        return
    try:
        session_id, turn_id = turn or await _find_turn(connection, request or runner_pb2.RunRequest())
        await connection.unary(connection.sessions.SubmitInput, cancel_request(session_id, turn_id, mode), CANCEL_S)
    except (AgentsException, grpc.aio.AioRpcError) as error:
        _log.warning("the turn of an abandoned run could not be cancelled: %s", error)


def cancel_request(
    session_id: str, turn_id: str, mode: event_pb2.CancelMode.ValueType
) -> session_pb2.SubmitInputRequest:
    """Write the input that cancels a turn."""
    cancel = session_pb2.CancelInput(turn_id=turn_id, mode=mode, reason="the caller cancelled the run")
    return session_pb2.SubmitInputRequest(
        request_id=uuid.uuid4().hex, session_id=session_id, inputs=[session_pb2.Input(cancel=cancel)]
    )


def streamed_request(request: runner_pb2.RunRequest) -> runner_pb2.RunStreamedRequest:
    """Write a request of Run as one of RunStreamed: number by number the same."""
    return runner_pb2.RunStreamedRequest.FromString(request.SerializeToString())


async def _find_turn(connection: Connection, request: runner_pb2.RunRequest) -> Turn:
    streamed = streamed_request(request)
    streamed.deltas = event_pb2.DELTA_LEVEL_NONE

    async def find() -> Turn:
        call = connection.runner.RunStreamed(streamed, timeout=CANCEL_S)
        try:
            async for message in call:
                if message.HasField("started"):
                    return message.started.session_id, message.started.turn_id
        finally:
            call.cancel()
        raise AgentsException("the server's stream did not say which turn it is")

    return await connection.persist(find, "finding a turn", CANCEL_S)
