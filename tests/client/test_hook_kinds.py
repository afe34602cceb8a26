"""Every kind of hook as a worker serves it: the data of its kind in, an answer out; and what is no answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

import baton
from baton import (
    GuardrailFunctionOutput,
    HandoffFilterData,
    ModelInputData,
    RetryDecision,
    RunErrorHandlerResult,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputText,
    ToolsToFinalOutputResult,
    Worker,
)
from baton.hooks.kinds import HOOK_KINDS, HookName
from baton.testing import ask_hook
from baton.v1 import event_pb2

CALL = {"call_id": "call_1", "tool": "pay", "arguments_json": '{"n":1}'}
USER = {"role": "user", "content": "Hi"}
ERROR = {"reason": "MODEL_RATE_LIMITED", "message": "slow down", "metadata": {"retry_after": "2s"}}

CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "input_guardrail": (
        {"input": [USER]},
        lambda data: GuardrailFunctionOutput(data.input, True),
        {"tripped": True, "info": [USER]},
    ),
    "output_guardrail": (
        {"output": {"a": 1}},
        lambda data: data.output == {"a": 1},
        {"tripped": True, "info": None},
    ),
    "tool_input_guardrail": (
        CALL,
        lambda data: ToolGuardrailFunctionOutput.reject_content(data.context.tool_arguments),
        {"verdict": "reject", "message": '{"n":1}', "info": None},
    ),
    "tool_output_guardrail": (
        {**CALL, "output": "done"},
        lambda data: ToolGuardrailFunctionOutput.allow(data.output),
        {"verdict": "allow", "info": "done"},
    ),
    "instructions": ({}, lambda data: f"You are {data.agent_name}", {"instructions": "You are Assistant"}),
    "tool_enabled": ({"tool": "pay"}, lambda data: data.tool_name == "pay", {"enabled": True}),
    "handoff_enabled": ({"tool": "t", "to_agent": "B"}, lambda data: data.to_agent != "B", {"enabled": False}),
    "needs_approval": (CALL, lambda data: data.arguments["n"] == 1, {"needs_approval": True}),
    "on_handoff": ({"from_agent": "A", "to_agent": "B", "input_json": None}, lambda data: "passed over", {}),
    "handoff_input_filter": (
        {"input_history": [USER], "pre_handoff_items": [], "new_items": [USER]},
        lambda data: replace(data, input_history=[], input_items=data.new_items),
        {"input_history": [], "pre_handoff_items": [], "new_items": [USER], "input_items": [USER]},
    ),
    "handoff_history": ({"transcript": [USER]}, lambda data: data.transcript * 2, {"input": [USER, USER]}),
    "session_input": (
        {"history": [USER], "new_input": []},
        lambda data: data.history + data.new_input,
        {"input": [USER]},
    ),
    "model_input_filter": (
        {"instructions": None, "input": [USER]},
        lambda data: ModelInputData(data.model_data.input, "Be brief."),
        {"instructions": "Be brief.", "input": [USER]},
    ),
    "tool_error": (
        {"kind": "timeout", "tool": "pay", "call_id": "c", "default_message": "late", "error": None},
        lambda data: f"{data.kind} {data.default_message}",
        {"message": "timeout late"},
    ),
    "tool_use": (
        {"results": [{"call_id": "c", "tool": "pay", "output": "paid"}]},
        lambda data: ToolsToFinalOutputResult(True, data.results[0].output),
        {"final": True, "output": "paid"},
    ),
    "error_handler": (
        {"error": ERROR, "run": {"input": [USER], "last_agent": "A"}},
        lambda data: RunErrorHandlerResult([data.error.reason, data.last_agent, data.input]),
        {"output": ["MODEL_RATE_LIMITED", "A", [USER]], "include_in_history": True},
    ),
    "agent_output": (
        {"output": "Bye", "new_items": [USER]},
        lambda data: [ToolOutputText(text=f"{data.output} {len(data.new_items)}"), ToolOutputText(text="!")],
        {"output": [{"type": "input_text", "text": "Bye 1"}, {"type": "input_text", "text": "!"}]},
    ),
    "agent_input": ({"arguments_json": '{"n":1}'}, lambda data: data.tool_arguments, {"input": '{"n":1}'}),
    "custom_data": ({**CALL, "output": "done"}, lambda data: {"of": data.call_id}, {"custom_data": {"of": "call_1"}}),
    "blocked_output": (
        {"guardrail": "g", "tool": "t", "call_id": "c"},
        lambda data: data.guardrail_name,
        {"message": "g"},
    ),
    "model_retry": (
        {"model_attempt": 1, "error": ERROR, "provider_suggests": True, "retry_after_ms": 2000},
        lambda data: RetryDecision(data.provider_suggests, delay=data.retry_after),
        {"retry": True, "delay_ms": 2000},
    ),
    "lifecycle": ({"moment": "handoff", "from_agent": "A", "to_agent": "B"}, lambda data: data.facts["to_agent"], {}),
    "session_store": ({"operation": "get", "limit": 3}, lambda data: [USER] * data.limit, {"items": [USER] * 3}),
}
"""By kind: a payload, a function of the data, and what it answers."""


def test_every_kind_of_the_contract_is_served() -> None:
    """By a worker, and tried here."""
    numbers = {kind.number for kind in HOOK_KINDS.values()}
    known = set(event_pb2.HandlerKind.values()) - {
        event_pb2.HANDLER_KIND_UNSPECIFIED,
        event_pb2.HANDLER_KIND_FUNCTION,
    }

    assert numbers == known
    assert set(CASES) == set(get_args(HookName)) == set(HOOK_KINDS) - {"effect_check"}


@pytest.mark.parametrize("kind", CASES)
async def test_a_worker_answers_a_question_of_each_kind(kind: HookName) -> None:
    """Whatever the function says becomes the contract's answer; fields of a later version are passed over."""
    payload, function, answer = CASES[kind]

    outcome = await ask_hook(kind, function, {**payload, "of a later version": 1})

    assert (outcome.answer, outcome.text) == (answer, outcome.text)
    worker = Worker()
    worker.hook(kind, name="x")(function)
    assert worker.hooks == ((kind, "x"),)


