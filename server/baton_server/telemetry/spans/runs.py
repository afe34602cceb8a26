"""Runs: the spans of their agents, of the rounds under these, and of the model's replies under those."""

from __future__ import annotations

from dataclasses import dataclass, field

from opentelemetry.trace import Span, SpanKind

from baton_server.core.agents import Agent
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import ModelAttemptFailed, RoundCompleted
from baton_server.core.run_config import Pinned, Tracing
from baton_server.telemetry.spans import facts
from baton_server.telemetry.spans.facts import Texts
from baton_server.telemetry.spans.writing import Writer, nanoseconds, place_of

OF_MODEL = frozenset(
    {
        Reason.MODEL_NOT_FOUND,
        Reason.MODEL_AUTHENTICATION,
        Reason.MODEL_RATE_LIMITED,
        Reason.MODEL_QUOTA_EXCEEDED,
        Reason.MODEL_UNAVAILABLE,
        Reason.MODEL_TIMEOUT,
        Reason.MODEL_REQUEST_INVALID,
        Reason.CONTEXT_LENGTH_EXCEEDED,
        Reason.CONVERSATION_LOCKED,
        Reason.MODEL_RESPONSE_FAILED,
    }
)
"""Why a request of the model ends without a reply: there is a span of it, with this error."""


@dataclass(slots=True, kw_only=True)
class RunSpans:
    """What goes on in a run. `above`: what its agents' spans are under; None: nothing.

    `since`: when what comes next could begin. `rounds`: replies so far. `came`, `made`: what joined the run since the
    last reply, and what the coming reply consists of. `tries`: attempts of the coming round that failed, with when.
    """

    path: tuple[str, ...]
    above: Span | None
    since: float
    agent: Agent | None = None
    starts: int = 0
    rounds: int = 0
    agent_span: Span | None = None
    round_span: Span | None = None
    came: Texts = field(default_factory=Texts)
    made: Texts = field(default_factory=Texts)
    tries: list[tuple[float, ModelAttemptFailed]] = field(default_factory=list)
    open_calls: set[str] = field(default_factory=set)

    @property
    def inner(self) -> Span | None:
        """Give the span that what happens in it is under."""
        return self.round_span or self.agent_span or self.above


class RunWriter:
    """Writes the spans of runs."""

    def __init__(self, writer: Writer, pinned: Pinned, tracing: Tracing) -> None:
        self._writer, self._pinned = writer, pinned
        self._with_rounds = tracing.include_turn_spans

    def change_agent(self, run: RunSpans, name: str, at: float) -> None:
        """End the agent that went on in a run, and begin another one."""
        self.end_agent(run, at, None)
        run.agent, run.since = self._pinned.by_name[name], at
        run.starts += 1
        place = place_of("agent", run.path, run.starts)
        run.agent_span = self._writer.begin(place, f"invoke_agent {name}", at, run.above, facts.agent(run.agent))

    def end(self, run: RunSpans, at: float, failure: Failure | None) -> None:
        """End a run, over a failure if there is one."""
        if failure is not None and failure.reason in OF_MODEL and run.agent is not None:
            self._next_round(run)
            self._writer.end(self._generation(run, run.agent, "", run.since), at, failure)
        self.end_agent(run, at, failure)

    def end_agent(self, run: RunSpans, at: float, failure: Failure | None) -> None:
        """End what an agent does in a run, and its round with it."""
        self._end_round(run, at)
        if run.agent_span is not None:
            self._writer.end(run.agent_span, at, failure)
            run.agent_span = None

    def reply(self, run: RunSpans, body: RoundCompleted, at: float) -> None:
        """Write the span of a reply that has come; its round goes on, with the calls that it made."""
        if run.agent is None:
            return
        self._next_round(run)
        used = facts.usage(body.usage)
        if run.round_span is not None:
            run.round_span.set_attributes(used)
        span = self._generation(run, run.agent, body.model, max(run.since, at - body.duration_ms / 1000))
        span.set_attributes({"gen_ai.response.model": body.model, "baton.model_attempts": body.model_attempts, **used})
        if body.response_id:
            span.set_attribute("gen_ai.response.id", body.response_id)
        made = run.made.take()
        if made:
            span.set_attribute("baton.output", made)
        self._writer.end(span, at)
        run.since = at

    def _next_round(self, run: RunSpans) -> None:
        """Begin the span of a round: it began when nothing of the one before was left to do."""
        self._end_round(run, run.since)
        run.rounds += 1
        if self._with_rounds:
            name, place = f"round {run.rounds}", place_of("round", run.path, run.rounds)
            run.round_span = self._writer.begin(place, name, run.since, run.agent_span, {"baton.round": run.rounds})

    def _end_round(self, run: RunSpans, at: float) -> None:
        if run.round_span is not None:
            self._writer.end(run.round_span, at)
            run.round_span = None

    def _generation(self, run: RunSpans, agent: Agent, model: str, began: float) -> Span:
        asked = facts.request(self._pinned, agent, model)
        name = f"chat {asked.get('gen_ai.request.model', '')}".rstrip()
        place = place_of("generation", run.path, run.rounds)
        span = self._writer.begin(place, name, began, run.inner, asked, SpanKind.CLIENT)
        came = run.came.take()
        if came:
            span.set_attribute("baton.input", came)
        for when, failed in run.tries:
            said = {"baton.model_attempt": failed.model_attempt, "error.type": failed.failure.reason.value}
            span.add_event("baton.model_attempt_failed", said, nanoseconds(when))
        run.tries.clear()
        return span
