"""Runs agents: the loop in the server, the functions here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from baton.agent import Agent
from baton.connection import Connection, connection_for
from baton.hosting import Hosted
from baton.loop_thread import background_loop
from baton.options import refusing_unknown
from baton.plan import MAX_SERVED_RESTS, Plan, abandon, make_plan, served_here, whole_items
from baton.results import Input, RunResult, failure_of, make_result
from baton.retry import Backoff
from baton.run_config import RunConfig
from baton.session import Session
from baton.streamed import RunResultStreaming
from baton.tripwires import tell_reasons
from baton.v1 import runner_pb2

DEFAULT_MAX_TURNS = 10
"""Rounds of a run, as with the Agents SDK."""


class Runner:
    """Runs agents. All three ways take the same options.

    `context` is handed to the functions and never leaves this process. `max_turns` limits the rounds; None: no
    limit. `session`: the server's session whose history the run goes on with and joins; None: the input is all
    that the model sees. A connection that breaks and a server that is restarted do not end a run.
    """

    @staticmethod
    @refusing_unknown("Runner.run")
    async def run(
        starting_agent: Agent[Any],
        input: Input,
        *,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        run_config: RunConfig | Mapping[str, object] | None = None,
        session: Session | None = None,
    ) -> RunResult:
        """Run an agent to its final output. A caller that is cancelled cancels the turn.

        Raises MaxTurnsExceeded, ModelBehaviorError, ModelRefusalError and the others of `baton.errors`;
        UnservedError where the run rests because nobody serves a `RemoteFunction`, EffectUnknownError where nobody
        knows what one did.
        """
        plan = make_plan(
            starting_agent,
            input,
            context=context,
            max_turns=max_turns,
            run_config=run_config,
            session=session,
        )
        connection = connection_for(session.address if session is not None else None)
        async with plan.serving(connection.host) as hosted:
            request = plan.request(hosted)
            try:
                response = await _rest(connection, request, hosted)
            except asyncio.CancelledError:
                await abandon(connection, request)
                raise
        return await _result(connection, plan, response)

    @staticmethod
    @refusing_unknown("Runner.run_sync")
    def run_sync(
        starting_agent: Agent[Any],
        input: Input,
        *,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        run_config: RunConfig | Mapping[str, object] | None = None,
        session: Session | None = None,
    ) -> RunResult:
        """Run an agent and wait for it, where no event loop runs: RuntimeError where one does.

        Runs and functions share one background thread's event loop, which lives on between calls.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError("Runner.run_sync() cannot be called while an event loop runs; await Runner.run()")
        run = Runner.run(
            starting_agent,
            input,
            context=context,
            max_turns=max_turns,
            run_config=run_config,
            session=session,
        )
        return background_loop.run(run)

    @staticmethod
    @refusing_unknown("Runner.run_streamed")
    def run_streamed(
        starting_agent: Agent[Any],
        input: Input,
        *,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        run_config: RunConfig | Mapping[str, object] | None = None,
        session: Session | None = None,
    ) -> RunResultStreaming:
        """Begin a run and return at once; read its events with `stream_events()`. Needs a running event loop."""
        plan = make_plan(
            starting_agent,
            input,
            context=context,
            max_turns=max_turns,
            run_config=run_config,
            session=session,
        )
        return RunResultStreaming(plan)


async def _rest(connection: Connection, request: runner_pb2.RunRequest, hosted: Hosted) -> runner_pb2.RunResponse:
    """Wait until the turn rests; and again, where it rests only because this process's stream was broken."""
    backoff = Backoff(connection.timing)
    for _ in range(MAX_SERVED_RESTS):
        response = await connection.unary(connection.runner.Run, request, None)
        if not served_here(response, hosted):
            break
        await hosted.attached()
        await backoff.wait()
    return response


async def _result(connection: Connection, plan: Plan, response: runner_pb2.RunResponse) -> RunResult:
    items = await whole_items(connection, response, plan.agent)
    error = failure_of(response, plan.agent, plan.input, items)
    if error is not None:
        await tell_reasons(connection, response, error, plan.guardrails)
        raise error
    return make_result(response, plan.agent, plan.input, items, plan.context)
