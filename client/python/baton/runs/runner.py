"""Runs agents: the loop in the server, the functions here."""

from __future__ import annotations

import asyncio
from typing import Any, Unpack

from baton.agents.agent import Agent
from baton.hosting.own import Hosted
from baton.options import refusing_unknown
from baton.runs.course import Course, begin
from baton.runs.plan import Input, make_plan
from baton.runs.rests import MAX_SERVED_RESTS, read_outcome
from baton.runs.results import RunResult, make_result
from baton.runs.run_arguments import RunArguments
from baton.runs.run_state import RunState
from baton.runs.streamed import RunResultStreaming
from baton.runs.turn_status import served_by
from baton.server.cancelling import abandon
from baton.server.connection import Connection, connection_for
from baton.server.loop_thread import background_loop
from baton.transport.retry import Backoff
from baton.v1 import runner_pb2


class Runner:
    """Runs agents. All three ways take the same input and the same options: `RunArguments`.

    `input`: a text, a list of Responses API items, or the `RunState` of a run that paused or ended early, which goes on
    under what it began with; of the options it takes a `context`, functions and hooks of this process where the state
    came out of its JSON, and, after the limit of rounds, another `max_turns`. A run that waits for decisions gives a
    result with `interruptions`. A connection that breaks and a server that is restarted do not end a run.
    """

    @staticmethod
    @refusing_unknown("Runner.run", RunArguments.__annotations__)
    async def run(
        starting_agent: Agent[Any], input: Input | RunState[Any], **options: Unpack[RunArguments]
    ) -> RunResult:
        """Run an agent to its final output, or to where it waits. A caller that is cancelled cancels the turn.

        Raises MaxTurnsExceeded, ModelBehaviorError, ModelRefusalError and the others of `baton.errors`, and what a hook
        of this process raised; UnservedError where the run rests because nobody serves a `RemoteFunction`,
        EffectUnknownError where nobody knows what one did.
        """
        plan = make_plan(starting_agent, input, options)
        connection = connection_for(plan.address)
        async with plan.serving(connection.host) as hosted:
            course = await begin(connection, plan, hosted)
            try:
                response = await _rest(connection, course, hosted)
            except asyncio.CancelledError:
                await abandon(connection, course.request, course.turn)
                raise
            outcome = await read_outcome(connection, plan, hosted, course, response)
        error = outcome.failure()
        if error is not None:
            raise error
        return make_result(outcome)

    @staticmethod
    @refusing_unknown("Runner.run_sync", RunArguments.__annotations__)
    def run_sync(
        starting_agent: Agent[Any], input: Input | RunState[Any], **options: Unpack[RunArguments]
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
        return background_loop.run(Runner.run(starting_agent, input, **options))

    @staticmethod
    @refusing_unknown("Runner.run_streamed", RunArguments.__annotations__)
    def run_streamed(
        starting_agent: Agent[Any], input: Input | RunState[Any], **options: Unpack[RunArguments]
    ) -> RunResultStreaming:
        """Begin a run and return at once; read its events with `stream_events()`. Needs a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "Runner.run_streamed() needs a running event loop: call it in a coroutine, or use Runner.run_sync()"
            ) from None
        return RunResultStreaming(make_plan(starting_agent, input, options))


async def _rest(connection: Connection, course: Course, hosted: Hosted) -> runner_pb2.RunResponse:
    """Wait until the turn rests; and again, where it rests only because this process's stream was broken."""
    backoff = Backoff(connection.timing)
    for _ in range(MAX_SERVED_RESTS):
        response = await course.rest()
        if not served_by(response, hosted.names):
            break
        await hosted.attached()
        await backoff.wait()
    return response
