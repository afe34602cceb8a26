"""Makes what a scenario declares out of the client's own parts: agents, functions of this process, and callbacks."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from baton import (
    Agent,
    AgentOutputSchemaBase,
    CallModelData,
    FunctionError,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    ModelInputData,
    ModelRetrySettings,
    ModelSettings,
    OutputGuardrail,
    RunConfig,
    RunContext,
    RunErrorHandlerResult,
    SessionSettings,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    ToolSearchTool,
    handoff,
    handoff_filters,
    retry_policies,
)
from baton.agents.tools import Invoke
from tests.conformance.compare import Json

NOTHING: Json = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
"""Parameters of a function that declares none."""

FILTERS = {"remove_all_tools": handoff_filters.remove_all_tools}
"""Filters of handoffs, by the scenario's words."""

OF_AGENTS = frozenset(
    {
        "name",
        "instructions",
        "handoff_description",
        "model_settings",
        "tools",
        "tool_use_behavior",
        "reset_tool_choice",
        "output",
        "input_guardrails",
        "output_guardrails",
        "handoffs",
        "agent_tools",
    }
)
OF_AGENT_TOOLS = frozenset({"agent", "name", "description", "needs_approval", "enabled", "max_turns"})
OF_TOOLS = frozenset(
    {
        "name",
        "description",
        "parameters",
        "strict",
        "enabled",
        "needs_approval",
        "timeout_seconds",
        "timeout_behavior",
        "defer_loading",
        "custom_data",
        "does",
        "on_failure",
        "input_guardrails",
        "output_guardrails",
    }
)
OF_CONFIGS = frozenset(
    {
        "model_settings",
        "tool_execution",
        "session_settings",
        "handoff_input_filter",
        "nest_handoff_history",
        "reasoning_item_id_policy",
        "tool_not_found_behavior",
        "tool_name_collision_policy",
        "input_guardrails",
        "output_guardrails",
        "keep_last_items",
        "append_instructions",
        "session_keep_history",
        "tool_error_messages",
    }
)
"""Words of a scenario that are known here; another one is an error, so that nothing is left out in silence."""


@dataclass(slots=True)
class Log:
    """The functions called, in order, and how many ran at once at the most."""

    called: list[str] = field(default_factory=list)
    running: int = 0
    most: int = 0


class AsTheScenarioSays(Exception):
    """What a function raises unexpectedly: its text is not for the model."""


class JsonSchemaOutput(AgentOutputSchemaBase):
    """An output type that is given as JSON Schema."""

    def __init__(self, name: str, schema: Json) -> None:
        self._name, self._schema = name, schema

    def is_plain_text(self) -> bool:
        """Say that it is none."""
        return False

    def name(self) -> str:
        """Say its name."""
        return self._name

    def json_schema(self) -> Json:
        """Give the schema."""
        return self._schema

    def is_strict_json_schema(self) -> bool:
        """Say that the model must keep to it."""
        return True

    def validate_json(self, json_str: str) -> Any:
        """Read a value; the server has checked it."""
        return json.loads(json_str)


# -- agents ----------------------------------------------------------------------------------------


def make_agents(scenario: Json, log: Log, model: str) -> dict[str, Agent[Any]]:
    """Make a scenario's agents by their keys; all ask `model`."""
    tools = {tool.get("name", "tool_search"): _tool(tool, log) for tool in scenario.get("tools", [])}
    made = {key: _agent(declared, tools, model, log) for key, declared in scenario["agents"].items()}
    for key, declared in scenario["agents"].items():
        made[key].handoffs.extend(_handoff(one, made, log) for one in declared.get("handoffs", []))
        nested = [_agent_tool(one, made, log) for one in declared.get("agent_tools", [])]
        made[key].tools = [*made[key].tools, *nested]
    return made


