"""What the guardrails of a run said, beside the definitions by which the program knows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from baton.agents.agent import Agent
from baton.agents.guardrails import InputGuardrail, InputGuardrailResult, OutputGuardrail, OutputGuardrailResult, named
from baton.agents.tool_guardrails import (
    ToolInputGuardrail,
    ToolInputGuardrailResult,
    ToolOutputGuardrail,
    ToolOutputGuardrailResult,
)
from baton.errors import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from baton.hooks import RemoteHook
from baton.hooks.answers import GuardrailFunctionOutput, ToolGuardrailFunctionOutput
from baton.runs.run_config import RunConfig
from baton.v1 import event_pb2, runner_pb2

_INPUT = event_pb2.GUARDRAIL_STAGE_INPUT
_OUTPUT = event_pb2.GUARDRAIL_STAGE_OUTPUT
_TOOL_INPUT = event_pb2.GUARDRAIL_STAGE_TOOL_INPUT
_TOOL_OUTPUT = event_pb2.GUARDRAIL_STAGE_TOOL_OUTPUT

_MAKERS: Mapping[event_pb2.GuardrailStage.ValueType, Any] = {
    _INPUT: InputGuardrail,
    _OUTPUT: OutputGuardrail,
    _TOOL_INPUT: ToolInputGuardrail,
    _TOOL_OUTPUT: ToolOutputGuardrail,
}
"""What a RemoteHook stands for, by its place."""


class Definitions:
    """The guardrails of a graph of agents and of a run's options, by place and name. The run's beat none of them."""

    def __init__(self, agents: Iterable[Agent[Any]], config: RunConfig) -> None:
        self._known: dict[tuple[event_pb2.GuardrailStage.ValueType, str], Any] = {}
        for agent in agents:
            self._add(_INPUT, agent.input_guardrails)
            self._add(_OUTPUT, agent.output_guardrails)
            for tool in agent.tools:
                self._add(_TOOL_INPUT, getattr(tool, "tool_input_guardrails", None))
                self._add(_TOOL_OUTPUT, getattr(tool, "tool_output_guardrails", None))
        self._add(_INPUT, config.input_guardrails)
        self._add(_OUTPUT, config.output_guardrails)

    def find(self, stage: event_pb2.GuardrailStage.ValueType, name: str) -> Any:
        """Find a guardrail; None: it is none of these."""
        return self._known.get((stage, name))

    def _add(self, stage: event_pb2.GuardrailStage.ValueType, guardrails: Iterable[Any] | None) -> None:
        for name, given in named(guardrails):
            made = _MAKERS[stage](given) if isinstance(given, RemoteHook) else given
            self._known.setdefault((stage, name), made)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailResults:
    """All that was said, by place, in order. What no definition of the program stands behind is left out."""

    input: list[InputGuardrailResult] = field(default_factory=list)
    output: list[OutputGuardrailResult] = field(default_factory=list)
    tool_input: list[ToolInputGuardrailResult] = field(default_factory=list)
    tool_output: list[ToolOutputGuardrailResult] = field(default_factory=list)


class _HasResults(Protocol):
    @property
    def guardrails(self) -> GuardrailResults:
        """What was said."""


class TellsGuardrails:
    """Tells by the Agents SDK's names what guardrails said, for a class that has it in `guardrails`."""

    __slots__ = ()

    @property
    def input_guardrail_results(self: _HasResults) -> list[InputGuardrailResult]:
        """What the input guardrails said."""
        return self.guardrails.input

    @property
    def output_guardrail_results(self: _HasResults) -> list[OutputGuardrailResult]:
        """What the output guardrails said."""
        return self.guardrails.output

    @property
    def tool_input_guardrail_results(self: _HasResults) -> list[ToolInputGuardrailResult]:
        """What the guardrails of functions said before calls."""
        return self.guardrails.tool_input

    @property
    def tool_output_guardrail_results(self: _HasResults) -> list[ToolOutputGuardrailResult]:
        """What the guardrails of functions said after calls."""
        return self.guardrails.tool_output


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What is known of a run where its guardrails' words are read. `outputs`: of calls, by Baton's id."""

    definitions: Definitions
    agents: Mapping[str, Agent[Any]]
    start: Agent[Any]
    final_output: Any
    outputs: Mapping[str, Any]


def read_results(told: Iterable[runner_pb2.GuardrailResult], said: Said) -> GuardrailResults:
    """Read `RunResponse.guardrail_results`."""
    made = GuardrailResults()
    for one in told:
        guardrail = said.definitions.find(one.stage, one.name)
        if guardrail is None:
            continue
        if one.stage == _INPUT:
            made.input.append(InputGuardrailResult(guardrail, _output(one)))
        elif one.stage == _OUTPUT:
            agent = said.agents.get(one.agent, said.start)
            made.output.append(OutputGuardrailResult(guardrail, said.final_output, agent, _output(one)))
        elif one.stage == _TOOL_INPUT:
            made.tool_input.append(ToolInputGuardrailResult(guardrail, _tool_output(one, said.outputs)))
        elif one.stage == _TOOL_OUTPUT:
            made.tool_output.append(ToolOutputGuardrailResult(guardrail, _tool_output(one, said.outputs)))
    return made


def tell_tripped(error: AgentsException, results: GuardrailResults) -> None:
    """Put into the error of a guardrail that tripped what it said. Other errors stay as they are."""
    match error:
        case InputGuardrailTripwireTriggered():
            error.guardrail_result = _tripped(results.input, error.guardrail_name)
        case OutputGuardrailTripwireTriggered():
            error.guardrail_result = _tripped(results.output, error.guardrail_name)
        case ToolInputGuardrailTripwireTriggered():
            before = _raised(results.tool_input, error.guardrail_name)
            error.guardrail, error.output = (before.guardrail, before.output) if before else (None, None)
        case ToolOutputGuardrailTripwireTriggered():
            after = _raised(results.tool_output, error.guardrail_name)
            error.guardrail, error.output = (after.guardrail, after.output) if after else (None, None)
        case _:
            pass


def _tripped(results: Iterable[Any], name: str) -> Any:
    return _named(name, [one for one in results if one.output.tripwire_triggered])


def _raised(results: Iterable[Any], name: str) -> Any:
    return _named(name, [one for one in results if one.output.behavior["type"] == "raise_exception"])


def _named(name: str, struck: Sequence[Any]) -> Any:
    """Find the one of a name; where guardrails of one name were told apart by others, the first that struck."""
    return next((one for one in struck if one.guardrail.get_name() == name), next(iter(struck), None))


def _output(told: runner_pb2.GuardrailResult) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(_info(told), told.verdict == event_pb2.GUARDRAIL_VERDICT_TRIPPED)


def _tool_output(told: runner_pb2.GuardrailResult, outputs: Mapping[str, Any]) -> ToolGuardrailFunctionOutput:
    match told.verdict:
        case event_pb2.GUARDRAIL_VERDICT_CONTENT_REJECTED:
            return ToolGuardrailFunctionOutput.reject_content(str(outputs.get(told.call_id, "")), _info(told))
        case event_pb2.GUARDRAIL_VERDICT_TRIPPED:
            return ToolGuardrailFunctionOutput.raise_exception(_info(told))
        case _:
            return ToolGuardrailFunctionOutput.allow(_info(told))


def _info(told: runner_pb2.GuardrailResult) -> Any:
    return json.loads(told.info_json) if told.info_json else None
