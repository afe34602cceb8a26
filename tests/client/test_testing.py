"""`baton.testing`: functions and hooks tried as in real life, without a server."""

from __future__ import annotations

import asyncio
import textwrap
import threading
import types
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import baton.testing
from baton import (
    Agent,
    CallModelData,
    EffectCheckData,
    FunctionError,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    LifecycleData,
    ModelInputData,
    RemoteHook,
    RunContext,
    TookEffect,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
    input_guardrail,
)
from baton.testing import (
    Report,
    ask_check,
    ask_filter,
    ask_guardrail,
    begin_function,
    call_function,
    tell,
)
from baton.testing.schema_check import problems


def test_the_sample_in_the_docstring_runs() -> None:
    """As it is printed there."""
    text = baton.testing.__doc__ or ""
    sample = textwrap.dedent("\n".join(line for line in text.splitlines() if line.startswith("    ") or not line))
    module = types.ModuleType("sample")

    exec(compile(sample, "sample", "exec"), module.__dict__)

    assert module.__dict__["orders"] == {"A-7": "cancelled"}


@pytest.mark.parametrize(
    ("value", "kind", "seen"),
    [
        ("rain", "output", "rain"),
        (None, "output", ""),
        ({"mm": 3}, "output_json", {"mm": 3}),
        (
            [ToolOutputText(text="a"), ToolOutputImage(image_url="https://example.com/a.png", detail="low")],
            "output_parts",
            [{"text": "a"}, {"image": {"url": "https://example.com/a.png", "detail": "low"}}],
        ),
        (object(), "crash", None),
        ("x" * 4_194_305, "failure", "too large"),
    ],
)
async def test_an_outcome_is_what_the_server_would_get(value: Any, kind: str, seen: Any) -> None:
    """Text, data, parts; what has no form; what is too large."""

    @function_tool
    async def give() -> Any:
        return value

    outcome = await call_function(give)

    assert outcome.kind == kind
    assert seen in outcome.value if seen == "too large" else outcome.value == seen


async def test_exceptions_are_told_apart() -> None:
    """Words for the model, and a crash of which it sees nothing."""

    @function_tool
    def fail(how: str) -> str:
        raise FunctionError("No such city.") if how == "kindly" else KeyError("secret")

    kindly = await call_function(fail, {"how": "kindly"})
    badly = await call_function(fail, {"how": "badly"})

    assert (kindly.kind, kindly.value) == ("failure", "No such city.")
    assert (badly.kind, badly.value, badly.crash_type) == ("crash", None, "KeyError")
    assert "Traceback" in badly.text and "secret" in badly.text


async def test_a_function_sees_the_call_that_the_test_says() -> None:
    """A second attempt may have run, unless the test says otherwise; the context is the test's own."""
    seen: list[RunContext[Any]] = []

    @function_tool
    def look(ctx: RunContext[Any]) -> None:
        seen.append(ctx)

    basket, deadline = object(), datetime(2030, 1, 1, tzinfo=UTC)
    await call_function(look, context=basket, attempt=2, idempotency_key="k", deadline=deadline, agent_name="B")
    await call_function(look, "")

    first, second = seen
    assert (first.context, first.attempt, first.may_have_run) == (basket, 2, True)
    assert (first.idempotency_key, first.deadline, first.agent_name) == ("k", deadline, "B")
    assert (second.attempt, second.may_have_run, second.idempotency_key) == (1, False, "call_1")


