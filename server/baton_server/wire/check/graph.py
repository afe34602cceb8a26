"""Whether a graph of agents holds together: one name, one agent, and nobody hands over to who is not there.

Handoffs may lead round in circles. Agent tools may not: a run would hold itself, without end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from baton.v1 import agent_pb2, run_config_pb2
from baton_server.wire.check.tools import AGENT_CHARACTERS
from baton_server.wire.check.violations import Violations

SHOWN_AGENTS = 8
"""Of a graph, in words about what is not in it."""

_Edges = dict[str, list[tuple[str, str]]]
"""By agent: whom its agent tools run, and the path of each tool."""


def graph(found: Violations, path: str, start: agent_pb2.Agent) -> None:
    """Check the graph that an agent starts. Its faults have the reason AGENT_GRAPH_INVALID."""
    places = list(_places(path, start))
    first: dict[str, str] = {}
    for where, agent in places:
        if first.setdefault(agent.name, where) != where and agent.name:
            found.fault(
                f"{where}.name",
                f"is {agent.name[:80]!r} as in {first[agent.name]}, must be unique in the graph",
                agent=agent.name,
                problem="two agents of one name",
            )
        if where != path and agent.agents:
            found.fault(
                f"{where}.agents",
                f"must be empty on {agent.name[:80]!r}: all agents of the graph stand on the one that starts",
                agent=agent.name,
                problem="agents on an agent that does not start",
            )
    edges = _targets(found, places, first)
    _cycles(found, edges)


def start_agent(found: Violations, path: str, start: agent_pb2.Agent, config: run_config_pb2.RunConfig) -> None:
    """Check that the agent that a run starts with is in its graph; where no graph is given, the turn finds out."""
    names = [start.name, *(agent.name for agent in start.agents)]
    if _may_be_meant(config.start_agent) and config.start_agent not in names:
        found.add(path, f"is {config.start_agent[:80]!r}, which is no agent of the graph: {_listed(names)}")


def _may_be_meant(name: str) -> bool:
    """Tell whether a name can be one of the graph at all; one that cannot was refused for itself."""
    return 1 <= len(name) <= AGENT_CHARACTERS


def _places(path: str, start: agent_pb2.Agent) -> Iterator[tuple[str, agent_pb2.Agent]]:
    yield path, start
    for index, agent in enumerate(start.agents):
        yield f"{path}.agents[{index}]", agent


def _targets(found: Violations, places: list[tuple[str, agent_pb2.Agent]], names: Mapping[str, str]) -> _Edges:
    """Check whom handoffs and agent tools name; returns the edges that agent tools make."""
    edges: _Edges = {}
    for where, agent in places:
        for index, handoff in enumerate(agent.handoffs):
            if _may_be_meant(handoff.agent) and handoff.agent not in names:
                problem = f"is {handoff.agent[:80]!r}, which is no agent of the graph: {_listed(list(names))}"
                facts = {"agent": agent.name, "handoff": handoff.agent, "problem": "no such agent"}
                found.fault(f"{where}.handoffs[{index}].agent", problem, **facts)
        for index, tool in enumerate(agent.tools):
            target, place = tool.agent.agent, f"{where}.tools[{index}].agent.agent"
            if target in names:
                edges.setdefault(agent.name, []).append((target, place))
            elif _may_be_meant(target):
                problem = f"is {target[:80]!r}, which is no agent of the graph: {_listed(list(names))}"
                found.fault(place, problem, agent=agent.name, tool=target, problem="no such agent")
    return edges


def _cycles(found: Violations, edges: _Edges) -> None:
    """Find the agent tools by which an agent would run inside itself, each circle once."""
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        for target, place in edges.get(name, ()):
            if target in above:
                circle = " → ".join(repr(one[:40]) for one in (*above[above.index(target) :], target))
                problem = f"is {target[:80]!r}, which would run inside itself ({circle}); use a handoff"
                found.fault(place, problem, agent=name, tool=target, problem="an agent tool that contains itself")
            elif target not in done:
                visit(target, (*above, target))
        done.add(name)

    for name in edges:
        if name not in done:
            visit(name, (name,))


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:SHOWN_AGENTS])
    return shown if len(names) <= SHOWN_AGENTS else f"{shown} and {len(names) - SHOWN_AGENTS} more"
