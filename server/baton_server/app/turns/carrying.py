"""What a turn that goes on from an ended one takes from it: what the old one's next request would have carried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from baton_server.app.runtime import Runtime
from baton_server.core import request
from baton_server.core.inputs import NewItem
from baton_server.core.responses import read_items
from baton_server.core.run_config import KEPT_BY_MODEL, HistoryMode, RunConfig
from baton_server.core.state import TurnState
from baton_server.ports.store import TurnRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """`items`: to begin with, before any input. `config`: of the new turn."""

    items: tuple[NewItem, ...]
    config: RunConfig


async def carried(runtime: Runtime, state: TurnState, row: TurnRow) -> Carried:
    """Put together what an ended turn's next request would have carried."""
    history: Sequence[str] = ()
    if state.pinned.config.mode is HistoryMode.SESSION and not state.continues:
        history = await runtime.store.items.history(state.session_id, row.started_sequence)
    own, config = state.own, state.pinned.config
    if config.mode in KEPT_BY_MODEL:
        texts = [state.items[number].json for number in state.unsent(own)]
        _, previous = request.kept_by_model(state, own)
        if config.history is not None and previous:
            config = replace(config, history=replace(config.history, id=previous))
    else:
        texts = request.view(state, own, history).all
    return Carried(items=read_items(request.as_list(texts)), config=config)
