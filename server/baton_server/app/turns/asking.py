"""Asking the model: one task per request, its text to whoever listens, its reply to the turn's mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

import structlog

from baton_server.app.runtime import Runtime
from baton_server.app.turns.hooking import Filters
from baton_server.app.turns.live import LiveRound
from baton_server.app.turns.turn import Driven
from baton_server.core.agents import History
from baton_server.core.errors import Failure, Reason
from baton_server.core.hooks import ModelInput
from baton_server.core.inputs import Input, ModelFailed, ModelReplied
from baton_server.core.state import TurnState
from baton_server.ports.bus import Part, Place
from baton_server.ports.model import ModelError, ModelRequest
from baton_server.ports.store import StoreUnavailable

log = structlog.get_logger(__name__)

STORE_PAUSE_S = 0.5
"""Between two tries to read the history from a store that is away."""


class Asking:
    """Performs CallModel."""

    def __init__(self, runtime: Runtime, filters: Filters, feed: Callable[[str, Input], asyncio.Future[bool]]) -> None:
        self._runtime, self._filters, self._feed = runtime, filters, feed

    def begin(self, driven: Driven, state: TurnState, round_number: int) -> None:
        """Ask for the reply of a round, in a task that the turn owns."""
        driven.model_round = round_number
        driven.live = self._live(state, round_number)
        if driven.loaded:
            driven.loaded = False
            self._runtime.bus.publish(state.session_id, (driven.live.reset("LOST"),))
        driven.model = asyncio.ensure_future(self._ask(driven, state, round_number))

    async def _ask(self, driven: Driven, state: TurnState, round_number: int) -> None:
        began = self._runtime.clock.monotonic()
        try:
            request = await self._request(state, round_number, await self.history(driven, state))
            if request is None:
                return  # a filter gave no answer, and the turn has ended over it
            given: Input = await self._reply(driven.live, request)
        except ModelError as error:
            given = ModelFailed(round=round_number, failure=error.failure)
        except Exception:
            error_id = self._runtime.ids.new("err")
            log.exception("the model request failed in the server", turn_id=state.turn_id, error_id=error_id)
            message = f"The server failed to ask the model. Report {error_id}, which is also in its log."
            failure = Failure(reason=Reason.INTERNAL, message=message, metadata={"error_id": error_id})
            given = ModelFailed(round=round_number, failure=failure)
        if isinstance(given, ModelReplied):
            took = self._runtime.clock.monotonic() - began
            given = replace(given, round=round_number, duration_ms=int(took * 1000))
        self._feed(state.turn_id, given)

    async def _reply(self, live: LiveRound | None, request: ModelRequest) -> ModelReplied:
        reply: ModelReplied | None = None
        async with aclosing(self._runtime.model.stream(request)) as parts:
            async for part in parts:
                if isinstance(part, ModelReplied):
                    reply = part
                elif live is not None:
                    live.add(part)
        if reply is None:
            raise RuntimeError("the model's adapter ended without a reply")
        return reply

    async def _request(self, state: TurnState, round_number: int, history: Sequence[str]) -> ModelRequest | None:
        """Make the request, as its filters leave it. None: one of them gave no answer."""
        pinned = state.pinned
        settings = replace(pinned.settings, tool_choice=None) if state.called else pinned.settings
        request = ModelRequest(
            turn_id=state.turn_id,
            round=round_number,
            model=pinned.model,
            agent=pinned.agent,
            agent_digest=state.agent_digest,
            settings=settings,
            items=[*history, *(item.json for item in state.ordered_items())],
        )
        if not pinned.config.model_input_filters:
            return request
        asked = ModelInput(instructions=pinned.agent.instructions, items=tuple(request.items))
        given = await self._filters.apply(state, asked)
        if given is None:
            return None
        if given.instructions == pinned.agent.instructions:
            return replace(request, items=given.items)
        agent = replace(pinned.agent, instructions=given.instructions)
        return replace(request, items=given.items, agent=agent, agent_digest="")

    async def history(self, driven: Driven, state: TurnState) -> list[str]:
        """Read the history as it was when the turn began, once; a store that is away is waited for."""
        started = driven.row.started_sequence if driven.row is not None else 0
        if state.pinned.config.history is History.CALLER:
            return []
        while driven.history is None:
            try:
                return self._kept(driven, await self._runtime.store.items.history(state.session_id, started))
            except StoreUnavailable:
                await self._runtime.clock.sleep(STORE_PAUSE_S)
        return driven.history

    def _kept(self, driven: Driven, texts: Sequence[str]) -> list[str]:
        driven.history = list(texts)
        return driven.history

    def _live(self, state: TurnState, round_number: int) -> LiveRound:
        bus, session_id = self._runtime.bus, state.session_id

        def emit(parts: Sequence[Part]) -> None:
            bus.publish(session_id, parts)

        return LiveRound(
            at=Place(
                turn_id=state.turn_id,
                round=round_number,
                model_attempt=1,
                item_id="",
                output_index=0,
                part_index=0,
                offset=0,
            ),
            first_number=state.next_number,
            parts=self._runtime.parts,
            limits=self._runtime.limits,
            emit=emit,
            heard=lambda: bus.heard(session_id),
        )