def _agent(declared: Json, tools: Json, model: str, log: Log) -> Agent[Any]:
    _known(declared, OF_AGENTS)
    output = declared.get("output")
    return Agent(
        name=declared["name"],
        instructions=_instructions(declared.get("instructions"), log),
        handoff_description=declared.get("handoff_description"),
        model=model,
        model_settings=_settings(declared.get("model_settings", {})),
        tools=[tools[name] for name in declared.get("tools", [])],
        output_type=None if output is None else JsonSchemaOutput(output["name"], output["schema"]),
        tool_use_behavior=declared.get("tool_use_behavior", "run_llm_again"),
        reset_tool_choice=declared.get("reset_tool_choice", True),
        input_guardrails=[_input_guardrail(one) for one in declared.get("input_guardrails", [])],
        output_guardrails=[_output_guardrail(one) for one in declared.get("output_guardrails", [])],
    )


def _agent_tool(declared: Json, agents: dict[str, Agent[Any]], log: Log) -> Any:
    _known(declared, OF_AGENT_TOOLS)
    options = {word: declared[word] for word in ("needs_approval", "max_turns") if word in declared}
    return agents[declared["agent"]].as_tool(
        declared["name"], declared["description"], is_enabled=_enabled(declared.get("enabled", True), log), **options
    )


def _instructions(declared: Json | str | None, log: Log) -> Any:
    """Make instructions that stay, or that count the functions called so far."""
    if not isinstance(declared, dict):
        return declared
    return lambda _context, _agent: f"{declared['counting']}: {len(log.called)}."


def _enabled(declared: Json | bool, log: Log) -> Any:
    """Say whether something is there: always, never, or since or until a function was called."""
    if isinstance(declared, bool):
        return declared
    if "after" in declared:
        return lambda _context, _agent: declared["after"] in log.called
    return lambda _context, _agent: declared["before"] not in log.called


def _settings(declared: Json) -> ModelSettings:
    """Make a model's settings; `retry` has a policy by its name, and its `statuses`."""
    if "retry" not in declared:
        return ModelSettings(**declared)
    retry: Json = declared["retry"]
    statuses = [retry["statuses"]] if "statuses" in retry else []
    made = ModelRetrySettings(
        max_retries=retry["max_retries"],
        backoff={"initial_delay": retry["initial_delay"], "jitter": False},
        policy=getattr(retry_policies, retry["policy"])(*statuses),
    )
    return ModelSettings(**{**declared, "retry": made})


def _handoff(declared: Json | str, agents: dict[str, Agent[Any]], log: Log) -> Any:
    if isinstance(declared, str):
        return agents[declared]
    return handoff(
        agents[declared["agent"]],
        tool_name_override=declared.get("tool_name"),
        tool_description_override=declared.get("tool_description"),
        input_filter=FILTERS[declared["input_filter"]] if "input_filter" in declared else None,
        nest_handoff_history=declared.get("nest_history"),
        is_enabled=_enabled(declared.get("enabled", True), log),
    )


