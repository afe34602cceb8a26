"""Asking the model: one task per request, its text to whoever listens, its reply to the turn's mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

import structlog

from baton_server.app.runtime import Runtime
from baton_server.app.turns.live import LiveRound
from baton_server.app.turns.turn import Driven
from baton_server.core.agents import History
from baton_server.core.errors import Failure, Reason
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

    def __init__(self, runtime: Runtime, feed: Callable[[str, Input], asyncio.Future[bool]]) -> None:
        self._runtime, self._feed = runtime, feed

    def begin(self, driven: Driven, state: TurnState, round_number: int) -> None:
        """Ask for the reply of a round, in a task that the turn owns."""
        driven.model_round = round_number
        driven.live = self._live(state, round_number)
        if driven.loaded:
            driven.loaded = False
            self._runtime.bus.publish(state.session_id, (driven.live.reset("LOST"),))
        started = driven.row.started_sequence if driven.row is not None else 0
        driven.model = asyncio.ensure_future(self._ask(driven, state, round_number, started))

    async def _ask(self, driven: Driven, state: TurnState, round_number: int, started: int) -> None:
        began = self._runtime.clock.monotonic()
        try:
            given: Input = await self._reply(driven, state, round_number, started)
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

    async def _reply(self, driven: Driven, state: TurnState, round_number: int, started: int) -> ModelReplied:
        request = self._request(state, round_number, await self._history(driven, state, started))
        live = driven.live
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

    def _request(self, state: TurnState, round_number: int, history: Sequence[str]) -> ModelRequest:
        pinned = state.pinned
        settings = replace(pinned.settings, tool_choice=None) if state.called else pinned.settings
        return ModelRequest(
            turn_id=state.turn_id,
            round=round_number,
            model=pinned.model,
            agent=pinned.agent,
            agent_digest=state.agent_digest,
            settings=settings,
            items=[*history, *(item.json for item in state.ordered_items())],
        )

    async def _history(self, driven: Driven, state: TurnState, started: int) -> list[str]:
        """Read the history as it was when the turn began, once; a store that is away is waited for.

        `started`: the sequence of the turn's first event.
        """
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
