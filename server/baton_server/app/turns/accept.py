"""Accepting a turn: what it will run with is resolved and pinned, and its first events are made.

A turn that finds its session idle begins in the very commit that accepts it; else it is QUEUED, with its input
in its inbox.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from baton_server.app.calls.frames import Handler, SideEffects
from baton_server.app.calls.registry import Registry
from baton_server.app.runtime import Runtime
from baton_server.app.turns.recording import Recording
from baton_server.core.agents import Agent
from baton_server.core.errors import Reason, refuse
from baton_server.core.events import SessionIdle, SessionInProgress, TurnCreated, TurnSnapshot, TurnStatus
from baton_server.core.inputs import Begun, NewItem, Steered
from baton_server.core.run_config import Pinned, RunConfig
from baton_server.core.state import TurnState
from baton_server.core.tools import Execution, FunctionTool, LostWorker
from baton_server.ports.rules import SchemaRules
from baton_server.ports.store import InboxRow, TurnRow, TurnWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """A turn that is about to be accepted. `state` has begun, or is QUEUED with `inbox`."""

    state: TurnState
    row: TurnRow
    documents: Mapping[str, bytes]
    inbox: tuple[InboxRow, ...] = ()

    @property
    def write(self) -> TurnWrite:
        """Say what the batch does with the turn's row."""
        return TurnWrite(row=self.row, starts=self.row.status is not TurnStatus.QUEUED, ends=self.state.over)

    @property
    def active_turn_id(self) -> str:
        """Say which turn its session has then: this one, unless it has ended with its first step."""
        return "" if self.state.over else self.row.turn_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a turn is asked to be. `items`: its input, in order.

    `continues`: the turn that it goes on from, `carried`: what it takes from that one; empty: none.
    """

    session_id: str
    request_id: str
    agent: Agent
    config: RunConfig
    items: Sequence[NewItem]
    begins: bool
    carried: tuple[NewItem, ...] = ()
    continues: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


class Acceptance:
    """Makes turns out of requests."""

    def __init__(self, runtime: Runtime, registry: Registry, rules: SchemaRules) -> None:
        self._runtime, self._registry, self._rules = runtime, registry, rules

    def turn(self, asked: TurnRequest, recording: Recording) -> NewTurn:
        """Pin a turn and record its first events.

        Raises Refused(FUNCTION_UNDECLARED): a function has no parameters and no attached worker says them.
        """
        # The graph of a turn that is gone on with was resolved when that one was accepted.
        graph = asked.agent if asked.continues else self._resolve(asked.agent, asked.config.lookup)
        pinned = Pinned(agent=graph, config=asked.config)
        _check_start(pinned)
        agent_digest, agent = self._runtime.codec.agent(pinned.agent)
        config_digest, config = self._runtime.codec.config(pinned.config)
        snapshot = TurnSnapshot(
            turn_id=self._runtime.ids.new("turn"),
            session_id=asked.session_id,
            status=TurnStatus.QUEUED,
            agent=pinned.start.name,
            last_agent=pinned.start.name,
            continues=asked.continues,
            agent_digest=agent_digest,
            run_config_digest=config_digest,
            request_id=asked.request_id,
            max_turns=pinned.config.round_limit,
        )
        state = TurnState.of(snapshot, pinned)
        inbox: tuple[InboxRow, ...] = ()
        if asked.begins:
            begun = replace(snapshot, status=TurnStatus.IN_PROGRESS)
            recording.add(SessionInProgress(), turn_id=state.turn_id)
            recording.add(TurnCreated(turn=begun), turn_id=state.turn_id)
            recording.extend(self._runtime.runner.step(state, Begun(items=tuple(asked.items), carried=asked.carried)))
            if state.over:
                recording.add(SessionIdle())
        else:
            recording.add(TurnCreated(turn=snapshot), turn_id=state.turn_id)
            data = self._runtime.codec.input(Steered(items=tuple(asked.items), carried=asked.carried))
            inbox = (InboxRow(turn_id=state.turn_id, source="input", data=data),)
        row = TurnRow(
            turn_id=state.turn_id,
            session_id=asked.session_id,
            status=state.status,
            snapshot=self._runtime.codec.turn(state.snapshot()),
            agent_digest=agent_digest,
            config_digest=config_digest,
            request_id=asked.request_id,
        )
        documents = {agent_digest: agent, config_digest: config}
        return NewTurn(state=state, row=row, documents=documents, inbox=inbox)

    def _resolve(self, agent: Agent, scopes: tuple[str, ...]) -> Agent:
        """Give every function of a graph its parameters and its strictness, and every handoff its words."""
        told = {one.name: one.handoff_description for one in agent.everyone()}
        others = tuple(self._one(one, scopes, told) for one in agent.agents)
        return replace(self._one(agent, scopes, told), agents=others)

    def _one(self, agent: Agent, scopes: tuple[str, ...], told: Mapping[str, str]) -> Agent:
        tools = tuple(self._function(one, scopes) if isinstance(one, FunctionTool) else one for one in agent.tools)
        handoffs = tuple(
            one if one.description else replace(one, description=_words(one.agent, told[one.agent]))
            for one in agent.handoffs
        )
        return replace(agent, tools=tools, handoffs=handoffs)

    def _function(self, function: FunctionTool, scopes: tuple[str, ...]) -> FunctionTool:
        handler = self._registry.handler(function.name, scopes, function.handler_version)
        if handler is not None:
            function = replace(function, execution=_execution(handler).under(function.execution))
        if not function.parameters_json:
            if handler is None or not handler.parameters_json:
                raise refuse(
                    Reason.FUNCTION_UNDECLARED,
                    f"The function {function.name!r} has no parameters_json, and no attached worker declares any "
                    f"(looked in {_places(scopes)}). Add parameters_json to the agent's tool, or attach a "
                    "worker that serves the function with its schema.",
                    function=function.name,
                    scopes=",".join(scopes),
                )
            function = replace(
                function,
                parameters_json=handler.parameters_json,
                description=function.description or handler.description,
                handler_version=handler.version,
            )
        allows = self._rules.strict_allows(function.parameters_json)
        if function.strict and not allows:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"The function {function.name!r} is to be strict, but the schema that its handler declares does "
                "not allow it: every object must be closed and every property required.",
                fields="1",
            )
        return replace(function, strict=allows if function.strict is None else function.strict)


def _places(scopes: tuple[str, ...]) -> str:
    """Say where a function was looked for: some scopes, the empty one at last."""
    named = [repr(scope) for scope in scopes if scope]
    if not named:
        return "the empty scope"
    return f"the scope{'s' if named[1:] else ''} {', '.join(named)} and the empty one"


def _words(agent: str, description: str) -> str:
    """Say what the model is told of a handoff where nobody says otherwise."""
    return f"Hands the conversation over to the agent {agent}, who takes care of the request. {description}".rstrip()


def _check_start(pinned: Pinned) -> None:
    """Refuse a start that the graph does not have. Raises Refused(USER_ERROR)."""
    start = pinned.config.start_agent
    if start and start not in pinned.by_name:
        there = ", ".join(repr(name) for name in pinned.by_name)
        raise refuse(
            Reason.USER_ERROR,
            f"The turn is to start with the agent {start!r}, which is not in its graph. There are: {there}.",
            field="run_config.start_agent",
        )


_LOST_WORKERS = {
    SideEffects.NONE: LostWorker.REDELIVER,
    SideEffects.IDEMPOTENT: LostWorker.REDELIVER,
    SideEffects.ONCE: LostWorker.ASK,
}


def _execution(handler: Handler) -> Execution:
    """Say how a handler wants its function to be executed."""
    return Execution(
        timeout_s=handler.timeout_s,
        lost_worker=None if handler.side_effects is None else _LOST_WORKERS[handler.side_effects],
        idempotency_fields=handler.idempotency_fields,
    )
