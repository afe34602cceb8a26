"""Telling lifecycle hooks what happens: notifications, sent once the events are on disk, that nothing waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from baton_server.app.calls.hooks import Asked, Hooks, Occasion
from baton_server.core import jsontext, moments
from baton_server.core.agents import LifecycleHook, Moment
from baton_server.core.commands import CallModel
from baton_server.core.events import (
    AgentChanged,
    CallReturned,
    Event,
    HookKind,
    ItemAdded,
    RoundCompleted,
    TurnEnded,
    TurnStatus,
)
from baton_server.core.items import FunctionCall, FunctionCallOutput, HandoffOutput, ItemStatus, Settlement, text_of
from baton_server.core.state import TurnState
from baton_server.core.tools import AgentTool
from baton_server.ports.clock import Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whose:
    """Whose moment it is. `nested`: of a run that an agent tool began."""

    agent: str
    round: int
    nested: bool = False


class Telling:
    """Sends notifications."""

    def __init__(self, hooks: Hooks, ids: Ids) -> None:
        self._hooks, self._ids = hooks, ids

    def events(self, state: TurnState, events: Iterable[Event]) -> None:
        """Tell what some events of a turn, in order, mean to who listens: of a reply its end before its calls."""
        if state.pinned.has_listeners:
            for event in sorted(events, key=lambda event: not isinstance(event.body, RoundCompleted)):
                told = _moment(event) if event.turn_id == state.turn_id else None
                if told is not None:
                    self._tell(state, _whose(state, event), *told)
                elif isinstance(event.body, RoundCompleted) and event.turn_id == state.turn_id:
                    self._reply_told(state, event)

    def began(self, state: TurnState) -> None:
        """Tell that a turn which began with its acceptance has its agent."""
        if state.pinned.has_listeners:
            self._tell(state, _Whose(agent=state.pinned.start.name, round=0), Moment.AGENT_START, {})

    def model_start(self, state: TurnState, command: CallModel) -> None:
        """Tell that a model request is about to be sent."""
        if state.pinned.has_listeners:
            agent, nested = state.runs[command.run_path].agent, bool(command.run_path)
            whose = _Whose(agent=agent, round=command.round, nested=nested)
            self._tell(state, whose, Moment.MODEL_START, {"round": command.round})

    def _reply_told(self, state: TurnState, event: Event) -> None:
        run = state.runs.get(event.run_path)
        if run is not None:
            whose = _Whose(agent=run.agent, round=event.round, nested=bool(run.path))
            self._send(state, whose, Moment.MODEL_END, moments.model_end(state, run))

    def _tell(self, state: TurnState, whose: _Whose, moment: Moment, facts: Mapping[str, Any]) -> None:
        payload = jsontext.dump({"moment": moment.value.lower(), "agent": whose.agent, **facts})
        self._send(state, whose, moment, payload)

    def _send(self, state: TurnState, whose: _Whose, moment: Moment, payload: str) -> None:
        config, agent = state.pinned.config, state.pinned.by_name[whose.agent]
        hooks = state.pinned.lifecycle_hooks(agent, moment, nested=whose.nested)
        wanted = [one for one in hooks if not one.awaited]
        if not wanted:
            return
        occasion = Occasion(
            session_id=state.session_id,
            turn_id=state.turn_id,
            agent=whose.agent,
            round=whose.round,
            scopes=config.lookup,
            unserved_grace_s=0,
            usage=state.usage,
        )
        self._hooks.tell(occasion, [self._notification(one, payload) for one in wanted])

    def _notification(self, one: LifecycleHook, payload: str) -> Asked:
        return Asked(
            hook_id=self._ids.new("hook"),
            kind=HookKind.LIFECYCLE,
            name=one.hook.name,
            payload_json=payload,
            timeout_s=one.hook.timeout_s,
        )


def _whose(state: TurnState, event: Event) -> _Whose:
    """Say whose moment an event is: the end of a nested run is its own, though its event is of the run around it."""
    nested = bool(event.run_path) or isinstance(event.body, CallReturned)
    return _Whose(agent=_agent_of(state, event), round=event.round, nested=nested)


def _agent_of(state: TurnState, event: Event) -> str:
    match event.body:
        case AgentChanged(agent=agent):
            return agent
        case ItemAdded(item=item) if item.agent:
            return item.agent
        case CallReturned(call_id=call_id):
            return _nested_agent(state, call_id)
        case _:
            run = state.runs.get(event.run_path)
            return state.own.agent if run is None else run.agent


def _nested_agent(state: TurnState, call_id: str) -> str:
    """Say which agent ended the run of an agent tool: who went on last, or where that is forgotten, who began."""
    call = state.calls[call_id]
    run, tool = state.runs.get(call.path), state.tool(call)
    if run is not None:
        return run.agent
    return tool.agent if isinstance(tool, AgentTool) else call.agent


def _moment(event: Event) -> tuple[Moment, dict[str, Any]] | None:
    """Say which moment an event is, and what there is to tell; None: none."""
    match event.body:
        case AgentChanged():
            return Moment.AGENT_START, {}
        case ItemAdded(item=item) if isinstance(item.body, HandoffOutput) and item.body.to_agent:
            return Moment.HANDOFF, {"from_agent": item.body.from_agent, "to_agent": item.body.to_agent}
        case ItemAdded(item=item) if isinstance(item.body, FunctionCall) and item.status is ItemStatus.IN_PROGRESS:
            call = item.body
            facts = {"call_id": call.call_id, "tool": call.name, "arguments_json": call.arguments}
            return Moment.FUNCTION_START, facts
        case ItemAdded(item=item) if isinstance(item.body, FunctionCallOutput) and item.body.settlement is not None:
            output = item.body
            facts = {"call_id": output.call_id, "tool": output.name, "output": text_of(output.output)}
            return Moment.FUNCTION_END, {**facts, "settlement": output.settlement}
        case CallReturned(settlement=Settlement.NESTED_RUN, output=said):
            return Moment.AGENT_END, {"output": text_of(said)}
        case TurnEnded(turn=turn) if turn.status is TurnStatus.COMPLETED:
            return Moment.AGENT_END, {"output": turn.output or ""}
        case _:
            return None
