"""Asking hooks for a turn: what one moment asks goes out together, and each answer to the turn's mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

import structlog

from baton_server.app.calls.hooks import Answer, Asked, Hooks, Occasion
from baton_server.app.runtime import Runtime
from baton_server.app.turns.turn import Driven
from baton_server.core.commands import CheckEffect
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind, TurnStatus
from baton_server.core.hooks.answers import AnswerError, nonsense, read_checked
from baton_server.core.hooks.payloads import check_question
from baton_server.core.hooks.question import Question
from baton_server.core.inputs import Broken, HookAnswered, Input
from baton_server.core.run_config import DEFAULT_UNSERVED_GRACE_S
from baton_server.core.state import TurnState
from baton_server.core.tools import HookRef, LostWorker
from baton_server.ports.store import StoreUnavailable

log = structlog.get_logger(__name__)

Feed = Callable[[str, Input], "asyncio.Future[bool]"]
History = Callable[[Driven, TurnState], Awaitable[Sequence[str]]]

PAUSE_S = 0.5
"""Between two tries of what a store that is away, or a fault of ours, keeps from being asked."""

MAX_FAULTS = 5
"""Faults of ours with what is to be asked, before the turn is ended with INTERNAL."""

CHECK_TIMEOUT_S = 30.0
"""How long a check may take; then the effect is unknown."""


class Hooking:
    """Performs Question and CheckEffect. `history` reads what a turn began with."""

    def __init__(self, runtime: Runtime, hooks: Hooks, history: History, feed: Feed) -> None:
        self._runtime, self._hooks, self._history, self._feed = runtime, hooks, history, feed

    def ask(self, driven: Driven, state: TurnState, questions: Sequence[Question]) -> None:
        """Ask what a state owes and nobody is asked yet; what is not owed any more is given up."""
        owed = {question.key for question in questions}
        gone = [key for key in driven.hooks if key not in owed and not key.startswith("check/")]
        self._hooks.drop(gone)
        groups: dict[tuple[object, ...], list[Question]] = {}
        for question in questions:
            if question.key not in driven.hooks:
                moment = (question.run_path, question.agent, question.round)
                groups.setdefault(moment, []).append(question)
        for asked in groups.values():
            self._begin(driven, [one.key for one in asked], self._questions(driven, state, asked))

    def check(self, driven: Driven, state: TurnState, command: CheckEffect) -> None:
        """Ask a handler's check what a lost attempt did."""
        if command.key not in driven.hooks:
            self._begin(driven, [command.key], self._patiently(lambda: self._check(state, command), state))

    async def answer(self, state: TurnState, asked: Asked, round_number: int, agent: str) -> Answer:
        """Ask one program beside the course of the turn, and wait for its answer."""
        try:
            return await self._hooks.ask(_occasion(state, round_number, agent), [asked])[0]
        finally:
            self._hooks.drop((asked.hook_id,))

    def _begin(self, driven: Driven, keys: Sequence[str], work: Awaitable[None]) -> None:
        """Ask, in a task that the turn owns until it is done."""
        task = asyncio.ensure_future(work)
        for key in keys:
            driven.hooks[key] = task

        def done(_: object) -> None:
            for key in keys:
                if driven.hooks.get(key) is task:
                    del driven.hooks[key]
            if not driven.hooks and driven.row is not None and driven.row.status is not TurnStatus.IN_PROGRESS:
                self._runtime.bus.publish(driven.row.session_id, ())  # what came of it may be on disk by now: it rests

        task.add_done_callback(done)

    async def _questions(self, driven: Driven, state: TurnState, questions: Sequence[Question]) -> None:
        await self._patiently(lambda: self._ask_all(driven, state, questions), state)

    async def _patiently(self, work: Callable[[], Awaitable[None]], state: TurnState) -> None:
        """Ask until it could be asked; over a fault of ours that stays the turn ends: it must not wait for ever."""
        faults = 0
        while faults < MAX_FAULTS:
            try:
                await work()
            except StoreUnavailable as error:
                log.warning("the store is away; hooks are asked later", turn_id=state.turn_id, error=str(error))
            except Exception:
                faults += 1
                log.exception("hooks could not be asked", turn_id=state.turn_id)
            else:
                return
            await self._runtime.clock.sleep(PAUSE_S)
        error_id = self._runtime.ids.new("err")
        message = f"The server failed to ask a hook. Report {error_id}, which is in its log."
        log.error("a turn is ended over what cannot be asked", turn_id=state.turn_id, error_id=error_id)
        failure = Failure(reason=Reason.INTERNAL, message=message, metadata={"error_id": error_id})
        self._feed(state.turn_id, Broken(failure=failure))

    async def _ask_all(self, driven: Driven, state: TurnState, questions: Sequence[Question]) -> None:
        """Ask what one moment asks, and bring each answer to the turn as it comes."""
        reads = any(question.needs_history for question in questions)
        history = await self._history(driven, state) if reads else ()
        asked = [_asked(one.hook_id, one.kind, one.ref, one.payload(history)) for one in questions]
        futures = self._hooks.ask(_occasion(state, questions[0].round, questions[0].agent), asked)
        follows = (
            self._follow(driven, state, question, history, one, future)
            for question, one, future in zip(questions, asked, futures, strict=True)
        )
        try:
            await asyncio.gather(*follows)
        finally:
            self._hooks.drop([one.hook_id for one in questions])

    async def _follow(
        self,
        driven: Driven,
        state: TurnState,
        question: Question,
        history: Sequence[str],
        asked: Asked,
        future: asyncio.Future[Answer],
    ) -> None:
        await asyncio.wait([future])
        if future.cancelled():
            return  # it is not owed any more
        answer = future.result()
        kept, failure = "", answer.failure
        if failure is None:
            try:
                kept = question.settle(history, answer.answer_json)
            except AnswerError as error:
                failure = nonsense(question.kind, question.ref.name, error)
        self._bring(driven, state, _answered(asked, answer, kept=kept, failure=failure))

    def _bring(self, driven: Driven, state: TurnState, given: HookAnswered) -> None:
        """Bring an answer to its turn. From then on the question is not asked, but on its way into the log."""
        counted = self._feed(state.turn_id, given)
        self._hooks.answered.recorded(given.hook_id, counted)

    async def _check(self, state: TurnState, command: CheckEffect) -> None:
        row = await self._runtime.store.calls.get(command.call_id)
        if row is None:
            return  # its session is gone, and so is the turn
        payload = check_question(
            key=row.key, call_id=row.call_id, tool=row.name, arguments=row.arguments, attempt=command.attempt
        )
        ref = HookRef(name=row.name, timeout_s=CHECK_TIMEOUT_S)
        asked = _asked(command.hook_id, HookKind.EFFECT_CHECK, ref, payload)
        run = state.runs[state.calls[command.call_id].run_path]
        future = self._hooks.ask(_occasion(state, run.round, run.agent), [asked])[0]
        try:
            answer = await future
            kept, failure = answer.answer_json, answer.failure
            if failure is None:
                try:
                    read_checked(kept)
                except AnswerError as error:
                    kept, failure = "", nonsense(HookKind.EFFECT_CHECK, row.name, error)
            ask = row.lost_worker is LostWorker.ASK
            counted = self._feed(state.turn_id, _answered(asked, answer, kept=kept, failure=failure, ask=ask))
            self._hooks.answered.recorded(answer.hook_id, counted)
        finally:
            self._hooks.drop((command.hook_id,))


def _occasion(state: TurnState, round_number: int, agent: str) -> Occasion:
    config = state.pinned.config
    said = config.unserved_grace_s
    return Occasion(
        session_id=state.session_id,
        turn_id=state.turn_id,
        agent=agent,
        round=round_number,
        scopes=config.lookup,
        unserved_grace_s=DEFAULT_UNSERVED_GRACE_S if said is None else said,
        usage=state.usage,
    )


def _asked(hook_id: str, kind: HookKind, ref: HookRef, payload: str) -> Asked:
    return Asked(hook_id=hook_id, kind=kind, name=ref.name, payload_json=payload, timeout_s=ref.timeout_s)


def _answered(asked: Asked, answer: Answer, *, kept: str, failure: Failure | None, ask: bool = False) -> HookAnswered:
    """Say to the Runner what became of a question. `kept`: its answer, as it is to stand in the log."""
    return HookAnswered(
        hook_id=asked.hook_id,
        hook=asked.kind,
        name=asked.name,
        payload_digest=sha256(asked.payload_json.encode("utf-8", "surrogatepass")).hexdigest(),
        answer_json=kept,
        failure=failure,
        worker_id=answer.worker_id,
        ask=ask,
    )
