"""What rpcs answer with, gathered from several reads: sessions with their open calls, turns at rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from baton.v1 import event_pb2, runner_pb2, session_pb2
from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.registry import Registry
from baton_server.app.judgements import Judgement, judgements
from baton_server.app.runs import Rested
from baton_server.app.runtime import Runtime
from baton_server.core.request import as_list, made_texts, view
from baton_server.core.run_config import HistoryMode
from baton_server.ports.store import Batch, CallRow, CallState, SessionRow
from baton_server.wire.fit import fit_message
from baton_server.wire.items import write_item
from baton_server.wire.names import GUARDRAIL_STAGES, GUARDRAIL_VERDICTS
from baton_server.wire.omit import Omit
from baton_server.wire.views import (
    write_lease,
    write_required_action,
    write_round_usage,
    write_session,
    write_turn,
)

_STATES = {
    CallState.LEASED: "LEASED",
    CallState.EFFECT_UNKNOWN: "EFFECT_UNKNOWN",
    CallState.AWAITING_DECISION: "AWAITING_DECISION",
    CallState.CHECKED: "QUEUED",  # a worker's check is asked; nobody outside need do anything
    CallState.HELD: "QUEUED",  # its turn lets it go on by itself
}


class Views:
    """Gathers answers."""

    def __init__(self, runtime: Runtime, registry: Registry, dispatcher: Dispatcher) -> None:
        self._runtime, self._registry, self._dispatcher = runtime, registry, dispatcher

    async def session(self, row: SessionRow) -> session_pb2.Session:
        """Write a session whole: with its agent, its defaults, and all that is open."""
        store = self._runtime.store
        queued = await store.turns.queued(row.session_id) if row.active_turn_id else ()
        return write_session(
            row,
            agent=await self._runtime.agent(row.agent_digest) if row.agent_digest else None,
            config=await self._runtime.config(row.config_digest) if row.config_digest else None,
            required_actions=self.actions(in_call_order(await store.calls.open_in(row.session_id))),
            queued_turn_ids=[turn.turn_id for turn in queued if turn.turn_id != row.active_turn_id],
        )

    def actions(self, calls: Sequence[CallRow]) -> list[event_pb2.RequiredAction]:
        """Write open calls, with where each is at the moment."""
        return [self._action(call) for call in calls]

    def action_state(self, call: CallRow) -> str:
        """Say where an open call is: a name of `baton.v1.RequiredActionState`."""
        if call.state in _STATES:
            return _STATES[call.state]
        return "QUEUED" if self._registry.serves(call.name, call.scopes, call.version) else "UNSERVED"

    def _action(self, call: CallRow) -> event_pb2.RequiredAction:
        state = self.action_state(call)
        lease = self._dispatcher.leases.get(call.call_id) if state == "LEASED" else None
        if lease is None:
            return write_required_action(call, state)
        limits = self._runtime.limits
        left = lease.until(limits) - self._runtime.clock.monotonic()
        until = self._runtime.clock.wall() + max(0.0, left)
        return write_required_action(call, state, write_lease(call.worker_id, until, lease.acked))

    async def run_response(self, rested: Rested, *, next_items: bool, limit: int) -> runner_pb2.RunResponse:
        """Write how a run rests, not above `limit` bytes."""
        state = rested.state
        made = [item for item in state.said_items(state.own) if item.agent]
        response = runner_pb2.RunResponse(
            session_id=rested.row.session_id,
            turn=write_turn(rested.row),
            new_items=[write_item(item, Omit()) for item in made],
            required_actions=self.actions(in_call_order(rested.calls)),
            round_usage=write_round_usage(state.round_usage),
            guardrail_results=[_write_judgement(one) for one in judgements(state)],
        )
        if next_items or state.pinned.config.mode is HistoryMode.CALLER:
            response.next_items_json = await self._next_items(rested)
        if response.ByteSize() > limit:
            await self._keep(rested.row.session_id, response, fit_message(response, limit))
        return response

    async def _keep(self, session_id: str, response: runner_pb2.RunResponse, omitted: Mapping[str, bytes]) -> None:
        """Keep the joined items for ReadContent: they stand in no event. Other texts are found where they stand."""
        digest = response.next_items_omitted.sha256
        if digest in omitted:
            await self._runtime.store.commit(Batch(session_id=session_id, contents={digest: omitted[digest]}))

    async def _next_items(self, rested: Rested) -> str:
        """Join what the turn began with, as its last handoff left it, and what the turn made.

        What a fold of the conversation keeps as it is stands there already.
        """
        row, state = rested.row, rested.state
        history: Sequence[str] = ()
        if state.pinned.config.mode is HistoryMode.SESSION:
            history = await self._runtime.store.items.history(row.session_id, row.started_sequence)
        begun = view(state, state.own, history).past
        return as_list([*begun, *(text for text in made_texts(state, state.own) if text not in begun)])


def _write_judgement(said: Judgement) -> runner_pb2.GuardrailResult:
    return runner_pb2.GuardrailResult(
        name=said.name,
        stage=GUARDRAIL_STAGES.to_wire[said.stage],
        verdict=GUARDRAIL_VERDICTS.to_wire[said.verdict],
        agent=said.agent,
        call_id=said.call_id,
        info_json=said.info_json,
    )


def in_call_order(calls: Iterable[CallRow]) -> list[CallRow]:
    """Sort open calls as the model made them; one of an agent tool that waits for a decision has a late row."""
    return sorted(calls, key=lambda call: call.call_id)
