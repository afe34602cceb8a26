"""Reads from the server what the answer of Run would say of a turn, where no request for it is at hand.

A request_id is known for a day, and its body holds all of the agents; a turn may wait longer, and whoever goes on with
it knows only its ids. So its answer is put together from the log.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from baton.items.responses import RawItem, model_call_ids, raw_item
from baton.runs.turn_status import ENDED
from baton.server.connection import Connection
from baton.server.content import list_items
from baton.v1 import agent_pb2, event_pb2, item_pb2, run_config_pb2, runner_pb2, session_pb2

EVENTS_AT_ONCE = 1_000

_STAGES: Mapping[event_pb2.HandlerKind.ValueType, event_pb2.GuardrailStage.ValueType] = {
    event_pb2.HANDLER_KIND_INPUT_GUARDRAIL: event_pb2.GUARDRAIL_STAGE_INPUT,
    event_pb2.HANDLER_KIND_OUTPUT_GUARDRAIL: event_pb2.GUARDRAIL_STAGE_OUTPUT,
    event_pb2.HANDLER_KIND_TOOL_INPUT_GUARDRAIL: event_pb2.GUARDRAIL_STAGE_TOOL_INPUT,
    event_pb2.HANDLER_KIND_TOOL_OUTPUT_GUARDRAIL: event_pb2.GUARDRAIL_STAGE_TOOL_OUTPUT,
}


async def read_response(connection: Connection, session_id: str, turn_id: str) -> runner_pb2.RunResponse:
    """Put a turn's answer together, with all its items, each complete. Raises NotFoundError where it is gone."""
    asked = session_pb2.GetTurnRequest(session_id=session_id, turn_id=turn_id, with_pinned=True)
    found = await connection.unary(connection.sessions.GetTurn, asked)
    request = session_pb2.ListItemsRequest(session_id=session_id, turn_id=turn_id)
    items = [item async for item in list_items(connection, request) if not item.run_path]
    response = runner_pb2.RunResponse(session_id=session_id, turn=found.turn, required_actions=found.required_actions)
    guardrails = dict(_guardrails(found.agent, found.run_config))
    withdrawn: dict[str, event_pb2.WithdrawalReason.ValueType] = {}
    async for event in _events(connection, session_id, turn_id):
        if event.HasField("round_completed") and not event.run_path:
            response.round_usage.append(_round(event))
        if event.items_withdrawn.reason in _FILTERED:
            withdrawn |= dict.fromkeys(event.items_withdrawn.item_ids, event.items_withdrawn.reason)
        told = _guardrail(event, found.turn, guardrails)
        if told is not None:
            response.guardrail_results.append(told)
    made = [one for one in items if withdrawn.get(one.item_id) != event_pb2.WITHDRAWAL_REASON_FILTERED]
    response.new_items.extend(item for item in made if item.agent and item.status not in _CUT_OFF)
    history = [item for item in items if item.item_id not in withdrawn]
    if found.turn.status in ENDED and _in_session(found.run_config):
        whole = session_pb2.ListItemsRequest(session_id=session_id, history_only=True)
        history = [item async for item in list_items(connection, whole)]
    omits = found.run_config.reasoning_item_ids == run_config_pb2.REASONING_ITEM_IDS_OMIT
    response.next_items_json = _next_items(history, without_ids_of=turn_id if omits else "")
    return response


async def read_input(connection: Connection, session_id: str, turn_id: str) -> list[RawItem]:
    """List what a turn was given, and what joined it."""
    request = session_pb2.ListItemsRequest(session_id=session_id, turn_id=turn_id)
    return [raw_item(item) async for item in list_items(connection, request) if not item.agent]


async def nested_calls(connection: Connection, response: runner_pb2.RunResponse) -> list[item_pb2.Item]:
    """List the calls of nested runs in which something waits. A run's answer leaves nested runs out."""
    if not any(action.run_path for action in response.required_actions):
        return []
    request = session_pb2.ListItemsRequest(session_id=response.session_id, turn_id=response.turn.turn_id)
    return [item async for item in list_items(connection, request) if item.run_path and item.HasField("function_call")]


_FILTERED = frozenset({event_pb2.WITHDRAWAL_REASON_FILTERED, event_pb2.WITHDRAWAL_REASON_UNANSWERED})
_CUT_OFF = frozenset({item_pb2.ITEM_STATUS_REJECTED, item_pb2.ITEM_STATUS_INCOMPLETE})


async def _events(connection: Connection, session_id: str, turn_id: str) -> AsyncIterator[event_pb2.Event]:
    request = session_pb2.ListEventsRequest(session_id=session_id, turn_id=turn_id, page_size=EVENTS_AT_ONCE)
    while True:
        page = await connection.unary(connection.sessions.ListEvents, request)
        for event in page.events:
            yield event
        if not page.has_more:
            return
        request.after_sequence = page.last_sequence


def _round(event: event_pb2.Event) -> runner_pb2.RoundUsage:
    done = event.round_completed
    return runner_pb2.RoundUsage(round=event.round, model=done.model, response_id=done.response_id, usage=done.usage)


def _guardrails(agent: agent_pb2.Agent, config: run_config_pb2.RunConfig) -> Iterator[tuple[tuple[Any, str], str]]:
    """Say which guardrail a hook is the program of, by its kind and name."""
    for one in (agent, *agent.agents):
        yield from _named(event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, one.input_guardrails)
        yield from _named(event_pb2.HANDLER_KIND_OUTPUT_GUARDRAIL, one.output_guardrails)
        for tool in one.tools:
            yield from _named(event_pb2.HANDLER_KIND_TOOL_INPUT_GUARDRAIL, tool.function.input_guardrails)
            yield from _named(event_pb2.HANDLER_KIND_TOOL_OUTPUT_GUARDRAIL, tool.function.output_guardrails)
    yield from _named(event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, config.input_guardrails)
    yield from _named(event_pb2.HANDLER_KIND_OUTPUT_GUARDRAIL, config.output_guardrails)


def _named(
    kind: event_pb2.HandlerKind.ValueType, guardrails: Iterable[agent_pb2.Guardrail | agent_pb2.ToolGuardrail]
) -> Iterator[tuple[tuple[Any, str], str]]:
    for guardrail in guardrails:
        if guardrail.HasField("hook"):
            yield (kind, guardrail.hook.name), guardrail.name


def _guardrail(
    event: event_pb2.Event, turn: event_pb2.Turn, names: Mapping[tuple[Any, str], str]
) -> runner_pb2.GuardrailResult | None:
    """Read what a guardrail said: its own event where it struck, its hook's answer where it did not."""
    if event.HasField("guardrail_tripped"):
        struck = event.guardrail_tripped
        return runner_pb2.GuardrailResult(
            name=struck.name,
            stage=struck.stage,
            verdict=struck.verdict,
            agent=_checked(struck.stage, turn),
            call_id=struck.call_id,
            info_json=struck.info_json,
        )
    settled = event.hook_settled
    name = names.get((settled.kind, settled.name)) if event.HasField("hook_settled") else None
    if name is None or not settled.answer_json:
        return None
    answer = json.loads(settled.answer_json)
    if answer.get("tripped") or answer.get("verdict", "allow") != "allow":
        return None
    info, stage = answer.get("info"), _STAGES[settled.kind]
    return runner_pb2.GuardrailResult(
        name=name,
        stage=stage,
        verdict=event_pb2.GUARDRAIL_VERDICT_PASSED,
        agent=_checked(stage, turn),
        info_json="" if info is None else json.dumps(info),
    )


def _checked(stage: event_pb2.GuardrailStage.ValueType, turn: event_pb2.Turn) -> str:
    return turn.agent if stage == event_pb2.GUARDRAIL_STAGE_INPUT else turn.last_agent


def _in_session(config: run_config_pb2.RunConfig) -> bool:
    return config.history.WhichOneof("mode") in (None, "session")


def _next_items(items: Iterable[item_pb2.Item], *, without_ids_of: str) -> str:
    """Write items as the next input. `without_ids_of`: the turn whose reasoning goes on without its ids."""
    kept = [item for item in items if not item.agent or item.status not in _CUT_OFF]
    names = model_call_ids(kept)
    made = [raw_item(item, names) for item in kept]
    for item, raw in zip(kept, made, strict=True):
        if item.agent and item.HasField("reasoning") and item.turn_id == without_ids_of:
            raw.pop("id", None)
    return json.dumps(made, ensure_ascii=False)