async def test_all_that_is_reported_is_seen() -> None:
    """Each report, where a server may skip some; and each longer lease."""

    @function_tool
    def works(ctx: RunContext[None]) -> str:
        ctx.progress("begun")
        ctx.progress({"step": 1})
        ctx.progress(output_so_far="do")
        ctx.extend(30)
        return "done"

    outcome = await call_function(works)

    assert outcome.reports == (Report(text="begun"), Report(data={"step": 1}), Report(output_so_far="do"))
    assert outcome.extensions == pytest.approx((30,), abs=0.1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("[1]", "no JSON object"),
        ("{", "no JSON"),
        ({"days": "3", "unit": "c"}, "$.days: type must be 'integer'"),
        ({"days": 3}, "$: 'unit' is missing"),
        ({"days": 3, "unit": "k"}, "$.unit: enum must be ['c', 'f']"),
        ({"days": 3, "unit": "c", "more": 1}, "$.more: nothing is allowed here"),
        ({"days": 0, "unit": "c"}, "$.days: minimum must be 1"),
    ],
)
async def test_arguments_that_a_server_refuses_do_not_reach_the_function(arguments: Any, says: str) -> None:
    """By the strict schema, before anything is converted."""
    called: list[int] = []

    @function_tool
    def forecast(unit: Literal["c", "f"], days: int = Field(ge=1)) -> str:
        called.append(days)
        return ""

    outcome = await call_function(forecast, arguments)

    assert (outcome.kind, outcome.value, called) == ("arguments_refused", None, [])
    assert says in outcome.text


async def test_arguments_without_a_strict_schema_are_the_functions_matter() -> None:
    """As in real life: what does not convert is told to the model."""

    @function_tool(strict_mode=False)
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert (await call_function(add, {"a": "2"})).value == 3
    assert (await call_function(add, {"a": "x"})).kind == "failure"


# --- cancels ------------------------------------------------------------------------------------------------


async def test_a_coroutine_is_stopped_midway() -> None:
    """It sees why; nothing of it is sent."""
    entered, seen = asyncio.Event(), list[str]()

    @function_tool
    async def works(ctx: RunContext[None]) -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled.reason)
        return ""

    call = begin_function(works)
    await entered.wait()
    call.cancel("timeout")
    outcome = await call.outcome()

    assert (outcome.kind, outcome.stopped, seen) == ("cancelled", "stopped", ["timeout"])


async def test_what_has_not_begun_does_not_begin() -> None:
    """The one case in which a call that must not run twice is delivered again freely."""

    @function_tool
    async def works() -> str:
        raise AssertionError

    call = begin_function(works)
    call.cancel()

    assert (await call.outcome()).stopped == "not_begun"


@pytest.mark.parametrize(("grace_s", "kind"), [(5.0, "output"), (0.0, "cancelled")])
async def test_a_thread_is_told_and_goes_on(grace_s: float, kind: str) -> None:
    """Within the grace its result counts."""
    entered, loop = asyncio.Event(), asyncio.get_running_loop()

    @function_tool
    def works(ctx: RunContext[None]) -> str:
        loop.call_soon_threadsafe(entered.set)
        return "late" if ctx.cancelled.wait(5) else "never told"

    call = begin_function(works)
    await entered.wait()
    call.cancel(grace_s=grace_s)
    outcome = await call.outcome()

    assert (outcome.kind, outcome.stopped) == (kind, "not_stopped")
    assert outcome.value == ("late" if grace_s else None)


def test_a_plain_function_is_no_tool() -> None:
    """What to do is said."""

    async def try_it() -> None:
        with pytest.raises(TypeError, match="decorate the function with function_tool"):
            await call_function(len)  # type: ignore[arg-type]

    asyncio.run(try_it())


async def test_a_tool_that_was_made_by_hand_is_called() -> None:
    """Its schema is all that is known of it."""

    async def invoke(_context: Any, arguments: str) -> str:
        return arguments

    tool = FunctionTool("echo", "", {"type": "object", "properties": {"a": {"type": "string"}}}, invoke)

    assert (await call_function(tool, '{"a": "b"}')).value == '{"a": "b"}'
    assert (await call_function(tool, "{}")).kind == "arguments_refused"


# --- hooks --------------------------------------------------------------------------------------------------


