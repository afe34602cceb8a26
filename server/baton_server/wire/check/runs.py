"""The requests of RunnerService."""

from __future__ import annotations

from baton.v1 import event_pb2, runner_pb2, session_pb2
from baton_server.wire.check import agents
from baton_server.wire.check.graph import start_agent
from baton_server.wire.check.inputs import continue_input, items_json, message
from baton_server.wire.check.run_config import run_config
from baton_server.wire.check.sessions import EXPIRES_S, KEY_CHARACTERS
from baton_server.wire.check.violations import Violations

RunRequest = runner_pb2.RunRequest | runner_pb2.RunStreamedRequest


def check_run(request: runner_pb2.RunRequest) -> None:
    """Check a RunRequest. Raises Refused with INVALID_REQUEST."""
    found = Violations()
    _run(found, request)
    found.no_nul(request)
    found.raise_if_any()


def check_run_streamed(request: runner_pb2.RunStreamedRequest) -> None:
    """Check a RunStreamedRequest. Raises Refused with INVALID_REQUEST."""
    found = Violations()
    _run(found, request)
    found.enum("deltas", request.deltas, event_pb2.DeltaLevel)
    found.at_least("after_sequence", request.after_sequence, 0)
    found.no_nul(request)
    found.raise_if_any()


def _run(found: Violations, request: RunRequest) -> None:
    found.id("request_id", request.request_id)
    _session(found, request)
    if request.HasField("agent"):
        agents.agent(found, "agent", request.agent)
    if request.HasField("agent_ref"):
        agents.agent_ref(found, "agent_ref", request.agent_ref)
    _new_input(found, request)
    if request.HasField("run_config"):
        run_config(found, "run_config", request.run_config)
        if request.HasField("agent"):
            start_agent(found, "run_config.start_agent", request.agent, request.run_config)
    if request.HasField("continues"):
        _continues(found, request)
    found.enum("if_busy", request.if_busy, session_pb2.IfBusy)
    if request.if_busy == session_pb2.IF_BUSY_STEER:
        found.add("if_busy", "is STEER, but a run is a turn of its own; use QUEUE, REJECT or SubmitInput")
    found.message_bytes("max_message_bytes", request.max_message_bytes)


def _new_input(found: Violations, request: RunRequest) -> None:
    if request.HasField("continues") and request.WhichOneof("new_input") is None:
        return
    match found.arm("", request, "new_input"):
        case "message":
            message(found, "message", request.message)
        case "items_json":
            items_json(found, "items_json", request.items_json, least=0)  # a history may be all that there is
        case _:
            pass


def _continues(found: Violations, request: RunRequest) -> None:
    """Check from which turn a run goes on, with what that one had."""
    continue_input(found, "continues", request.continues)
    for name in ("agent", "agent_ref", "run_config"):
        if any(field.name == name for field, _ in request.ListFields()):
            found.add(name, "must be absent with continues: the turn goes on with what the ended one had")
    if request.WhichOneof("session_source") is None:
        found.add("session_source", "exactly one of session_id, session_key is required with continues")


def _session(found: Violations, request: RunRequest) -> None:
    """Check where the turn belongs, and what is said of a session that is made for it."""
    match request.WhichOneof("session_source"):
        case "session_id":
            found.id("session_id", request.session_id)
            for name in ("expires_after", "metadata"):
                if any(field.name == name for field, _ in request.ListFields()):
                    found.add(name, "is for a session made for this run; session_id names one that is there")
        case "session_key":
            found.text("session_key", request.session_key, KEY_CHARACTERS, required=True)
        case None:
            pass
    if request.HasField("expires_after"):
        found.duration("expires_after", request.expires_after, *EXPIRES_S)
    found.labels("metadata", request.metadata)
