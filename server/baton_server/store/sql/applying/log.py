"""Events, and what they do to items."""

from __future__ import annotations

from typing import Any

from baton_server.ports.store import EventRow, ItemRow, Stamp
from baton_server.store.sql.applying.step import Step


def append(step: Step, stamp: Stamp) -> None:
    """Write the events, and what they do to items."""
    batch = step.batch
    if not batch.events:
        return
    session_id, first = batch.session_id, step.first_sequence
    step.events = tuple(
        EventRow(sequence=n, turn_id=event.turn_id, data=stamp(event.data, session_id, n, step.at))
        for n, event in enumerate(batch.events, first)
    )
    step.db.executemany(
        step.sql.log.insert_event,
        [
            {"session_id": session_id, "sequence": row.sequence, "turn_id": row.turn_id, "data": row.data}
            for row in step.events
        ],
    )
    items = [_item_params(step, event.item, n) for n, event in enumerate(batch.events, first) if event.item is not None]
    if items:
        step.db.executemany(step.sql.log.insert_item, items)
    for item_id in batch.withdrawn:
        step.db.execute(step.sql.log.withdraw, {"item_id": item_id, "session_id": session_id, "sequence": first})


def _item_params(step: Step, item: ItemRow, sequence: int) -> dict[str, Any]:
    return {
        "item_id": item.item_id,
        "session_id": step.batch.session_id,
        "turn_id": item.turn_id,
        "anchor": step.anchors[item.turn_id] if item.turn_id else sequence,
        "rank": item.rank,
        "data": item.data,
        "json": item.json.encode(),
        "sequence": sequence,
        "added": sequence if item.in_history else 0,
        "withdrawn": 0,
        "created_at": step.at,
    }
