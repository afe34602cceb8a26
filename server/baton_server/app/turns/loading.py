"""Loading: a turn's state, folded from its events as the log has them, or as its last commit here left it."""

from __future__ import annotations

from collections.abc import Sequence

from baton_server.app.runtime import Runtime
from baton_server.app.turns.ended import EndedTurns
from baton_server.core.events import TERMINAL
from baton_server.core.state import TurnState
from baton_server.ports.observer import Recorded
from baton_server.ports.store import TurnRow


class Loading:
    """Reads turns. States of turns that have just ended are kept for those who ask how they did."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._ended = EndedTurns()

    def keep(self, row: TurnRow, state: TurnState) -> None:
        """Keep the state of a turn that has ended."""
        self._ended.keep(row, state)

    async def read(self, row: TurnRow) -> TurnState:
        """Fold a turn's events into its state, as the log has them, unless its last commit here left it."""
        kept = self._ended.state(row)
        if kept is not None:
            return kept
        store, codec = self._runtime.store, self._runtime.codec
        pinned = await self._runtime.pinned(row.agent_digest, row.config_digest)
        rows = await store.events.of_turn(row.turn_id)
        texts = await store.items.texts(row.turn_id)
        contents = await self._contents(row.session_id, [r.data for r in rows])
        events = [codec.read_event(r.data, texts, contents) for r in rows]

        def told() -> Recorded:
            times, sequences = [codec.committed_at(r.data) for r in rows], [r.sequence for r in rows]
            return Recorded(session_id=row.session_id, events=events, sequences=sequences, times=times, pinned=pinned)

        if row.status not in TERMINAL:
            self._runtime.observer.loaded(row.turn_id, told)
        return TurnState.rebuilt(codec.read_turn(row.snapshot), pinned, events)

    async def _contents(self, session_id: str, events: Sequence[bytes]) -> dict[str, bytes]:
        contents = {}
        for digest in {d for data in events for d in self._runtime.codec.omitted(data)}:
            found = await self._runtime.store.documents.content(session_id, digest)
            contents[digest] = found or b""
        return contents
