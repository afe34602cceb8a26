"""One run, prepared: what is asked of the server, whichever way it is run, and what this process serves for it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from baton.agents.agent import Agent, agent_to_pb
from baton.agents.error_handlers import checked_handlers
from baton.agents.graph import reachable
from baton.agents.lifecycle import RunHooks
from baton.agents.tools import FunctionTool
from baton.errors import UserError
from baton.hooks.refs import Gathered, LocalHook, RefOf
from baton.hosting.own import Bringing, Host, Hosted
from baton.items.raw_items import write_items
from baton.runs.guardrail_results import Definitions
from baton.runs.memory import Memory, memory_of
from baton.runs.raised import Raised
from baton.runs.run_arguments import RunArguments
from baton.runs.run_config import RunConfig, config_to_pb, read_config
from baton.runs.run_options import DEFAULT_MAX_TURNS, RunOptions
from baton.runs.run_state import RunState
from baton.v1 import runner_pb2, session_pb2

Input = str | Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run. `agents`: its graph, by name. `hooks`: those that this process brings.

    `state` None: it begins; else `input` is what it began with, if this process knows, and `limit_given` says that the
    caller wants another limit of rounds.
    """

    agent: Agent[Any]
    agents: Mapping[str, Agent[Any]]
    input: Input
    context: Any
    options: RunOptions
    config: RunConfig
    memory: Memory
    request_id: str
    hooks: Sequence[LocalHook] = ()
    raised: Raised = field(default_factory=Raised, repr=False)
    state: RunState[Any] | None = None
    limit_given: bool = False

    @property
    def address(self) -> str | None:
        """Where its server is; None: the default one."""
        if self.state is not None:
            return self.state.position.address
        return self.memory.session.address if self.memory.session is not None else None

    @property
    def tools(self) -> list[tuple[str, FunctionTool]]:
        """The functions of this process, each with the name of its agent."""
        return [
            (agent.name, tool)
            for agent in self.agents.values()
            for tool in agent.tools
            if isinstance(tool, FunctionTool)
        ]

    @property
    def definitions(self) -> Definitions:
        """The guardrails that check it."""
        return Definitions(self.agents.values(), self.config)

    def serving(self, host: Host) -> AbstractAsyncContextManager[Hosted]:
        """Serve what this process brings."""
        bringing = Bringing(tools=self.tools, hooks=self.hooks, agents=self.agents, context=self.context)
        return host.serving(bringing, self.state.position.place if self.state is not None else None)

    def request(self, hosted: Hosted) -> runner_pb2.RunRequest:
        """Write the request of a run that begins; the same one at each try."""
        request = self._written(hosted.ref_of, hosted.scopes)
        if self.memory.session is not None:
            request.session_key = self.memory.session.session_id
        set_input(request, self.input)
        return request

    def continuing(self, state: RunState[Any]) -> runner_pb2.RunRequest:
        """Write the request of a run that goes on from an ended turn."""
        position = state.position
        continues = session_pb2.ContinueInput(turn_id=position.turn_id)
        if self.limit_given and self.options.max_turns is None:
            continues.unlimited_turns = True
        elif self.limit_given:
            continues.max_turns = self.options.max_turns or 0
        request = runner_pb2.RunRequest(
            request_id=position.request_id, session_id=position.session_id, continues=continues, with_next_items=True
        )
        if state.pending_input:
            request.items_json = write_items(state.pending_input)
        return request

    def local_hooks(self) -> list[LocalHook]:
        """List the hooks of this process that it names."""
        gathered = Gathered()
        self._written(gathered.ref_of, ())
        return [self.raised.watching(hook) for hook in gathered.hooks]

    def _written(self, ref_of: RefOf, scopes: Sequence[str]) -> runner_pb2.RunRequest:
        options = replace(self.options, scopes=scopes, history=self.memory.to_pb(ref_of))
        return runner_pb2.RunRequest(
            request_id=self.request_id,
            agent=agent_to_pb(self.agent, ref_of),
            run_config=config_to_pb(self.config, options, ref_of),
            with_next_items=True,
        )


def make_plan(agent: Agent[Any], given: Input | RunState[Any], arguments: RunArguments) -> Plan:
    """Check what `Runner` was given. Raises TypeError for what no run takes, UserError for two memories at once."""
    if not isinstance(agent, Agent):
        raise TypeError(f"the starting agent must be a baton.Agent, not {type(agent).__name__}")
    if not isinstance(given, str | Sequence | RunState):
        raise TypeError(f"input must be a text, a list of items or a RunState, not {type(given).__name__}")
    state = given if isinstance(given, RunState) else None
    if state is not None and state.agent.name != agent.name:
        raise UserError(f"the run began with the agent {state.agent.name!r}, not with {agent.name!r}; give that one")
    before = state.plan if state is not None else None
    config = _config(arguments, before)
    plan = Plan(
        agent=agent,
        agents=reachable(agent),
        input=before.input if before is not None else () if isinstance(given, RunState) else _copied(given),
        context=_context(arguments, state),
        options=_options(arguments, before),
        config=config,
        memory=_memory(arguments, config, before),
        request_id=uuid.uuid4().hex,
        state=state,
        limit_given="max_turns" in arguments,
    )
    return replace(plan, hooks=plan.local_hooks())


def set_input(request: runner_pb2.RunRequest, given: Input) -> None:
    """Write what is new in a run."""
    if isinstance(given, str):
        request.text = given
    else:
        request.items_json = write_items(given)


def _copied(given: Input) -> Input:
    return given if isinstance(given, str) else list(given)


def _context(arguments: RunArguments, state: RunState[Any] | None) -> Any:
    context = arguments.get("context")
    return state.context if context is None and state is not None else context


def _config(arguments: RunArguments, before: Plan | None) -> RunConfig:
    given = arguments.get("run_config")
    return before.config if given is None and before is not None else read_config(given)


def _options(arguments: RunArguments, before: Plan | None) -> RunOptions:
    """Read the limit, and who is told of what; of a resumed run what is not given again stays as it was."""
    known = before.options if before is not None else RunOptions()
    hooks, handlers = arguments.get("hooks"), arguments.get("error_handlers")
    if hooks is not None and not isinstance(hooks, RunHooks):
        raise TypeError(
            f"hooks must be a RunHooks, not {type(hooks).__name__}; AgentHooks belong on an agent: Agent(hooks=…)"
        )
    limit = arguments.get("max_turns", DEFAULT_MAX_TURNS)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        raise TypeError(f"max_turns must be a whole number or None, not {limit!r}")
    return RunOptions(
        max_turns=limit,
        error_handlers=checked_handlers(handlers) if handlers is not None else known.error_handlers,
        hooks=hooks if hooks is not None else known.hooks,
    )


def _memory(arguments: RunArguments, config: RunConfig, before: Plan | None) -> Memory:
    given = memory_of(
        arguments.get("session"),
        arguments.get("conversation_id"),
        arguments.get("previous_response_id"),
        arguments.get("auto_previous_response_id", False),
        config.session_settings,
    )
    return before.memory if before is not None and given == Memory() else given