def _input_guardrail(declared: Json) -> InputGuardrail[Any]:
    async def check(_context: Any, _agent: Any, _given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(declared.get("info"), declared.get("trips", False))

    return InputGuardrail(check, name=declared["name"], run_in_parallel=not declared.get("blocking", False))


def _output_guardrail(declared: Json) -> OutputGuardrail[Any]:
    async def check(_context: Any, _agent: Any, _given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(declared.get("info"), declared.get("trips", False))

    return OutputGuardrail(check, name=declared["name"])


# -- functions -------------------------------------------------------------------------------------


def _tool(declared: Json, log: Log) -> FunctionTool | ToolSearchTool:
    if declared.get("type") == "tool_search":
        return ToolSearchTool()
    _known(declared, OF_TOOLS)
    raises = {"failure_error_function": None} if declared.get("on_failure") == "raise" else {}
    return FunctionTool(
        name=declared["name"],
        description=declared.get("description", ""),
        params_json_schema=declared.get("parameters", NOTHING),
        on_invoke_tool=_handler(declared, log),
        strict_json_schema=declared.get("strict", True),
        is_enabled=_enabled(declared.get("enabled", True), log),
        needs_approval=declared.get("needs_approval", False),
        timeout_seconds=declared.get("timeout_seconds"),
        timeout_behavior=declared.get("timeout_behavior", "error_as_result"),
        defer_loading=declared.get("defer_loading", False),
        custom_data_extractor=(lambda _output: declared["custom_data"]) if "custom_data" in declared else None,
        tool_input_guardrails=[
            ToolInputGuardrail(_verdict(one), name=one["name"]) for one in declared.get("input_guardrails", [])
        ],
        tool_output_guardrails=[
            ToolOutputGuardrail(_verdict(one), name=one["name"]) for one in declared.get("output_guardrails", [])
        ],
        **raises,
    )


def _verdict(declared: Json) -> Any:
    def check(_data: Any) -> ToolGuardrailFunctionOutput:
        match declared["does"]:
            case "allow":
                return ToolGuardrailFunctionOutput.allow(output_info=declared.get("info"))
            case "reject":
                return ToolGuardrailFunctionOutput.reject_content(declared["message"], output_info=declared.get("info"))
            case _:
                return ToolGuardrailFunctionOutput.raise_exception(output_info=declared.get("info"))

    return check


def _handler(declared: Json, log: Log) -> Invoke:
    does: Json = declared["does"]

    async def invoke(_context: RunContext[Any], text: str) -> Any:
        try:
            arguments = json.loads(text or "{}")
        except ValueError as error:
            raise FunctionError(f"the arguments are no JSON: {error}") from error
        log.called.append(declared["name"])
        log.running += 1
        log.most = max(log.most, log.running)
        try:
            await asyncio.sleep(does.get("sleep_ms", 0) / 1000)
            return _outcome(does, arguments)
        finally:
            log.running -= 1

    return invoke


def _outcome(does: Json, arguments: Json) -> Any:
    if "raise" in does:
        raise AsTheScenarioSays(does["raise"])
    if "return_argument" in does:
        return str(arguments[does["return_argument"]])
    return does["return"]


# -- a run -----------------------------------------------------------------------------------------


def make_config(declared: Json) -> RunConfig:
    """Make the options of a run, its callbacks functions of this process."""
    _known(declared, OF_CONFIGS)
    plain = (
        "nest_handoff_history",
        "reasoning_item_id_policy",
        "tool_not_found_behavior",
        "tool_name_collision_policy",
    )
    options: Json = {word: declared[word] for word in plain if word in declared}
    for word, make in (
        ("model_settings", lambda **given: _settings(given)),
        ("tool_execution", ToolExecutionConfig),
        ("session_settings", SessionSettings),
    ):
        if word in declared:
            options[word] = make(**declared[word])
    if "handoff_input_filter" in declared:
        options["handoff_input_filter"] = FILTERS[declared["handoff_input_filter"]]
    if "input_guardrails" in declared:
        options["input_guardrails"] = [_input_guardrail(one) for one in declared["input_guardrails"]]
    if "output_guardrails" in declared:
        options["output_guardrails"] = [_output_guardrail(one) for one in declared["output_guardrails"]]
    if "keep_last_items" in declared:
        options["call_model_input_filter"] = _keeping(declared["keep_last_items"])
    if "append_instructions" in declared:
        options["call_model_input_filter"] = _telling(declared["append_instructions"])
    if "session_keep_history" in declared:
        count = declared["session_keep_history"]
        options["session_input_callback"] = lambda history, new: (history[-count:] if count else []) + new
    if "tool_error_messages" in declared:
        messages: Json = declared["tool_error_messages"]
        options["tool_error_formatter"] = lambda given: messages.get(given.kind)
    return RunConfig(**options)


def make_handlers(declared: Json) -> Json:
    """Make the error handlers of a run, by kind."""

    def handler(given: Json) -> Any:
        return lambda _data: RunErrorHandlerResult(
            final_output=given["final_output"], include_in_history=given.get("include_in_history", True)
        )

    return {kind: handler(given) for kind, given in declared.items()}


def _keeping(count: int) -> Any:
    def keep(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData(input=data.model_data.input[-count:], instructions=data.model_data.instructions)

    return keep


def _telling(words: str) -> Any:
    def tell(data: CallModelData[Any]) -> ModelInputData:
        told = (data.model_data.instructions or "") + words
        return ModelInputData(input=data.model_data.input, instructions=told)

    return tell


def _known(declared: Json, words: frozenset[str]) -> None:
    unknown = sorted(set(declared) - words)
    if unknown:
        raise ValueError(f"not supported: {', '.join(unknown)}")
