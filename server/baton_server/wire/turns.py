"""Turns and open calls inside events: `baton.v1.Turn` and `baton.v1.RequiredAction`, and back.

Times, sequences and where a call is at the moment are no history; `views` adds them for who asks.
"""

from __future__ import annotations

from baton.v1 import event_pb2
from baton_server.core.events import OpenCall, TurnSnapshot
from baton_server.wire.decisions import read_binding, write_binding
from baton_server.wire.errors import read_failure, write_failure
from baton_server.wire.items import Contents, read_usage, write_usage
from baton_server.wire.names import TURN_STATUSES
from baton_server.wire.omit import Omission, resolve, stays


def write_turn(turn: TurnSnapshot, omit: Omission | None = None) -> event_pb2.Turn:
    """Write how a turn stands, without times and sequences. `omit` None: its output stays in place."""
    message = event_pb2.Turn(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        status=TURN_STATUSES.to_wire[turn.status],
        agent=turn.agent,
        last_agent=turn.last_agent,
        agent_digest=turn.agent_digest,
        run_config_digest=turn.run_config_digest,
        rounds=turn.rounds,
        usage=write_usage(turn.usage),
        last_response_id=turn.last_response_id,
        request_id=turn.request_id,
        continues=turn.continues,
    )
    if turn.max_turns is not None:
        message.max_turns = turn.max_turns
    if turn.output is not None:
        omitted = (omit or stays)(turn.output)
        if omitted is not None:
            message.output_omitted.CopyFrom(omitted)
        elif turn.structured:
            message.output_json = turn.output
        else:
            message.output = turn.output
    if turn.failure is not None:
        message.error.CopyFrom(write_failure(turn.failure))
    return message


def read_turn(message: event_pb2.Turn, contents: Contents | None) -> TurnSnapshot:
    """Read how a turn stands. `contents` None: an output that was omitted reads as empty.

    Of one that was omitted nothing says whether it is JSON: `structured` is False then. Raises LookupError if
    `contents` lacks the output.
    """
    output: str | None = None
    arm = message.WhichOneof("final_output")
    if arm == "output_omitted":
        output = "" if contents is None else resolve(message.output_omitted, contents)
    elif arm is not None:
        output = message.output_json if arm == "output_json" else message.output
    return TurnSnapshot(
        turn_id=message.turn_id,
        session_id=message.session_id,
        status=TURN_STATUSES.to_core[message.status],
        agent=message.agent,
        last_agent=message.last_agent,
        agent_digest=message.agent_digest,
        run_config_digest=message.run_config_digest,
        request_id=message.request_id,
        rounds=message.rounds,
        max_turns=message.max_turns if message.HasField("max_turns") else None,
        usage=read_usage(message.usage),
        output=output,
        failure=read_failure(message.error) if message.HasField("error") else None,
        last_response_id=message.last_response_id,
        structured=arm == "output_json",
        continues=message.continues,
    )


def write_open_call(call: OpenCall, omit: Omission) -> event_pb2.RequiredAction:
    """Write an open call as history knows it: QUEUED, AWAITING_DECISION or EFFECT_UNKNOWN.

    Session and turn are the event's own.
    """
    message = event_pb2.RequiredAction(
        call_id=call.call_id,
        run_path=call.run_path,
        agent=call.agent,
        name=call.name,
        state=_state(call),
        approval=None if call.awaiting is None else write_binding(call.awaiting),
        kind=event_pb2.REQUIRED_ACTION_KIND_FUNCTION_CALL,
        idempotency_key=call.key,
    )
    write_arguments(message, call.arguments, omit)
    return message


def write_arguments(message: event_pb2.RequiredAction, arguments: str, omit: Omission) -> None:
    """Write the model's argument text into a required action, in place or omitted."""
    omitted = omit(arguments)
    if omitted is None:
        message.arguments_json = arguments
    else:
        message.arguments_omitted.CopyFrom(omitted)


def read_open_call(message: event_pb2.RequiredAction, contents: Contents) -> OpenCall:
    """Read an open call. Raises LookupError if `contents` lacks its arguments."""
    omitted = message.HasField("arguments_omitted")
    return OpenCall(
        call_id=message.call_id,
        name=message.name,
        agent=message.agent,
        arguments=resolve(message.arguments_omitted, contents) if omitted else message.arguments_json,
        key=message.idempotency_key or message.call_id,  # logs of 0.0.1 have none
        effect_unknown=message.state == _UNKNOWN,
        awaiting=read_binding(message.approval) if message.state == _AWAITING else None,
        run_path=tuple(message.run_path),
    )


def _state(call: OpenCall) -> event_pb2.RequiredActionState.ValueType:
    if call.awaiting is not None:
        return _AWAITING
    return _UNKNOWN if call.effect_unknown else event_pb2.REQUIRED_ACTION_STATE_QUEUED


_AWAITING = event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION
_UNKNOWN = event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN
