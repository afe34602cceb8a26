"""The rounds of a turn: what a model's reply leads to, and whether there is another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from baton_server.core import calls, reply
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import SessionInProgress, SessionRequiresAction, TurnStatus
from baton_server.core.inputs import CallSettled, ModelFailed, ModelReplied, NewItem
from baton_server.core.items import FunctionCall, Hosted, Message, RefusalPart, Settlement, text_of
from baton_server.core.recorder import Recorder
from baton_server.core.rules import Rules
from baton_server.core.state import Phase


def go_on(record: Recorder) -> None:
    """Go on to the next model request, unless a cancel or the limit of rounds forbids it."""
    state = record.state
    limit = state.pinned.config.round_limit
    if state.cancel is not None:
        record.end(TurnStatus.CANCELLED)
    elif limit is not None and state.rounds >= limit:
        record.end(
            TurnStatus.FAILED,
            failure=Failure(
                reason=Reason.MAX_TURNS_EXCEEDED,
                message=f"The turn reached its limit of {limit} rounds without a final output. "
                "Raise run_config.max_turns, or set unlimited_turns.",
                metadata={"max_turns": str(limit)},
            ),
        )
    elif state.phase is Phase.CALLS:
        record(SessionInProgress())


def replied(record: Recorder, given: ModelReplied, rules: Rules) -> None:
    """Take a model's reply: calls are opened, a message is the final output."""
    state = record.state
    if state.phase is not Phase.MODEL or given.round != state.rounds + 1:
        return
    items = reply.without_repeats(given.items)
    asked = tuple(item.body for item in items.values() if isinstance(item.body, FunctionCall))
    failure = reply.misbehaviour(state, given, asked)
    record.reply(given, items if failure else _keyed(record, items, rules), rejected=failure is not None)
    if failure is not None:
        record.end(TurnStatus.FAILED, failure=failure)
        return
    _refuse_arguments(record, rules)
    calls.join_opened(record)
    if state.open_calls:
        record(SessionRequiresAction(calls=tuple(state.open_calls.values())))
    elif asked:
        go_on(record)
    else:
        _final(record, items)


def failed(record: Recorder, given: ModelFailed) -> None:
    """End the turn over a model request that failed for good."""
    if record.state.phase is Phase.MODEL and given.round == record.state.rounds + 1:
        record.end(TurnStatus.FAILED, failure=given.failure)


def _keyed(record: Recorder, items: Mapping[int, NewItem], rules: Rules) -> dict[int, NewItem]:
    """Give the calls of a reply the keys that their functions declare."""
    agent, session_id = record.state.pinned.agent, record.state.session_id
    keyed = dict(items)
    for position, item in items.items():
        function = agent.function(item.body.name) if isinstance(item.body, FunctionCall) else None
        if isinstance(item.body, FunctionCall) and function is not None and function.execution.idempotency_fields:
            fields = function.execution.idempotency_fields
            key = rules.idempotency_key(session_id, function.name, fields, item.body.arguments)
            keyed[position] = replace(item, body=replace(item.body, idempotency_key=key))
    return keyed


def _refuse_arguments(record: Recorder, rules: Rules) -> None:
    """Answer the calls that no handler must see in its place; the others are served all the same."""
    agent = record.state.pinned.agent
    for call in tuple(record.state.open_calls.values()):
        words = reply.bad_arguments(rules, call, agent.function(call.name))
        if words is not None:
            settlement = Settlement.ARGUMENTS_INVALID
            record.output(CallSettled(call_id=call.call_id, settlement=settlement, output=(words,)))


def _final(record: Recorder, items: Mapping[int, NewItem]) -> None:
    """End the turn with the text of the last message; hosted tools alone mean another round."""
    bodies = [item.body for item in items.values()]
    messages = [body for body in bodies if isinstance(body, Message)]
    if not messages and any(isinstance(body, Hosted) for body in bodies):
        go_on(record)
        return
    last = messages[-1].content if messages else ()
    refusal = "".join(part.refusal for part in last if isinstance(part, RefusalPart))
    if refusal:
        record.end(TurnStatus.FAILED, failure=reply.refusal(refusal))
    else:
        record.end(TurnStatus.COMPLETED, output=text_of(last))
