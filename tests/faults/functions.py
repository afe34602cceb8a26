"""Functions that are hosted while everything breaks, each of another kind; all write into the journal what they do.

The result of a call says which call and attempt it is of, so that one that went astray is seen.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass

from baton import (
    Effect,
    EffectCheckData,
    FunctionError,
    RunContext,
    ToolCallData,
    ToolGuardrailFunctionOutput,
    ToolOutputData,
    Worker,
)
from tests.faults.journal import PARTY, Claims, Fact, Journal

NAMES = ("plain", "slow", "once", "asked", "checked", "keyed", "failing", "allowed", "guarded")
"""All of them. `plain` runs in a thread; `slow` reports and extends its lease; `failing` fails or crashes."""

AGENTS = frozenset({"aide"})
"""Agents that are tools: their calls are nested runs, which nobody hosts."""

ALLOWED = "allowed"
"""The one of which each call must be allowed."""

GUARDED = "guarded"
"""The one of which hooks look at arguments and outputs."""

BEFORE, AFTER = "before", "after"
"""Those hooks."""

AT_MOST_ONCE = frozenset({"once", "asked", "checked", "allowed"})
"""Those that must not run twice: as the handler says, as the agent says, and as the agent says with a check."""

KEYED = "keyed"
"""The one of which calls with equal texts are one."""

QUICK_S, SLOW_S = 0.1, 0.8
"""The longest that bodies take."""


def output_of(name: str, call_id: str, attempt: int) -> str:
    """Say what the body of an attempt returns."""
    return f"{name} {call_id} {attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt whose body runs."""

    name: str
    call_id: str
    attempt: int
    key: str


class Bodies:
    """Runs bodies for one process, and writes down before and after each what becomes of it."""

    def __init__(self, process: str, journal: Journal, claims: Claims, chance: random.Random) -> None:
        self._process, self._journal, self._claims = process, journal, claims
        self._chance = chance

    def seconds(self, most: float) -> float:
        """Say how long a body takes."""
        return self._chance.uniform(0.0, most)

    @contextmanager
    def entered(self, attempt: Attempt) -> Iterator[None]:
        """Write down that a body begins, and how it ends. Raises FunctionError for one that must not begin any more."""
        ids = asdict(attempt)
        if self._claims.take(attempt.call_id, attempt.attempt, self._process) == PARTY:
            self._journal.write(Fact.FENCED, **ids)
            raise FunctionError("somebody found out that this attempt had not begun")
        self._journal.write(Fact.BEGUN, **ids)
        outcome = "crashed"
        try:
            yield
            outcome = "ok"
        except FunctionError:
            outcome = "failed"
            raise
        except asyncio.CancelledError:
            outcome = "stopped"
            raise
        finally:
            self._journal.write(Fact.ENDED, **ids, outcome=outcome)

    @asynccontextmanager
    async def lasting(self, attempt: Attempt, most_s: float) -> AsyncIterator[None]:
        """Prepare for a while, in which nothing has happened yet, and then be in a body for a while."""
        await asyncio.sleep(self.seconds(most_s / 2))
        with self.entered(attempt):
            await asyncio.sleep(self.seconds(most_s / 2))
            yield

    def began(self, call_id: str, attempt: int) -> bool:
        """Find out whether an attempt has begun; one that has not never will."""
        return self._claims.take(call_id, attempt, PARTY) != PARTY


def attempt_of(ctx: RunContext[None]) -> Attempt:
    """Name the attempt that a context is of."""
    return Attempt(name=ctx.tool_name, call_id=ctx.call_id, attempt=ctx.attempt, key=ctx.idempotency_key)


def judged(bodies: Bodies) -> ToolGuardrailFunctionOutput:
    """Say of a call that it may pass, or, of one in eight, what the model is told instead."""
    if bodies.seconds(1.0) < 0.125:
        return ToolGuardrailFunctionOutput.reject_content("held back")
    return ToolGuardrailFunctionOutput.allow()


def host(worker: Worker, bodies: Bodies) -> None:
    """Have a worker serve all of them."""

    def given(ctx: RunContext[None]) -> str:
        return output_of(ctx.tool_name, ctx.call_id, ctx.attempt)

    @worker.function
    def plain(ctx: RunContext[None], n: int, text: str) -> str:
        with bodies.entered(attempt_of(ctx)):
            ctx.cancelled.wait(bodies.seconds(QUICK_S))
            return given(ctx)

    @worker.function(max_concurrency=3)
    async def slow(ctx: RunContext[None], n: int, text: str) -> str:
        async with bodies.lasting(attempt_of(ctx), SLOW_S):
            ctx.progress(f"half of {n}")
            ctx.extend(1.0)
            return given(ctx)

    @worker.function(side_effects="once")
    async def once(ctx: RunContext[None], n: int, text: str) -> str:
        async with bodies.lasting(attempt_of(ctx), SLOW_S):
            return given(ctx)

    @worker.function
    async def asked(ctx: RunContext[None], n: int, text: str) -> str:
        async with bodies.lasting(attempt_of(ctx), SLOW_S):
            return given(ctx)

    @worker.function
    async def checked(ctx: RunContext[None], n: int, text: str) -> str:
        async with bodies.lasting(attempt_of(ctx), SLOW_S):
            return given(ctx)

    @worker.check("checked")
    def look(data: EffectCheckData[None]) -> Effect:
        return "took_effect" if bodies.began(data.call_id, data.attempt) else "none"

    @worker.function
    async def keyed(ctx: RunContext[None], n: int, text: str) -> str:
        async with bodies.lasting(attempt_of(ctx), QUICK_S):
            return given(ctx)

    @worker.function
    async def failing(ctx: RunContext[None], n: int, text: str) -> str:
        async with bodies.lasting(attempt_of(ctx), QUICK_S):
            if bodies.seconds(1.0) < 0.5:
                raise FunctionError(f"{given(ctx)} failed on purpose")
            raise ValueError(f"{given(ctx)} crashed on purpose")

    _host_guarded(worker, bodies)


def _host_guarded(worker: Worker, bodies: Bodies) -> None:
    """Have a worker serve what must be allowed, and what hooks look at."""

    def given(ctx: RunContext[None]) -> str:
        return output_of(ctx.tool_name, ctx.call_id, ctx.attempt)

    @worker.function(side_effects="once")
    async def allowed(ctx: RunContext[None], n: int, text: str) -> str:
        async with bodies.lasting(attempt_of(ctx), QUICK_S):
            return given(ctx)

    @worker.function
    async def guarded(ctx: RunContext[None], n: int, text: str) -> str:
        async with bodies.lasting(attempt_of(ctx), QUICK_S):
            return given(ctx)

    @worker.hook("tool_input_guardrail", name=BEFORE)
    async def before(data: ToolCallData[None]) -> ToolGuardrailFunctionOutput:
        await asyncio.sleep(bodies.seconds(QUICK_S))
        return judged(bodies)

    @worker.hook("tool_output_guardrail", name=AFTER)
    async def after(data: ToolOutputData[None]) -> ToolGuardrailFunctionOutput:
        await asyncio.sleep(bodies.seconds(QUICK_S))
        return judged(bodies)