@pytest.mark.parametrize(
    ("kind", "said", "says"),
    [
        ("output_guardrail", "no", "must return a GuardrailFunctionOutput or a bool, not str"),
        ("tool_input_guardrail", True, "such as ToolGuardrailFunctionOutput.allow(), not bool"),
        ("tool_input_guardrail", ToolGuardrailFunctionOutput(None, {"type": "stop"}), "says 'stop'"),
        ("tool_output_guardrail", ToolGuardrailFunctionOutput.reject_content(""), "rejects with ''"),
        ("instructions", ["Be brief"], "must return a text or None, not list: ['Be brief']"),
        ("tool_enabled", None, "must return True or False, not NoneType"),
        ("needs_approval", "yes", "must return True or False, not str"),
        ("handoff_input_filter", [], "must return what it was given, changed, not list"),
        ("handoff_history", "text", "must return a list of items, not str"),
        ("session_input", None, "must return a list of items, not NoneType"),
        ("tool_error", 7, "must return a text or None, not int"),
        ("tool_use", "done", "must return a ToolsToFinalOutputResult, not str"),
        ("tool_use", ToolsToFinalOutputResult("yes"), "says 'yes' for is_final_output"),  # type: ignore[arg-type]
        ("custom_data", "x", "must return a dict or None, not str"),
        ("model_retry", 3, "must return a RetryDecision or a bool, not int"),
        ("agent_output", object(), "has no JSON form"),
        ("error_handler", object(), "has no JSON form"),
    ],
)
async def test_what_is_no_answer_of_the_kind_is_named(kind: HookName, said: Any, says: str) -> None:
    """Its author learns what it returned."""
    outcome = await ask_hook(kind, lambda data: said, CASES[kind][0])

    assert outcome.kind == "crash" and says in outcome.text


async def test_a_question_of_a_later_version_is_answered_as_one() -> None:
    """At once, since no answer would cost the turn its whole time limit."""
    outcome = await ask_hook("session_store", lambda data: [], {"operation": "pop"})

    assert "does not know 'pop'" in outcome.text


async def test_a_guardrail_of_a_function_is_the_same_in_a_worker_and_a_run() -> None:
    """It is decorated in neither, and gets the same class in both."""

    async def check(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        assert isinstance(data, ToolInputGuardrailData) and data.agent is None
        return ToolGuardrailFunctionOutput.raise_exception(data.context.tool_name)

    outcome = await ask_hook("tool_input_guardrail", check, CALL)
    assert outcome.answer == {"verdict": "trip", "info": "pay"}


def test_a_handoff_filter_of_a_worker_gets_plain_items() -> None:
    """It knows no agents; the class says so."""
    data = HOOK_KINDS["handoff_input_filter"].read(
        {"session_id": "s", "turn_id": "t", "agent_name": "A", "round": 1, "context": None}, {"new_items": [USER]}
    )

    assert isinstance(data, HandoffFilterData) and data.new_items == [USER] and data.input_items is None


def test_an_error_of_a_later_version_is_still_an_error() -> None:
    """With its message."""
    error = baton.hooks.reading.error_of({"reason": "MOON_IN_THE_WAY", "message": "wait"})

    assert (type(error), str(error)) == (baton.BatonError, "wait")
