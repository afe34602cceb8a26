"""One run, prepared: what is asked of the server, whichever of the two ways it is run."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import grpc

from baton.agent import Agent, agent_to_pb
from baton.connection import Connection
from baton.content import complete_item, complete_response, list_items
from baton.errors import AgentsException
from baton.hook_refs import Gathered, LocalHook, listed_filters, listed_lifecycle
from baton.hooks import InputGuardrail, RemoteHook
from baton.hosting import Host, Hosted
from baton.items import RunItem, RunItems
from baton.raw_items import write_items
from baton.results import ENDED, Input
from baton.run_config import RunConfig, config_to_pb, read_config
from baton.session import Session
from baton.tools import FunctionTool
from baton.v1 import event_pb2, runner_pb2, session_pb2

MAX_SERVED_RESTS = 5
"""Rests with functions unserved that are served here, one after another: then the server is believed."""

CANCEL_S, CANCEL_HERE_S = 10.0, 2.0
"""How long it is tried to cancel a turn whose caller went away; and how long that may hold up the caller."""

_log = logging.getLogger("baton")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run. `tools` and `hooks` are what this process brings."""

    agent: Agent[Any]
    input: Input
    context: Any
    max_turns: int | None
    config: RunConfig
    session: Session | None
    request_id: str
    hooks: Sequence[LocalHook] = ()

    @property
    def tools(self) -> list[FunctionTool]:
        """The agent's functions of this process."""
        return [tool for tool in self.agent.tools if isinstance(tool, FunctionTool)]

    @property
    def guardrails(self) -> list[InputGuardrail]:
        """All that check its input."""
        given = [*self.agent.input_guardrails, *self.config.input_guardrails]
        return [InputGuardrail(one) if isinstance(one, RemoteHook) else one for one in given]

    def serving(self, host: Host) -> AbstractAsyncContextManager[Hosted]:
        """Serve what this process brings."""
        return host.serving(self.tools, self.context, self.hooks, self.agent)

    def request(self, hosted: Hosted) -> runner_pb2.RunRequest:
        """Write the request; the same one at each try."""
        request = runner_pb2.RunRequest(
            request_id=self.request_id,
            agent=agent_to_pb(self.agent, hosted.ref_of),
            run_config=config_to_pb(
                self.config, self.max_turns, hosted.scopes, self.session is not None, hosted.ref_of
            ),
            with_next_items=True,
        )
        if self.session is not None:
            request.session_key = self.session.session_id
        if isinstance(self.input, str):
            request.text = self.input
        else:
            request.items_json = write_items(self.input)
        return request


def make_plan(
    agent: Agent[Any],
    given: Input,
    *,
    context: Any,
    max_turns: int | None,
    run_config: RunConfig | Mapping[str, object] | None,
    session: Session | None,
) -> Plan:
    """Check what `Runner.run` was given. Raises TypeError for what no run takes."""
    if not isinstance(agent, Agent):
        raise TypeError(f"the starting agent must be a baton.Agent, not {type(agent).__name__}")
    if session is not None and not isinstance(session, Session):
        raise TypeError(
            f"session must be a baton.Session (or SQLiteSession), not {type(session).__name__}: "
            "the server keeps the history"
        )
    if not isinstance(given, str | Sequence):
        raise TypeError(f"input must be a text or a list of items, not {type(given).__name__}")
    config = read_config(run_config)
    return Plan(
        agent=agent,
        input=given if isinstance(given, str) else list(given),
        context=context,
        max_turns=max_turns,
        config=config,
        session=session,
        request_id=uuid.uuid4().hex,
        hooks=_local_hooks(agent, config),
    )


def _local_hooks(agent: Agent[Any], config: RunConfig) -> list[LocalHook]:
    gathered = Gathered()
    gathered.guardrails([*agent.input_guardrails, *config.input_guardrails])
    gathered.functions("model_input_filter", listed_filters(config.call_model_input_filter))
    gathered.functions("lifecycle", [one.hook for one in listed_lifecycle(config.lifecycle_hooks)])
    return gathered.hooks


def served_here(response: runner_pb2.RunResponse, hosted: Hosted) -> bool:
    """Tell whether a run rests only because this process's own stream is broken at the moment."""
    open_names = {action.name for action in response.required_actions}
    unknown = any(one.state == event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN for one in response.required_actions)
    return response.turn.status not in ENDED and bool(open_names) and open_names <= hosted.names and not unknown


async def whole_items(connection: Connection, response: runner_pb2.RunResponse, agent: Agent[Any]) -> list[RunItem]:
    """Make the run items of an answer, with what it left out or omitted."""
    await complete_response(connection, response)
    ordered = RunItems(agent)
    made: list[RunItem] = []
    if response.items_left_out:
        request = session_pb2.ListItemsRequest(session_id=response.session_id, turn_id=response.turn.turn_id)
        async for item in list_items(connection, request):
            made.extend(ordered.feed(item))
    else:
        for item in response.new_items:
            await complete_item(connection, response.session_id, item)
            made.extend(ordered.feed(item))
    made.extend(ordered.flush())
    return made


async def abandon(connection: Connection, request: runner_pb2.RunRequest, turn: tuple[str, str] | None = None) -> None:
    """Cancel the turn of a run whose caller is being cancelled, before that goes on.

    Here and now, since the event loop may be about to end; what takes too long goes on behind.
    """
    if not connection.closed:
        task = connection.spawn(cancel_turn(connection, request, turn, event_pb2.CANCEL_MODE_NOW))
        await asyncio.wait({task}, timeout=CANCEL_HERE_S)


async def cancel_turn(
    connection: Connection,
    request: runner_pb2.RunRequest,
    turn: tuple[str, str] | None,
    mode: event_pb2.CancelMode.ValueType,
) -> None:
    """Cancel a run's turn. `turn`: session and turn id; None: not known yet.

    Then the same request, streamed, tells them: it attaches to the turn. What goes wrong is logged: the turn is
    bounded by its rounds.
    """
    try:
        session_id, turn_id = turn or await _find_turn(connection, request)
        await connection.unary(connection.sessions.SubmitInput, cancel_request(session_id, turn_id, mode), CANCEL_S)
    except (AgentsException, grpc.aio.AioRpcError) as error:
        _log.warning("the turn of an abandoned run could not be cancelled: %s", error)


def cancel_request(
    session_id: str, turn_id: str, mode: event_pb2.CancelMode.ValueType
) -> session_pb2.SubmitInputRequest:
    """Write the input that cancels a turn."""
    cancel = session_pb2.CancelInput(turn_id=turn_id, mode=mode, reason="the caller cancelled the run")
    return session_pb2.SubmitInputRequest(
        request_id=uuid.uuid4().hex, session_id=session_id, inputs=[session_pb2.Input(cancel=cancel)]
    )


async def _find_turn(connection: Connection, request: runner_pb2.RunRequest) -> tuple[str, str]:
    streamed = streamed_request(request)
    streamed.deltas = event_pb2.DELTA_LEVEL_NONE

    async def find() -> tuple[str, str]:
        call = connection.runner.RunStreamed(streamed, timeout=CANCEL_S)
        try:
            async for message in call:
                if message.HasField("started"):
                    return message.started.session_id, message.started.turn_id
        finally:
            call.cancel()
        raise AgentsException("the server's stream did not say which turn it is")

    return await connection.persist(find, "finding a turn", CANCEL_S)


def streamed_request(request: runner_pb2.RunRequest) -> runner_pb2.RunStreamedRequest:
    """Write a request of Run as one of RunStreamed: number by number the same."""
    return runner_pb2.RunStreamedRequest.FromString(request.SerializeToString())
