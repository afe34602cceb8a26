"""Asking hooks for a turn: one task per moment, whose answers go to the turn's mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

import structlog

from baton_server.app.calls.hooks import Answer, Asked, Hooks, Occasion
from baton_server.app.runtime import Runtime
from baton_server.app.turns.turn import Driven
from baton_server.core import hooks as questions
from baton_server.core.agents import DEFAULT_UNSERVED_GRACE_S, HookRef, LostWorker
from baton_server.core.commands import AskGuardrails, CheckEffect
from baton_server.core.errors import Failure
from baton_server.core.events import HookKind
from baton_server.core.inputs import HookAnswered, Input
from baton_server.core.state import TurnState
from baton_server.ports.store import StoreUnavailable

log = structlog.get_logger(__name__)

Feed = Callable[[str, Input], "asyncio.Future[bool]"]
History = Callable[[Driven, TurnState], Awaitable[Sequence[str]]]

PAUSE_S = 0.5
"""Between two tries of what a store that is away, or a fault of ours, keeps from being asked."""

CHECK_TIMEOUT_S = 30.0
"""How long a check may take; then the effect is unknown."""


class Hooking:
    """Performs AskGuardrails and CheckEffect. `history` reads what a turn began with."""

    def __init__(self, runtime: Runtime, hooks: Hooks, history: History, feed: Feed) -> None:
        self._runtime, self._hooks, self._history, self._feed = runtime, hooks, history, feed

    def begin(self, driven: Driven, state: TurnState, command: AskGuardrails | CheckEffect) -> None:
        """Ask, in a task that the turn owns until it is done."""
        key = command.key
        driven.hooks[key] = task = asyncio.ensure_future(self._perform(driven, state, command))
        task.add_done_callback(lambda _: driven.hooks.pop(key, None))

    async def _perform(self, driven: Driven, state: TurnState, command: AskGuardrails | CheckEffect) -> None:
        """Ask until it could be asked: a turn must not wait for ever over a fault of ours."""
        while True:
            try:
                if isinstance(command, AskGuardrails):
                    await self._guard(driven, state, command)
                else:
                    await self._check(state, command)
            except StoreUnavailable as error:
                log.warning("the store is away; hooks are asked later", turn_id=state.turn_id, error=str(error))
            except Exception:
                log.exception("hooks could not be asked", turn_id=state.turn_id)
            else:
                return
            await self._runtime.clock.sleep(PAUSE_S)

    async def _guard(self, driven: Driven, state: TurnState, command: AskGuardrails) -> None:
        """Ask guardrails about what came in: the turn's first input is judged with the history before it."""
        history = await self._history(driven, state) if command.first == 0 else ()
        came = [state.items[n].json for n in sorted(state.items) if command.first <= n <= command.last]
        payload = questions.guardrail_question([*history, *came])
        asked = [_asked(hook_id, HookKind.INPUT_GUARDRAIL, one.hook, payload) for hook_id, one in command.hooks]
        await self._ask(state, asked, payload)

    async def _check(self, state: TurnState, command: CheckEffect) -> None:
        """Ask a handler's check what a lost attempt did."""
        row = await self._runtime.store.calls.get(command.call_id)
        if row is None:
            return  # its session is gone, and so is the turn
        payload = questions.check_question(
            key=row.key, call_id=row.call_id, tool=row.name, arguments=row.arguments, attempt=command.attempt
        )
        ref = HookRef(name=row.name, timeout_s=CHECK_TIMEOUT_S)
        asked = _asked(command.hook_id, HookKind.EFFECT_CHECK, ref, payload)
        await self._ask(state, [asked], payload, ask=row.lost_worker is LostWorker.ASK)

    async def _ask(self, state: TurnState, asked: Sequence[Asked], payload: str, *, ask: bool = False) -> None:
        """Ask, and feed each answer as it comes."""
        by_id = {one.hook_id: one for one in asked}
        digest = _digest(payload)
        futures = self._hooks.ask(_occasion(state), asked)
        try:
            for done in asyncio.as_completed(futures):
                answer = await done
                counted = self._feed(state.turn_id, _answered(by_id[answer.hook_id], answer, digest, ask=ask))
                self._hooks.answered.recorded(answer.hook_id, counted)
        finally:
            self._hooks.drop(by_id)


class Filters:
    """Has the filters of a turn say what a model request carries."""

    def __init__(self, runtime: Runtime, hooks: Hooks, feed: Feed) -> None:
        self._runtime, self._hooks, self._feed = runtime, hooks, feed

    async def apply(self, state: TurnState, given: questions.ModelInput) -> questions.ModelInput | None:
        """Have each filter change what the one before left. None: one gave no answer, and the turn ends over it.

        What a filter answered before a crash is taken from the log.
        """
        for index, ref in enumerate(state.pinned.config.model_input_filters):
            hook_id = questions.filter_id(state.turn_id, state.rounds + 1, index)
            settled = state.hooks.get(hook_id)
            packed = settled.answer_json if settled is not None else await self._ask(state, given, hook_id, ref)
            if packed is None:
                return None
            given = questions.unpack(given, packed)
        return given

    async def _ask(self, state: TurnState, given: questions.ModelInput, hook_id: str, ref: HookRef) -> str | None:
        """Ask one filter, and have its answer on disk before it is used."""
        payload = questions.filter_question(given)
        asked = _asked(hook_id, HookKind.MODEL_INPUT_FILTER, ref, payload)
        try:
            answer = await self._hooks.ask(_occasion(state), [asked])[0]
            packed, failure = "", answer.failure
            if failure is None:
                try:
                    packed = questions.pack(given.items, answer.answer_json)
                except questions.AnswerError as error:
                    failure = questions.nonsense(HookKind.MODEL_INPUT_FILTER, ref.name, error)
            fed = _answered(asked, answer, _digest(payload), packed=packed, failure=failure)
            counted = self._feed(state.turn_id, fed)
            self._hooks.answered.recorded(hook_id, counted)
            return packed if await counted and failure is None else None
        finally:
            self._hooks.drop((hook_id,))


def _occasion(state: TurnState) -> Occasion:
    config = state.pinned.config
    said = config.unserved_grace_s
    return Occasion(
        session_id=state.session_id,
        turn_id=state.turn_id,
        agent=state.pinned.agent.name,
        round=state.rounds + 1,
        scopes=config.lookup,
        unserved_grace_s=DEFAULT_UNSERVED_GRACE_S if said is None else said,
    )


def _asked(hook_id: str, kind: HookKind, ref: HookRef, payload: str) -> Asked:
    return Asked(hook_id=hook_id, kind=kind, name=ref.name, payload_json=payload, timeout_s=ref.timeout_s)


def _answered(
    asked: Asked,
    answer: Answer,
    digest: str,
    *,
    packed: str | None = None,
    failure: Failure | None = None,
    ask: bool = False,
) -> HookAnswered:
    """Say to the Runner what became of a question. `packed`: in place of the answer as it came."""
    return HookAnswered(
        hook_id=asked.hook_id,
        hook=asked.kind,
        name=asked.name,
        payload_digest=digest,
        answer_json=answer.answer_json if packed is None else packed,
        failure=failure or answer.failure,
        worker_id=answer.worker_id,
        ask=ask,
    )


def _digest(payload: str) -> str:
    return sha256(payload.encode("utf-8", "surrogatepass")).hexdigest()
