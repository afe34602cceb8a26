"""Tell watchers what was committed: the stored bytes, encoded once for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from baton_server.app.runtime import Runtime
from baton_server.app.turns.recording import Recording
from baton_server.core.run_config import Pinned
from baton_server.ports.bus import Part
from baton_server.ports.observer import Recorded
from baton_server.ports.store import Committed


def publish(
    runtime: Runtime,
    session_id: str,
    recording: Recording,
    done: Committed,
    before: Sequence[Part] = (),
    pinned: Pinned | None = None,
) -> None:
    """Publish the events of a commit, behind fragments that were still held back (`before`); tell the observer.

    `pinned`: what the turn runs with that they are about, where it is known.
    """
    told = Recorded(
        session_id=session_id,
        events=recording.bodies,
        sequences=[row.sequence for row in done.events],
        times=[done.at] * len(done.events),
        pinned=pinned,
    )
    runtime.observer.recorded(told)
    if not runtime.bus.heard(session_id):
        return
    parts = [
        Part(
            sequence=row.sequence,
            turn_id=row.turn_id,
            data=runtime.parts.event_part(row.data),
            edge=edge,
            ends=ends,
        )
        for row, edge, ends in zip(done.events, recording.edges, recording.ends, strict=True)
    ]
    runtime.bus.publish(session_id, (*before, *parts))
