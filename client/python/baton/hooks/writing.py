"""From what a hook's function returned to the JSON of its answer. Pure.

Each writer gets the hook's name, for the message of the TypeError that it raises for what is no answer of the kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pydantic_core

from baton.hooks.answers import (
    GuardrailFunctionOutput,
    ModelInputData,
    RetryDecision,
    RunErrorHandlerResult,
    TookEffect,
    ToolGuardrailFunctionOutput,
    ToolsToFinalOutputResult,
)
from baton.hooks.data import HandoffFilterData
from baton.items.outputs import result_of
from baton.items.raw_items import write_items
from baton.items.responses import raw_parts

Write = Callable[[str, Any], str]

EFFECTS = frozenset({"none", "took_effect", "unknown"})

VERDICTS = {"allow": "allow", "reject_content": "reject", "raise_exception": "trip"}
"""Verdicts of a tool guardrail, by the types of `ToolGuardrailFunctionOutput.behavior`."""


def write_guardrail(name: str, said: Any) -> str:
    """Write what an input or output guardrail says: a GuardrailFunctionOutput, or a bool."""
    output = GuardrailFunctionOutput(None, said) if isinstance(said, bool) else said
    if not isinstance(output, GuardrailFunctionOutput):
        raise TypeError(f"the guardrail {name!r} must return a GuardrailFunctionOutput or a bool, not {_kind(said)}")
    if not isinstance(output.tripwire_triggered, bool):
        raise TypeError(f"the guardrail {name!r} says {output.tripwire_triggered!r} for tripwire_triggered, not a bool")
    tripped = "true" if output.tripwire_triggered else "false"
    return f'{{"tripped":{tripped},"info":{dump(output.output_info)}}}'


def write_tool_guardrail(name: str, said: Any) -> str:
    """Write what a guardrail of a function says: a ToolGuardrailFunctionOutput."""
    if not isinstance(said, ToolGuardrailFunctionOutput):
        raise TypeError(
            f"the guardrail {name!r} must return a ToolGuardrailFunctionOutput, such as "
            f"ToolGuardrailFunctionOutput.allow(), not {_kind(said)}"
        )
    kind, message = said.behavior.get("type"), said.behavior.get("message")
    if kind not in VERDICTS:
        raise TypeError(f"the guardrail {name!r} says {kind!r}; a behavior's type is one of {', '.join(VERDICTS)}")
    if kind == "reject_content" and not (isinstance(message, str) and message):
        raise TypeError(f"the guardrail {name!r} rejects with {message!r}; it must say a text, which the model is told")
    told = f'"message":{dump(message)},' if kind == "reject_content" else ""
    return f'{{"verdict":"{VERDICTS[kind]}",{told}"info":{dump(said.output_info)}}}'


def write_filter(name: str, said: Any) -> str:
    """Write what a request carries: a ModelInputData."""
    if not isinstance(said, ModelInputData):
        raise TypeError(f"the model input filter {name!r} must return a ModelInputData, not {_kind(said)}")
    if not isinstance(said.input, list | tuple):
        raise TypeError(f"the model input filter {name!r} must give a list of items, not {_kind(said.input)}")
    if said.instructions is not None and not isinstance(said.instructions, str):
        raise TypeError(
            f"the model input filter {name!r} must give instructions as a text or None, not {_kind(said.instructions)}"
        )
    return f'{{"instructions":{dump(said.instructions)},"input":{write_items(said.input)}}}'


def write_handoff_filter(name: str, said: Any) -> str:
    """Write what the receiver of a handoff sees: a HandoffFilterData."""
    if not isinstance(said, HandoffFilterData):
        raise TypeError(f"the handoff input filter {name!r} must return what it was given, changed, not {_kind(said)}")
    lists = {
        "input_history": said.input_history,
        "pre_handoff_items": said.pre_handoff_items,
        "new_items": said.new_items,
    }
    written = [f'"{key}":{_items(name, value)}' for key, value in lists.items()]
    kept = "null" if said.input_items is None else _items(name, said.input_items)
    return f'{{{",".join(written)},"input_items":{kept}}}'


def write_input(name: str, said: Any) -> str:
    """Write a whole input: a list of items."""
    return f'{{"input":{_items(name, said)}}}'


def write_agent_input(name: str, said: Any) -> str:
    """Write the input of an agent that is called as a tool: a text, or a list of items."""
    return f'{{"input":{dump(said) if isinstance(said, str) else _items(name, said)}}}'


def write_agent_output(name: str, said: Any) -> str:
    """Write what the model is told of an agent that was called as a tool: as what a function returns."""
    result = result_of(said)
    match result.WhichOneof("outcome"):
        case "output_parts":
            return f'{{"output":{dump(raw_parts(result.output_parts.parts))}}}'
        case "output_json":
            return f'{{"output":{dump(result.output_json)}}}'
        case _:
            return f'{{"output":{dump(result.output)}}}'


def write_store(name: str, said: Any) -> str:
    """Write what a session store gives: a list of items, or nothing."""
    return "{}" if said is None else f'{{"items":{_items(name, said)}}}'


def text_writer(member: str) -> Write:
    """Make the writer of a kind that is answered by a text, or None."""

    def write(name: str, said: Any) -> str:
        if said is not None and not isinstance(said, str):
            raise TypeError(f"the hook {name!r} must return a text or None, not {_kind(said)}: {said!r}"[:500])
        return f'{{"{member}":{dump(said)}}}'

    return write


def flag_writer(member: str) -> Write:
    """Make the writer of a kind that is answered by a bool."""

    def write(name: str, said: Any) -> str:
        if not isinstance(said, bool):
            raise TypeError(f"the hook {name!r} must return True or False, not {_kind(said)}: {said!r}"[:500])
        return f'{{"{member}":{"true" if said else "false"}}}'

    return write


def write_tool_use(name: str, said: Any) -> str:
    """Write whether outputs end the run: a ToolsToFinalOutputResult."""
    if not isinstance(said, ToolsToFinalOutputResult):
        raise TypeError(f"the tool use behavior {name!r} must return a ToolsToFinalOutputResult, not {_kind(said)}")
    if not isinstance(said.is_final_output, bool):
        raise TypeError(f"the tool use behavior {name!r} says {said.is_final_output!r} for is_final_output, not a bool")
    if not said.is_final_output:
        return '{"final":false}'
    return f'{{"final":true,"output":{dump(said.final_output)}}}'


def write_handled(_name: str, said: Any) -> str:
    """Write what stands in for an error: a RunErrorHandlerResult, {"final_output": …}, another value, or None."""
    match said:
        case None:
            return '{"output":null}'
        case RunErrorHandlerResult():
            result = said
        case {"final_output": output}:
            result = RunErrorHandlerResult(output, said.get("include_in_history", True))
        case _:
            result = RunErrorHandlerResult(said)
    included = "true" if result.include_in_history else "false"
    return f'{{"output":{_spaced(result.final_output)},"include_in_history":{included}}}'


def write_custom_data(name: str, said: Any) -> str:
    """Write what an application keeps beside an output: an object, or None."""
    if said is not None and not isinstance(said, Mapping):
        raise TypeError(f"the custom data extractor {name!r} must return a dict or None, not {_kind(said)}")
    return f'{{"custom_data":{dump(said)}}}'


def write_retry(name: str, said: Any) -> str:
    """Write whether a request is sent again: a RetryDecision, or a bool."""
    decision = RetryDecision(said) if isinstance(said, bool) else said
    if not isinstance(decision, RetryDecision):
        raise TypeError(f"the retry policy {name!r} must return a RetryDecision or a bool, not {_kind(said)}")
    delay = "null" if decision.delay is None else str(round(decision.delay * 1000))
    return f'{{"retry":{"true" if decision.retry else "false"},"delay_ms":{delay}}}'


def write_nothing(_name: str, _said: Any) -> str:
    """Write that it was done; what was returned is passed over."""
    return "{}"


def write_check(name: str, said: Any) -> str:
    """Write what became of an attempt."""
    if isinstance(said, str) and said in EFFECTS:
        return dump({"effect": said})
    if not isinstance(said, TookEffect):
        raise TypeError(
            f'the check of {name!r} must return "none", "took_effect", "unknown" or a TookEffect, not {said!r}'[:500]
        )
    result = result_of(said.output)
    match result.WhichOneof("outcome"):
        case "output":
            output = dump(result.output)
        case "output_json":
            output = result.output_json
        case _:
            raise TypeError(f"the check of {name!r} gives content parts; only a text or data can stand for an output")
    return f'{{"effect":"took_effect","output":{output}}}'


def dump(value: Any) -> str:
    """Write JSON. Raises TypeError for what has no JSON form."""
    try:
        return pydantic_core.to_json(value, inf_nan_mode="strings").decode()
    except pydantic_core.PydanticSerializationError as error:
        raise TypeError(f"{_kind(value)} has no JSON form: {error}") from error


def _spaced(value: Any) -> str:
    """Write JSON with spaces, as models do: it becomes a message of the conversation."""
    return json.dumps(json.loads(dump(value)), ensure_ascii=False)


def _items(name: str, said: Any) -> str:
    if not isinstance(said, list | tuple):
        raise TypeError(f"the hook {name!r} must return a list of items, not {_kind(said)}: {said!r}"[:500])
    return write_items([getattr(one, "raw_item", one) for one in said])


def _kind(value: Any) -> str:
    return type(value).__name__
