"""Runs one scenario through the client, and tells what came of it in the form of its "expect".

    {"runs": [{"outcome": "completed" | "interrupted" | "error", "error": NAME, "guardrail": NAME,
               "final_output": ..., "last_agent": NAME, "new_items": [...], "usage": {...},
               "interruptions": [[...]], "stream": [...]}, ...],
     "requests": [...], "functions_called": [...], "most_at_once": N}

Keys are there only where they have something to say; `stream` only of the streamed rpc.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp

from baton import (
    Agent,
    AgentsException,
    ConversationLockedError,
    HandoffCallItem,
    HandoffOutputItem,
    ItemHelpers,
    MessageOutputItem,
    ModelAuthenticationError,
    ModelNotFoundError,
    ModelRateLimitedError,
    ModelRequestInvalidError,
    ModelUnavailableError,
    RunItem,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    Session,
    StreamEvent,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from tests.conformance.building import Log, make_agents, make_config, make_handlers
from tests.conformance.compare import Json, differences

Rpc = Literal["run", "run_streamed"]

PATIENCE_S = 30.0
"""How long one scenario may take."""

SAYS_NO_BEHAVIOUR = frozenset({"stream", "prompt_cache_key", "extra_headers"})
"""Fields of a request to the model that are each implementation's own affair."""

REFERENCE_NAMES: dict[type[AgentsException], str] = {
    ConversationLockedError: "BadRequestError",
    ModelAuthenticationError: "AuthenticationError",
    ModelNotFoundError: "NotFoundError",
    ModelRateLimitedError: "RateLimitError",
    ModelRequestInvalidError: "BadRequestError",
    ModelUnavailableError: "InternalServerError",
}
"""What the reference calls an error that we call by another name: it lets the openai package's own pass."""


@dataclass(slots=True)
class Memory:
    """What a run leaves for the next one of its scenario."""

    session: Session
    input_list: list[Any] | None = None
    last_agent: Agent[Any] | None = None
    last_response_id: str | None = None


