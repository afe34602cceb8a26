"""Finds what a guardrail said that ended a run: the answer names it alone, its reasons stand in the session's log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

import grpc

from baton.connection import Connection
from baton.errors import AgentsException, InputGuardrailTripwireTriggered
from baton.hooks import GuardrailFunctionOutput, InputGuardrail, InputGuardrailResult
from baton.v1 import event_pb2, runner_pb2, session_pb2

LOOKED_AT = 200
"""Events at the end of a turn among which the tripping is looked for: it is in the turn's last commit."""

LOOK_S = 10.0
"""How long it may take; the run has failed anyway."""

_log = logging.getLogger("baton")


async def tell_reasons(
    connection: Connection,
    response: runner_pb2.RunResponse,
    error: AgentsException,
    guardrails: Iterable[InputGuardrail],
) -> None:
    """Put into the error what the guardrail said. Other errors stay as they are."""
    if not isinstance(error, InputGuardrailTripwireTriggered):
        return
    guardrail = next((one for one in guardrails if one.get_name() == error.guardrail_name), None)
    if guardrail is None:
        return  # a session's agent has it, of which this process knows nothing
    info = await _info(connection, response, error.guardrail_name)
    error.guardrail_result = InputGuardrailResult(guardrail, GuardrailFunctionOutput(info, True))


async def _info(connection: Connection, response: runner_pb2.RunResponse, name: str) -> object:
    turn = response.turn
    request = session_pb2.ListEventsRequest(
        session_id=response.session_id,
        turn_id=turn.turn_id,
        after_sequence=max(turn.last_sequence - LOOKED_AT, turn.first_sequence - 1, 0),
        page_size=LOOKED_AT,
    )
    try:
        answer = await connection.unary(connection.sessions.ListEvents, request, LOOK_S)
    except (AgentsException, grpc.aio.AioRpcError) as error:
        _log.warning("the reasons of the guardrail %s cannot be read: %s", name, error)
        return None
    return _found(answer.events, name)


def _found(events: Iterable[event_pb2.Event], name: str) -> object:
    for event in events:
        tripped = event.guardrail_tripped
        if event.HasField("guardrail_tripped") and tripped.name == name and tripped.info_json:
            found: object = json.loads(tripped.info_json)
            return found
    return None