async def test_a_guardrail_is_asked() -> None:
    """With a text as a user's message; the agent and the context are the test's."""
    seen: list[Any] = []

    @input_guardrail
    def check(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        seen.append((ctx.context, agent.name, input))
        return GuardrailFunctionOutput({"why": "number"}, "555" in input)

    outcome = await ask_guardrail(check, "555", agent=Agent(name="A"), context="mine")

    assert (outcome.kind, outcome.answer) == ("answer", {"tripped": True, "info": {"why": "number"}})
    assert seen == [("mine", "A", "555")]
    with pytest.raises(TypeError, match="'there' is served elsewhere"):
        await ask_guardrail(InputGuardrail(RemoteHook("there")), "555")


async def test_the_other_hooks_are_asked() -> None:
    """Each with what it would get, and each gives what the server would."""
    told: list[Any] = []

    async def trim(data: CallModelData[None]) -> ModelInputData:
        return ModelInputData(input=data.model_data.input[-1:], instructions=None)

    def paid(data: EffectCheckData[None]) -> Any:
        return TookEffect(f"{data.tool_name} {data.idempotency_key} {data.tool_arguments} {data.attempt}")

    def audit(event: LifecycleData[None]) -> None:
        told.append((event.moment, event.facts["tool"], threading.current_thread() is threading.main_thread()))

    filtered = await ask_filter(trim, [{"n": 1}, {"n": 2}], "Be brief")
    checked = await ask_check(paid, "pay", {"order": 7}, idempotency_key="k", attempt=2)
    nothing = await tell(audit, "function_start", {"tool": "pay"})

    assert filtered.answer == {"instructions": None, "input": [{"n": 2}]}
    assert checked.answer == {"effect": "took_effect", "output": 'pay k {"order": 7} 2'}
    assert (nothing.kind, told) == ("answer", [("function_start", "pay", False)])


async def test_a_hook_that_fails_says_how() -> None:
    """In its own words, by an exception, or by an answer that is none."""

    def fail(data: Any) -> Any:
        raise FunctionError("no list")

    assert (await ask_guardrail(fail, "Hi")).failure == "no list"
    crashed = await ask_guardrail(lambda data: 1 / 0, "Hi")
    nonsense = await ask_filter(lambda data: None, [])

    assert (crashed.kind, crashed.crash_type) == ("crash", "ZeroDivisionError")
    assert "must return a ModelInputData" in nonsense.text


# --- the schema check ---------------------------------------------------------------------------------------


class Line(BaseModel):
    """A line of an order."""

    sku: str = Field(pattern="^[A-Z]+$", max_length=3)
    count: int | None = None


class Order(BaseModel):
    """An order: nested, with lists, unions and references."""

    lines: list[Line] = Field(min_length=1)
    place: tuple[int, str] | None
    parent: Order | None = None


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"lines": [{"sku": "A"}], "place": None}, []),
        ({"lines": [{"sku": "A", "count": None}], "place": [1, "x"], "parent": None}, []),
        ({"lines": [{"sku": "A", "count": 2.0}], "place": None}, []),
        ({"lines": [], "place": None}, ["$.lines: minItems must be 1"]),
        ({"lines": [{"sku": "abcd"}], "place": None}, ["maxLength", "pattern"]),
        ({"lines": [{"sku": "A", "count": True}], "place": None}, ["$.lines[0].count: fits none of the 2 forms"]),
        ({"lines": [{}], "place": [1, 2]}, ["'sku' is missing", "$.place: fits none"]),
        ({"lines": [{"sku": "A"}], "place": None, "parent": {"lines": 1}}, ["$.parent: fits none"]),
        ("order", ["$: type must be 'object'"]),
    ],
)
def test_a_schema_is_checked_as_deep_as_it_goes(value: Any, found: list[str]) -> None:
    """References, unions, lists and bounds."""
    wrong = problems(Order.model_json_schema(), value)

    assert len(wrong) == len(found)
    assert all(any(part in one for one in wrong) for part in found)
