"""Requests as the use cases take them. What is read here was checked before."""

from __future__ import annotations

from typing import Any

from baton.v1 import session_pb2
from baton_server.app.outcomes import IfBusy
from baton_server.app.sessions import AgentSource, Defaults
from baton_server.wire.agents import read_agent
from baton_server.wire.run_config import read_config

_IF_BUSY = {
    session_pb2.IF_BUSY_STEER: IfBusy.STEER,
    session_pb2.IF_BUSY_QUEUE: IfBusy.QUEUE,
    session_pb2.IF_BUSY_REJECT: IfBusy.REJECT,
}

NOT_THE_BODY = ("request_id", "deltas", "after_sequence", "root_only", "max_message_bytes")
"""Fields that say how an answer travels, and not what is asked for."""


def digest_fields(request: Any) -> tuple[str, ...]:
    """Name the fields of a request that its digest leaves out."""
    return tuple(name for name in NOT_THE_BODY if name in request.DESCRIPTOR.fields_by_name)


def agent_source(request: Any) -> AgentSource:
    """Read which agent is meant."""
    match request.WhichOneof("agent_source"):
        case "agent":
            return AgentSource(inline=read_agent(request.agent))
        case "agent_ref":
            ref = request.agent_ref
            return AgentSource(agent_id=ref.agent_id, revision=ref.revision if ref.HasField("revision") else None)
        case _:
            return AgentSource()


def defaults(request: Any) -> Defaults:
    """Read what a session gives its turns."""
    return Defaults(
        agent=agent_source(request),
        config=read_config(request.run_config) if request.HasField("run_config") else None,
        scopes=tuple(request.scopes),
        metadata=dict(request.metadata),
        expires_after_s=duration_or_none(request, "expires_after"),
    )


def duration_or_none(request: Any, name: str) -> float | None:
    """Read a duration in seconds; None: absent."""
    if not request.HasField(name):
        return None
    seconds: float = getattr(request, name).ToTimedelta().total_seconds()
    return seconds


def if_busy(request: Any, default: IfBusy) -> IfBusy:
    """Read what a message does while a turn runs."""
    return _IF_BUSY.get(request.if_busy, default)
