"""Documents, contents, grants, timers and kept agents."""

from __future__ import annotations

from baton_server.ports.store import Conflict, ConflictKind
from baton_server.store.sql import rows
from baton_server.store.sql.applying.step import Step


def write_rest(step: Step) -> None:
    """Keep documents and contents, note grants, set timers, keep agents."""
    batch, sql = step.batch, step.sql.rest
    for digest, data in batch.documents.items():
        step.db.execute(sql.insert_document, {"digest": digest, "data": data})
    for digest, data in batch.contents.items():
        given = {"session_id": batch.session_id, "digest": digest, "data": data}
        step.db.execute(sql.insert_content, given)
    for grant in batch.grants:
        granted = rows.grant_params(grant, step.at)
        step.db.execute(sql.clear_grant, granted)
        step.db.execute(sql.insert_grant, granted)
    for turn_id, name in batch.timers_cleared:
        step.db.execute(sql.clear_timer, {"turn_id": turn_id, "name": name})
    for timer in batch.timers_set:
        timed = {"turn_id": timer.turn_id, "name": timer.name, "at": timer.at}
        step.db.execute(sql.clear_timer, timed)
        step.db.execute(sql.insert_timer, timed)
    _write_agents(step)


def _write_agents(step: Step) -> None:
    sql, agent, deleted = step.sql.rest, step.batch.agent, step.batch.agent_deleted
    if agent is not None:
        found = step.db.execute(sql.newest_revision, {"agent_id": agent.agent_id}).fetchone()
        newest = found[0] if found is not None else 0
        if newest == 0 and agent.revision != 1:
            raise Conflict(ConflictKind.GONE, f"there is no agent {agent.agent_id!r}")
        given = {
            "agent_id": agent.agent_id,
            "revision": agent.revision,
            "digest": agent.digest,
            "metadata": rows.pairs(agent.metadata),
            "created_at": step.at,
        }
        if newest != agent.revision - 1 or step.db.execute(sql.insert_agent, given).rowcount == 0:
            raise Conflict(
                ConflictKind.VERSION,
                f"the agent {agent.agent_id!r} has revision {newest}, not {agent.revision - 1}",
            )
    if deleted and step.db.execute(sql.delete_agent, {"agent_id": deleted}).rowcount == 0:
        raise Conflict(ConflictKind.GONE, f"there is no agent {deleted!r}")