class ModelScripts:
    """The scripted model server, over HTTP: scripts go in, the requests that it got come out."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http, self._address = http, address

    async def load(self, name: str, steps: list[Json]) -> None:
        """Load a script, or rewind it. Raises aiohttp.ClientError where no server answers or it refuses."""
        async with self._http.put(f"{self._address}/_scripts/{name}", json={"responses": steps}) as answer:
            answer.raise_for_status()

    async def requests(self, name: str) -> list[Json]:
        """List the bodies of the requests made to a script, without what is null or says nothing of behaviour."""
        async with self._http.get(f"{self._address}/_requests/{name}") as answer:
            seen = (await answer.json())["requests"]
        return [_clean(request["body"]) for request in seen]


async def check(scenario: Json, rpc: Rpc, scripts: ModelScripts) -> Json:
    """Run a scenario; return its name, the differences from the reference, and what was got."""
    got = await _run_all(scenario, rpc, scripts)
    return _line(scenario, differences(scenario["expect"], got, rpc), got)


def _line(scenario: Json, found: list[str], got: Json) -> Json:
    return {"name": scenario["name"], "differences": found, "got": got}


async def _run_all(scenario: Json, rpc: Rpc, scripts: ModelScripts) -> Json:
    name, log = scenario["name"], Log()
    await scripts.load(name, scenario["model"])
    agents = make_agents(scenario, log, f"script:{name}")
    memory = Memory(Session(f"{name}-{uuid.uuid4().hex}"))
    async with asyncio.timeout(PATIENCE_S):
        runs = [await _run(run, rpc, agents, memory) for run in scenario["runs"]]
    made: Json = {"runs": runs, "requests": await scripts.requests(name), "functions_called": log.called}
    if scenario.get("overlap"):
        made["most_at_once"] = log.most
    return made


async def _run(run: Json, rpc: Rpc, agents: dict[str, Agent[Any]], memory: Memory) -> Json:
    start = agents[run.get("agent", next(iter(agents)))]
    if run.get("from_last_agent") and memory.last_agent is not None:
        start = memory.last_agent
    options = _options(run, memory)
    given = _input(run, memory)
    made: Json = {}
    names: list[str] = []
    try:
        result = await _once(start, given, options, rpc, names, run.get("cancel", {}))
        for decisions in run.get("decisions", []):
            if not result.interruptions:
                break
            made.setdefault("interruptions", []).append([_item(item) for item in result.interruptions])
            state = _decided(result, decisions)
            if rpc == "run_streamed":  # goes on as another process would: by what is written down
                state = await RunState.from_string(start, state.to_string())
            result = await _once(start, state, options, rpc, names)
        if result.interruptions:
            made.setdefault("interruptions", []).append([_item(item) for item in result.interruptions])
    except AgentsException as error:
        made |= {"outcome": "error", "error": _error_name(error), "message": str(error)}
        guardrail = getattr(error, "guardrail_result", None)
        if guardrail is not None:
            made["guardrail"] = guardrail.guardrail.get_name()
    else:
        made |= _ended(result)
        memory.input_list, memory.last_agent = result.to_input_list(), result.last_agent
        memory.last_response_id = result.last_response_id
    return {**made, "stream": names} if rpc == "run_streamed" else made


async def _once(
    start: Agent[Any], given: Any, options: Json, rpc: Rpc, names: list[str], cancel: Json | None = None
) -> RunResult | RunResultStreaming:
    """Run once; `cancel`: with which `mode`, `at` which event, a run that is streamed is cancelled."""
    if rpc == "run":
        return await Runner.run(start, given, **options)
    result = Runner.run_streamed(start, given, **options)
    async for event in result.stream_events():
        names += _event_names(event)
        if cancel and event.type == "run_item_stream_event" and event.name == cancel["at"]:
            result.cancel(cancel["mode"])
    return result


def _decided(result: RunResult | RunResultStreaming, decisions: list[Json]) -> RunState[Any]:
    state = result.to_state()
    for decision in decisions:
        for item in result.interruptions:
            if item.raw_item["call_id"] != decision["call_id"]:
                continue
            always = decision.get("always", False)
            if decision["approve"]:
                state.approve(item, always_approve=always)
            else:
                state.reject(item, always_reject=always, rejection_message=decision.get("message"))
    return state


def _options(run: Json, memory: Memory) -> Json:
    options: Json = {"run_config": make_config(run.get("config", {}))}
    if "max_turns" in run:
        options["max_turns"] = run["max_turns"]
    if "error_handlers" in run:
        options["error_handlers"] = make_handlers(run["error_handlers"])
    match run.get("memory"):
        case "session":
            options["session"] = memory.session
        case "conversation":
            options["conversation_id"] = "conv_scenario"
        case "previous_response":
            options |= {"previous_response_id": memory.last_response_id, "auto_previous_response_id": True}
        case _:
            pass
    return options


def _input(run: Json, memory: Memory) -> Any:
    given = run["input"]
    if run.get("memory") != "input_list" or memory.input_list is None:
        return given
    return memory.input_list + ([{"role": "user", "content": given}] if isinstance(given, str) else given)


def _ended(result: RunResult | RunResultStreaming) -> Json:
    ended: Json = {"outcome": "interrupted"} if result.interruptions else {"outcome": "completed"}
    if not result.interruptions:
        ended["final_output"] = result.final_output
    return ended | {
        "last_agent": result.last_agent.name,
        "new_items": [_item(item) for item in result.new_items],
        "usage": {
            "requests": result.usage.requests,
            "input_tokens": result.usage.input_tokens,
            "output_tokens": result.usage.output_tokens,
        },
    }


def _item(item: RunItem) -> Json:
    made: Json = {"type": item.type, "agent": item.agent.name}
    match item:
        case MessageOutputItem():
            made["text"] = ItemHelpers.text_message_output(item)
        case ToolCallItem(raw_item=raw) | HandoffCallItem(raw_item=raw) | ToolApprovalItem(raw_item=raw):
            made |= {key: raw.get(key) for key in ("name", "call_id", "arguments")}
        case ToolCallOutputItem(raw_item=raw) | HandoffOutputItem(raw_item=raw):
            made |= {"call_id": raw.get("call_id"), "output": raw.get("output")}
            made["custom_data"] = getattr(item, "custom_data", None)
        case _:
            pass
    return {key: value for key, value in made.items() if value is not None}


def _event_names(event: StreamEvent) -> list[str]:
    match event.type:
        case "run_item_stream_event":
            return [event.name]
        case "agent_updated_stream_event":
            return [f"agent_updated:{event.new_agent.name}"]
        case _:
            return []


def _error_name(error: AgentsException) -> str:
    if isinstance(error, ModelUnavailableError) and "status" not in error.metadata:  # nothing came, or not its end
        return "APIConnectionError"
    return REFERENCE_NAMES.get(type(error), type(error).__name__)


def _clean(body: Json) -> Json:
    kept = {
        key: value
        for key, value in body.items()
        if value is not None and key not in SAYS_NO_BEHAVIOUR and value not in ({}, [])
    }
    if "tools" in kept:
        kept["tools"] = sorted(kept["tools"], key=lambda tool: json.dumps([tool.get("type"), tool.get("name")]))
    return kept
