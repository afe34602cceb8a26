"""Telling lifecycle hooks what happens: notifications, sent once the events are on disk, that nothing waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from baton_server.app.calls.hooks import Asked, Hooks, Occasion
from baton_server.core import jsontext
from baton_server.core.agents import LifecycleHook, Moment
from baton_server.core.events import AgentChanged, Event, HookKind, ItemAdded, RoundCompleted, TurnEnded, TurnStatus
from baton_server.core.items import FunctionCall, FunctionCallOutput, ItemStatus, text_of
from baton_server.core.state import TurnState
from baton_server.ports.clock import Ids


class Telling:
    """Sends notifications."""

    def __init__(self, hooks: Hooks, ids: Ids) -> None:
        self._hooks, self._ids = hooks, ids

    def events(self, state: TurnState, events: Iterable[Event]) -> None:
        """Tell what some events of a turn, in order, mean to who listens: of a reply its end before its calls."""
        if state.pinned.config.lifecycle_hooks:
            for event in sorted(events, key=lambda event: not isinstance(event.body, RoundCompleted)):
                told = _moment(event) if event.turn_id == state.turn_id else None
                if told is not None:
                    self._tell(state, event.round, *told)

    def began(self, state: TurnState) -> None:
        """Tell that a turn which began with its acceptance has its agent."""
        if state.pinned.config.lifecycle_hooks:
            self._tell(state, 0, Moment.AGENT_START, {})

    def model_start(self, state: TurnState, round_number: int) -> None:
        """Tell that a model request is about to be sent."""
        if state.pinned.config.lifecycle_hooks:
            self._tell(state, round_number, Moment.MODEL_START, {"round": round_number})

    def _tell(self, state: TurnState, round_number: int, moment: Moment, facts: Mapping[str, Any]) -> None:
        config, agent = state.pinned.config, state.pinned.agent.name
        wanted = [one for one in config.lifecycle_hooks if not one.moments or moment in one.moments]
        if not wanted:
            return
        payload = jsontext.dump({"moment": moment.value.lower(), "agent": agent, **facts})
        occasion = Occasion(
            session_id=state.session_id,
            turn_id=state.turn_id,
            agent=agent,
            round=round_number,
            scopes=config.lookup,
            unserved_grace_s=0,
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


def _moment(event: Event) -> tuple[Moment, dict[str, Any]] | None:
    """Say which moment an event is, and what there is to tell; None: none."""
    match event.body:
        case AgentChanged():
            return Moment.AGENT_START, {}
        case RoundCompleted(model=model, response_id=response_id):
            return Moment.MODEL_END, {"round": event.round, "model": model, "response_id": response_id}
        case ItemAdded(item=item) if isinstance(item.body, FunctionCall) and item.status is ItemStatus.IN_PROGRESS:
            call = item.body
            facts = {"call_id": call.call_id, "tool": call.name, "arguments_json": call.arguments}
            return Moment.FUNCTION_START, facts
        case ItemAdded(item=item) if isinstance(item.body, FunctionCallOutput) and item.body.settlement is not None:
            output = item.body
            facts = {"call_id": output.call_id, "tool": output.name, "output": text_of(output.output)}
            return Moment.FUNCTION_END, {**facts, "settlement": output.settlement}
        case TurnEnded(turn=turn) if turn.status is TurnStatus.COMPLETED:
            return Moment.AGENT_END, {"output": turn.output or ""}
        case _:
            return None
