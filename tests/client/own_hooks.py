"""Asks the hooks of an agent or a run of this process, as a worker stream would: a payload in, an answer out."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from baton.agents.agent import Agent, agent_to_pb
from baton.agents.graph import reachable
from baton.hooks.kinds import HOOK_KINDS, facts_of
from baton.hooks.reading import payload_of
from baton.hooks.refs import Gathered, LocalHook
from baton.runs.run_config import RunConfig, config_to_pb
from baton.runs.run_options import RunOptions
from baton.v1 import handler_pb2


def hooks_of(agent: Agent[Any], config: RunConfig | None = None, options: RunOptions | None = None) -> list[LocalHook]:
    """Gather what a run of an agent brings."""
    gathered = Gathered()
    agent_to_pb(agent, gathered.ref_of)
    config_to_pb(config or RunConfig(), options or RunOptions(), gathered.ref_of)
    return gathered.hooks


async def ask(
    kind: str,
    payload: Mapping[str, Any],
    agent: Agent[Any],
    config: RunConfig | None = None,
    options: RunOptions | None = None,
    *,
    context: Any = "basket",
    whose: str | None = None,
    index: int = 0,
) -> Any:
    """Ask the hook of a kind that a run brings. `whose`: the agent at that moment; None: the one that starts.

    `index`: of several of one kind. Returns the answer, read.
    """
    hook = [one for one in hooks_of(agent, config, options) if one.kind is HOOK_KINDS[kind]][index]
    graph = reachable(agent)
    batch = handler_pb2.HookBatch(session_id="sess_1", turn_id="turn_1", agent=whose or agent.name, round=1)
    asked = handler_pb2.Hook(kind=hook.kind.number, name=hook.name, payload_json=json.dumps(payload))
    data = hook.kind.read(facts_of(batch, asked), payload_of(batch, asked))
    said = hook.function(replace(data, agent=graph[whose or agent.name], agents=graph, context=context))
    if inspect.isawaitable(said):
        said = await said
    return json.loads(hook.kind.write(hook.name, said))
