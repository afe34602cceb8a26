"""Views: rows of the store as the messages that an rpc answers with.

Here is added what events do not carry: times, sequences, and where a call is at the moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from baton.v1 import agent_pb2, event_pb2, item_pb2, runner_pb2, session_pb2
from baton_server.core.agents import Agent
from baton_server.core.events import Binding
from baton_server.core.facts import RoundUsage
from baton_server.core.run_config import RunConfig
from baton_server.ports.store import AgentRow, CallRow, ItemRow, SessionRow, TurnRow
from baton_server.wire.agents import write_agent
from baton_server.wire.decisions import write_binding
from baton_server.wire.items import write_usage
from baton_server.wire.names import SESSION_STATUSES, TURN_STATUSES
from baton_server.wire.omit import Omit
from baton_server.wire.run_config import write_config
from baton_server.wire.times import write_time
from baton_server.wire.turns import write_arguments


def write_session(
    row: SessionRow,
    *,
    agent: Agent | None = None,
    config: RunConfig | None = None,
    required_actions: Iterable[event_pb2.RequiredAction] = (),
    queued_turn_ids: Iterable[str] = (),
) -> session_pb2.Session:
    """Write a session. `agent` and `config` None: it has none, or they are left out of a list."""
    message = session_pb2.Session(
        session_id=row.session_id,
        key=row.key,
        status=SESSION_STATUSES.to_wire[row.status],
        run_config=None if config is None else write_config(config),
        scopes=row.scopes,
        metadata=row.metadata,
        required_actions=required_actions,
        active_turn_id=row.active_turn_id,
        queued_turn_ids=queued_turn_ids,
        last_sequence=row.last_sequence,
        history_keeper=session_pb2.HistoryKeeper.Value(f"HISTORY_KEEPER_{row.history_keeper or 'UNSPECIFIED'}"),
        usage=write_usage(row.usage),
        created_at=write_time(row.created_at),
        last_active_at=write_time(row.last_active_at),
    )
    if agent is not None:
        message.agent.CopyFrom(
            agent_pb2.AgentRevision(
                agent_id=row.agent_id,
                revision=row.agent_revision,
                agent=write_agent(agent),
                digest=row.agent_digest,
            )
        )
    if row.expires_after_s is not None:
        message.expires_at.CopyFrom(write_time(row.last_active_at + row.expires_after_s))
    return message


def write_turn(row: TurnRow) -> event_pb2.Turn:
    """Write a turn with its times and sequences. An output that was omitted at rest stays omitted."""
    message = event_pb2.Turn.FromString(row.snapshot)
    message.status = TURN_STATUSES.to_wire[row.status]
    message.first_sequence, message.last_sequence = row.first_sequence, row.last_sequence
    message.created_at.CopyFrom(write_time(row.created_at))
    if row.started_at is not None:
        message.started_at.CopyFrom(write_time(row.started_at))
    if row.ended_at is not None:
        message.ended_at.CopyFrom(write_time(row.ended_at))
    return message


def write_lease(worker_id: str, until: float, acked: bool) -> event_pb2.Lease:
    """Write who holds a call; `until` in seconds since the epoch."""
    return event_pb2.Lease(worker_id=worker_id, until=write_time(until), acked=acked)


def write_required_action(row: CallRow, state: str, lease: event_pb2.Lease | None = None) -> event_pb2.RequiredAction:
    """Write an open call. `state`: a name of `baton.v1.RequiredActionState`; `lease`: LEASED only.

    What a decision is bound to, and until when it is waited for, is told of AWAITING_DECISION alone. Arguments above
    `INLINE_BYTES` are omitted, as they are in the events that the call came with.
    """
    awaiting = state == "AWAITING_DECISION"
    ends = [at for at in (row.expires_at, row.decide_by if awaiting else None) if at is not None]
    message = event_pb2.RequiredAction(
        session_id=row.session_id,
        turn_id=row.turn_id,
        call_id=row.call_id,
        run_path=row.run_path,
        agent=row.agent,
        name=row.name,
        state=event_pb2.RequiredActionState.Value(f"REQUIRED_ACTION_STATE_{state}"),
        lease=lease,
        attempt=row.attempt,
        idempotency_key=row.key,
        expires_at=write_time(min(ends)) if ends else None,
        approval=_binding(row) if awaiting else None,
        created_at=write_time(row.opened_at),
        kind=event_pb2.REQUIRED_ACTION_KIND_FUNCTION_CALL,
    )
    write_arguments(message, row.arguments, Omit())
    return message


def _binding(row: CallRow) -> event_pb2.ApprovalBinding:
    return write_binding(Binding(arguments_digest=row.arguments_digest, definition_digest=row.definition_digest))


def write_agent_revision(row: AgentRow, agent: Agent) -> agent_pb2.AgentRevision:
    """Write one revision of a kept agent."""
    return agent_pb2.AgentRevision(
        agent_id=row.agent_id,
        revision=row.revision,
        agent=write_agent(agent),
        digest=row.digest,
        metadata=row.metadata,
        created_at=write_time(row.created_at),
    )


def write_item_row(row: ItemRow) -> item_pb2.Item:
    """Write an item at rest, with the time of its event."""
    message = item_pb2.Item.FromString(row.data)
    message.created_at.CopyFrom(write_time(row.created_at))
    return message


def write_round_usage(rounds: Iterable[RoundUsage]) -> list[runner_pb2.RoundUsage]:
    """Write the tokens of each round, in order."""
    return [
        runner_pb2.RoundUsage(
            round=one.round, model=one.model, response_id=one.response_id, usage=write_usage(one.usage)
        )
        for one in rounds
    ]
