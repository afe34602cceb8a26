"""Hooks, whatever happens in whatever order: nobody waits beside a free worker, and every question ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.app.calls.hooking import GUARD, asked, hosts, occasion
from tests.support.room import Hand, Room, quiet

from baton_server.app.calls.frames import Ask, HandlerKey, HookReply, Question
from baton_server.app.calls.hooks import Answer

NAMES = ("a", "b", "c")
LONGEST_S = 60.0

some_names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
which = st.integers(0, 20)
lookups = st.sampled_from([("",), ("s",), ("s", "")])
asks = st.tuples(st.just("ask"), some_names, st.tuples(st.sampled_from([1.0, 20.0, LONGEST_S]), lookups))
answers = st.tuples(st.just("answer"), which, which)

STEPS = st.lists(
    st.one_of(
        *[asks] * 4,
        *[answers] * 4,
        st.tuples(st.just("attach"), some_names, st.tuples(st.integers(1, 2), st.booleans(), lookups)),
        st.tuples(st.just("breaks"), which, st.none()),
        st.tuples(st.just("back"), which, some_names),
        st.tuples(st.just("drain"), which, st.none()),
        st.tuples(st.just("unregister"), which, st.sampled_from(NAMES)),
        st.tuples(st.just("drop"), which, st.none()),
        st.tuples(st.just("pass"), st.sampled_from([0.5, 3.0, 9.0]), st.none()),
    ),
    min_size=10,
    max_size=40,
)


class Story:
    """A room in which things happen to hooks."""

    def __init__(self) -> None:
        self.room = Room(lease_s=15.0)
        self.workers: list[Hand] = []
        self.futures: dict[str, asyncio.Future[Answer]] = {}

    async def step(self, what: str, first: Any, second: Any) -> None:
        """Have something happen; what cannot happen does not."""
        await getattr(self, f"_{what}")(first, second)
        await quiet(20)

    async def _ask(self, names: list[str], how: tuple[float, tuple[str, ...]]) -> None:
        moment, (timeout_s, scopes) = len(self.futures), how
        questions = [asked(name, f"hook_{moment}_{name}", timeout_s=timeout_s) for name in names]
        futures = self.room.hooks.ask(occasion(scopes=scopes), questions)
        self.futures.update(zip((question.hook_id for question in questions), futures, strict=True))

    async def _attach(self, names: list[str], how: tuple[int, bool, tuple[str, ...]]) -> None:
        window, half_duplex, scopes = how
        hello: Any = {"max_hook_batches": window, "half_duplex": half_duplex, "scopes": scopes}
        self.workers.append(await self.room.worker(*hosts(*names), **hello))

    async def _back(self, number: int, names: list[str]) -> None:
        for worker in self._worker(number):
            before = worker.attached.worker
            kind: Any = {"half_duplex": before.half_duplex, "max_hook_batches": 2, "scopes": before.scopes}
            self.workers.append(await worker.back(*hosts(*names), **kind))
            self.room.workers.tick()  # what it serves no more may be found in a later scope

    async def _answer(self, number: int, other: int) -> None:
        for worker in self._worker(number):
            questions = asked_of(worker)
            if questions:
                question = questions[other % len(questions)]
                reply = HookReply(hook_id=question.hook_id, attempt=question.attempt, answer_json="{}")
                was_open = not self.futures[question.hook_id].done()
                assert self.room.hooks.replied(worker.id, [reply]) == [was_open]
                assert self.futures[question.hook_id].done()

    async def _breaks(self, number: int, _: None) -> None:
        for worker in self._worker(number):
            await worker.breaks()

    async def _drain(self, number: int, _: None) -> None:
        for worker in self._worker(number):
            if not worker.over:
                self.room.workers.drain(worker.attached.worker)

    async def _unregister(self, number: int, name: str) -> None:
        for worker in self._worker(number):
            if not worker.over:
                self.room.workers.unregister(worker.attached.worker, [HandlerKey(kind=GUARD, name=name)])

    async def _drop(self, number: int, _: None) -> None:
        hook_ids = list(self.futures)
        if hook_ids:
            self.room.hooks.drop([hook_ids[number % len(hook_ids)]])

    async def _pass(self, seconds: float, _: None) -> None:
        for worker in self.workers:
            if not worker.over:
                worker.beat()
        await self.room.pass_time(seconds)

    def _worker(self, number: int) -> list[Hand]:
        return [self.workers[number % len(self.workers)]] if self.workers else []

    def check(self) -> None:
        """See to it that the desk's books are in order."""
        hooks, registry = self.room.hooks, self.room.registry
        for worker in registry.workers():
            mine = [batch for batch in hooks._batches.values() if batch.worker is worker]
            assert worker.hook_batches == len(mine) <= worker.max_hook_batches
            assert not mine or worker.lost_at is None or worker.half_duplex
        for one in hooks._open.values():
            assert not one.future.done()
            if one.batch is None:
                served = registry.hosts(GUARD, one.asked.name, one.occasion.scopes)
                assert not [worker for worker in served if worker.reachable and worker.hook_room > 0]

    async def end(self) -> None:
        """Let the last deadline pass."""
        await self.room.pass_time(LONGEST_S + 1)
        hooks = self.room.hooks
        assert all(future.done() for future in self.futures.values())
        assert not (hooks._open or hooks._batches or len(hooks._unasked) or len(hooks._alarms))
        await self.room.close()


def asked_of(worker: Hand) -> list[Question]:
    """List all that a worker was ever asked on one of its streams."""
    return [question for frame in worker.frames if isinstance(frame, Ask) for question in frame.questions]


@pytest.mark.slow
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_whatever_happens_each_question_is_asked_as_soon_as_can_be_and_ends_once(steps: list[Any]) -> None:
    """Workers come, break, return, drain and answer late; windows hold, an answer counts if it is the first."""

    async def play() -> None:
        story = Story()
        await story.step("attach", NAMES, (1, False, ("s", "")))
        for what, first, second in steps:
            await story.step(what, first, second)
            story.check()
        await story.end()

    asyncio.run(play())
