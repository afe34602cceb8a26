"""Asking the model: one task per request, its text to whoever listens, its reply to the turn's mailbox.

A request that fails is made again as its settings say, as that step alone: no function runs twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from zlib import crc32

import structlog

from baton_server.app.calls.hooks import Asked
from baton_server.app.runtime import Runtime
from baton_server.app.turns.hooking import Hooking
from baton_server.app.turns.live import LiveRound
from baton_server.app.turns.turn import Driven, RunPath, UnderWay
from baton_server.core import offers, request, retries
from baton_server.core.commands import CallModel
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind
from baton_server.core.hooks.answers import AnswerError
from baton_server.core.hooks.names import round_id
from baton_server.core.inputs import Input, ModelFailed, ModelReplied, ModelTried
from baton_server.core.run import Run
from baton_server.core.run_config import HistoryMode
from baton_server.core.state import TurnState
from baton_server.ports.bus import Part, Place
from baton_server.ports.model import ModelError, ModelRequest
from baton_server.ports.store import StoreUnavailable

log = structlog.get_logger(__name__)

STORE_PAUSE_S = 0.5
"""Between two tries to read the history from a store that is away."""


class Asking:
    """Performs CallModel. `hooking` is given after it is made, since it reads the history here."""

    hooking: Hooking

    def __init__(self, runtime: Runtime, feed: Callable[[str, Input], asyncio.Future[bool]]) -> None:
        self._runtime, self._feed = runtime, feed

    def begin(self, driven: Driven, state: TurnState, command: CallModel) -> None:
        """Ask for the reply of a round, in a task that the turn owns."""
        live = self._live(state, command)
        if driven.loaded:
            driven.loaded = False
            self._runtime.bus.publish(state.session_id, (live.reset("LOST"),))
        task = asyncio.ensure_future(self._ask(driven, state, command, live))
        driven.requests[command.run_path] = UnderWay(round=command.round, task=task, live=live)

    async def _ask(self, driven: Driven, state: TurnState, command: CallModel, live: LiveRound) -> None:
        began = self._runtime.clock.monotonic()
        attempts = 0
        given: ModelReplied | ModelFailed | None = None
        while given is None:
            attempts += 1
            try:
                asked = self._request(state, state.runs[command.run_path], await self.history(driven, state))
                given = await self._reply(live, asked)
            except ModelError as error:
                wait = await self._again(state, command, error, attempts)
                if wait is not None:
                    self._tried(state, command, error, attempts, wait)
                    live.again()
                    await self._runtime.clock.sleep(wait)
                    continue
                given = self._failed(command, retries.given_up(error.failure, attempts), attempts)
            except Exception:
                error_id = self._runtime.ids.new("err")
                log.exception("the model request failed in the server", turn_id=state.turn_id, error_id=error_id)
                message = f"The server failed to ask the model. Report {error_id}, which is also in its log."
                failure = Failure(reason=Reason.INTERNAL, message=message, metadata={"error_id": error_id})
                given = self._failed(command, failure, attempts)
        if isinstance(given, ModelReplied):
            took = self._runtime.clock.monotonic() - began
            usage = given.usage
            if attempts > 1:
                usage = replace(usage, requests=usage.requests + attempts - 1)
            given = replace(
                given,
                round=command.round,
                run_path=command.run_path,
                usage=usage,
                model_attempts=attempts,
                duration_ms=int(took * 1000),
            )
        self._feed(state.turn_id, given)

    def _failed(self, command: CallModel, failure: Failure, attempts: int) -> ModelFailed:
        return ModelFailed(round=command.round, run_path=command.run_path, failure=failure, model_attempts=attempts)

    def _tried(self, state: TurnState, command: CallModel, error: ModelError, attempts: int, wait: float) -> None:
        tried = ModelTried(
            round=command.round,
            run_path=command.run_path,
            model_attempt=attempts,
            failure=error.failure,
            retry_after_s=wait,
        )
        self._feed(state.turn_id, tried)

    async def _again(self, state: TurnState, command: CallModel, error: ModelError, attempts: int) -> float | None:
        """Say in how many seconds a request is made again; None: not. A program may have a say in it."""
        run = state.runs.get(command.run_path)
        if run is None:  # it has ended meanwhile, and its call is settled
            return None
        settings = state.pinned.settings(state.agent(run)).retry
        conversation, previous = request.kept_by_model(state, run)
        chance = crc32(f"{state.turn_id}/{command.key}/{attempts}".encode()) / 2**32
        outcome = retries.again(
            settings,
            error.attempt,
            error.failure,
            attempts=attempts,
            stateful=bool(conversation or previous),
            chance=chance,
        )
        asked = 0
        while isinstance(outcome, retries.NeedsHook):
            says = await self._hook_says(state, command, outcome, error, attempts, asked)
            outcome = retries.after_hook(outcome, says)
            asked += 1
        return outcome

    async def _hook_says(
        self,
        state: TurnState,
        command: CallModel,
        needs: retries.NeedsHook,
        error: ModelError,
        attempts: int,
        asked: int,
    ) -> retries.HookSays:
        run = state.runs[command.run_path]
        one = Asked(
            hook_id=round_id(state.turn_id, run.mark, f"j{attempts:x}.", command.round, asked),
            kind=HookKind.MODEL_RETRY,
            name=needs.hook.name,
            payload_json=retries.question(error.attempt, error.failure, attempts),
            timeout_s=needs.hook.timeout_s,
        )
        answer = await self.hooking.answer(state, one, command.round, run.agent)
        if answer.failure is None:
            try:
                return retries.read_says(answer.answer_json)
            except AnswerError as nonsense:
                log.warning("a hook's answer cannot be used", name=needs.hook.name, problem=str(nonsense))
        return retries.HookSays(retry=False)

    async def _reply(self, live: LiveRound, asked: ModelRequest) -> ModelReplied:
        reply: ModelReplied | None = None
        async with aclosing(self._runtime.model.stream(asked)) as parts:
            async for part in parts:
                if isinstance(part, ModelReplied):
                    reply = part
                else:
                    live.add(part)
        if reply is None:
            raise RuntimeError("the model's adapter ended without a reply")
        return reply

    def _request(self, state: TurnState, run: Run, history: Sequence[str]) -> ModelRequest:
        """Make the request, as its filters leave it."""
        pinned, agent = state.pinned, state.agent(run)
        settings = pinned.settings(agent)
        if settings.tool_choice is not None and request.tool_choice_dropped(state, run):
            settings = replace(settings, tool_choice=None)
        given = request.carried(state, run, history)
        offered = offers.offer(state.turn_id, run, agent)
        conversation, previous = request.kept_by_model(state, run)
        same = given.instructions == agent.instructions and offered.tools is agent.tools
        return ModelRequest(
            turn_id=state.turn_id,
            round=run.round,
            model=pinned.model(agent),
            provider=pinned.config.model_provider,
            instructions=given.instructions,
            tools=offered.tools,
            handoffs=offered.handoffs,
            output_schema=agent.output_schema,
            settings=settings,
            items=given.items,
            conversation_id=conversation,
            previous_response_id=previous,
            head=f"{state.agent_digest}/{agent.name}" if same else "",
        )

    async def history(self, driven: Driven, state: TurnState) -> list[str]:
        """Read the history as it was when the turn began, once; a store that is away is waited for."""
        started = driven.row.started_sequence if driven.row is not None else 0
        if state.pinned.config.mode is not HistoryMode.SESSION or state.continues:
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

    def _live(self, state: TurnState, command: CallModel) -> LiveRound:
        bus, session_id = self._runtime.bus, state.session_id

        def emit(parts: Sequence[Part]) -> None:
            bus.publish(session_id, parts)

        return LiveRound(
            at=place(state, command.round, command.run_path),
            first_number=state.next_number,
            parts=self._runtime.parts,
            limits=self._runtime.limits,
            emit=emit,
            heard=lambda: bus.heard(session_id),
        )


def place(state: TurnState, round_number: int, run_path: RunPath) -> Place:
    """Say where the first fragment of a round stands."""
    return Place(
        turn_id=state.turn_id,
        run_path=run_path,
        round=round_number,
        model_attempt=1,
        item_id="",
        output_index=0,
        part_index=0,
        offset=0,
    )
