"""Turns of every kind, drawn: agents that hand over and call one another, programs at every moment, any options."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.core.driving import Turn
from tests.core.making import NOTE, PAY, WEATHER, call, hook, hosted, refuse, say, think

from baton_server.core.agents import (
    Agent,
    Guardrail,
    Handoff,
    KeepLast,
    LifecycleHook,
    OutputSchema,
    RemoveAllTools,
    ToolUseBehavior,
    TrimOutputs,
)
from baton_server.core.events import HookKind
from baton_server.core.hooks.question import Question
from baton_server.core.inputs import NewItem
from baton_server.core.run_config import (
    BlockedOutputText,
    ErrorHandler,
    ErrorHandlers,
    HandoffHistory,
    History,
    HistoryMode,
    ReasoningItemIds,
    RunConfig,
    ToolErrorTexts,
    ToolExecution,
    ToolNotFound,
)
from baton_server.core.tools import AgentTool, Approval, Enabled, FailureText, FunctionTool, Terms, ToolGuardrail

HOOK = hook()
SCHEMA = OutputSchema(name="list", schema_json='{"type":"array"}')

GOOD = (
    ("get_weather", '{"city":"Kyoto"}'),
    ("take_note", '{"text":"x"}'),
    ("pay", '{"order":1}'),
    ("pay", '{"order":2}'),
    ("ask_expert", '{"input":"Hi"}'),
    ("transfer_to_expert", '{"text":"x"}'),
)
"""What a model calls as it should: name and arguments."""

BAD = (
    ("get_weather", '{"city":5}'),
    ("ask_expert", "{}"),
    ("transfer_to_expert", "{"),
    ("pay", ""),
    ("take_note", "["),
)
"""What it calls as it should not."""


def rarely(*values: Any, default: Any = None) -> st.SearchStrategy[Any]:
    """Draws the default five times as often as all the others together."""
    return st.sampled_from([*[default] * 5 * len(values), *values])


APPROVALS = rarely(Approval(always=True), Approval(hook=HOOK), default=Approval())
ENABLED = rarely(Enabled(hook=HOOK), Enabled(always=False), default=Enabled())
FAILURES = rarely(
    FailureText(text="Sorry."), FailureText(hook=HOOK), FailureText(fail_turn=True), default=FailureText()
)
TOOL_GUARDS = rarely(
    (ToolGuardrail(name="ask", check=HOOK),),
    (
        ToolGuardrail(name="words", check=Terms(terms=("Oslo", "output 3")), message="No."),
        ToolGuardrail(name="b", check=HOOK),
    ),
    default=(),
)
GUARDS = rarely(
    (Guardrail(name="ask", check=HOOK, blocking=True),),
    (Guardrail(name="ask", check=HOOK), Guardrail(name="words", check=Terms(terms=("forbidden",)))),
    default=(),
)
LIFECYCLE = rarely((LifecycleHook(hook=HOOK, awaited=True), LifecycleHook(hook=HOOK)), default=())
FILTERS = rarely(
    (HOOK,), (KeepLast(items=3),), (RemoveAllTools(), HOOK), (TrimOutputs(recent_messages=0, max_chars=4),), default=()
)


@st.composite
def functions(draw: st.DrawFn, base: FunctionTool) -> FunctionTool:
    """Draws what happens around a function."""
    return FunctionTool(
        name=base.name,
        parameters_json=base.parameters_json,
        strict=base.strict,
        execution=base.execution,
        approval=draw(APPROVALS),
        enabled=draw(ENABLED),
        input_guardrails=draw(TOOL_GUARDS),
        output_guardrails=draw(TOOL_GUARDS),
        on_crash=draw(FAILURES),
        on_timeout=draw(FAILURES),
        custom_data=draw(rarely(HOOK)),
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Agent, tuple[Agent, ...]]:
    """Draws an agent that starts, and one that it calls or hands over to."""

    def agent(name: str, other: str) -> Agent:
        handoff = Handoff(
            name="transfer_to_expert",
            agent=other,
            input_schema_json=draw(rarely('{"required":["text"]}', default="")),
            on_handoff=draw(rarely(HOOK)),
            input_filters=draw(FILTERS),
            nest_history=draw(rarely(True)),
            enabled=draw(ENABLED),
        )
        nested = AgentTool(
            name="ask_expert",
            agent=other,
            input_builder=draw(rarely(HOOK)),
            output_extractor=draw(rarely(HOOK)),
            max_turns=draw(rarely(1, 2)),
            approval=draw(APPROVALS),
            enabled=draw(ENABLED),
            on_crash=draw(FAILURES),
        )
        return Agent(
            name=name,
            instructions_hook=draw(rarely(HOOK)),
            tools=(draw(functions(WEATHER)), draw(functions(NOTE)), draw(functions(PAY)), nested),
            handoffs=(handoff,),
            output_schema=draw(rarely(SCHEMA)),
            input_guardrails=draw(GUARDS),
            output_guardrails=draw(GUARDS),
            tool_use=draw(
                rarely(
                    ToolUseBehavior(stop_on_first=True),
                    ToolUseBehavior(stop_at=("pay", "ask_expert")),
                    ToolUseBehavior(hook=HOOK),
                    default=ToolUseBehavior(),
                )
            ),
            lifecycle_hooks=draw(LIFECYCLE),
        )

    return agent("Helper", "Expert"), (agent("Expert", "Helper"),)


HANDLERS = rarely(
    ErrorHandlers(
        max_turns=ErrorHandler(hook=HOOK),
        model_refusal=ErrorHandler(output="Sorry."),
        invalid_final_output=ErrorHandler(output_json='["a"]', include_in_history=False),
    ),
    ErrorHandlers(max_turns=ErrorHandler(output="Enough."), invalid_final_output=ErrorHandler(hook=HOOK)),
)

CONFIGS = st.builds(
    RunConfig,
    max_turns=st.sampled_from([None, None, 0, 1, 2, 5]),
    unlimited_turns=st.booleans(),
    history=rarely(
        History(),
        History(mode=HistoryMode.CALLER),
        History(mode=HistoryMode.RESPONSE, auto=True),
        History(mode=HistoryMode.CONVERSATION, id="conv_1"),
        History(mode=HistoryMode.STORED, store=HOOK, limit=3),
    ),
    session_input=rarely(HOOK),
    model_input_filters=FILTERS,
    handoff_input_filters=FILTERS,
    nest_handoff_history=rarely(True),
    handoff_history=rarely(HandoffHistory(mapper=HOOK)),
    reasoning_item_ids=rarely(ReasoningItemIds.OMIT),
    tool_execution=rarely(
        ToolExecution(max_concurrency=1, guardrails_before_approval=True), ToolExecution(max_concurrency=2)
    ),
    tool_not_found=rarely(ToolNotFound.TELL_MODEL),
    tool_error_texts=rarely(ToolErrorTexts(hook=HOOK), ToolErrorTexts(approval_rejected="No.", tool_exception="Oh.")),
    blocked_output_text=rarely(BlockedOutputText(hook=HOOK), BlockedOutputText(text="Held back.")),
    error_handlers=HANDLERS,
    lifecycle_hooks=LIFECYCLE,
    input_guardrails=GUARDS,
    output_guardrails=GUARDS,
)

CALLS = st.sampled_from([*GOOD * 3, *BAD])
WORDS = st.sampled_from([think(), hosted(), say("Hello."), say(""), say('{"response":["a"]}'), say("forbidden")])
WORSE = st.sampled_from([call("get_time", id="t"), call(id="c0"), refuse("No.")])


def rewords(items: list[Any], way: int) -> list[Any]:
    """Changes a list as programs do: not at all, without its beginning, with an item of their own before it."""
    return [items, items[1:], [{"role": "user", "content": "By the way:"}, *items]][way]


def answers(turn: Turn, question: Question, way: int) -> Any:
    """Answers a question in one of three ways, each of a good shape; the first one lets the turn go on."""
    asked = turn.payload(question)
    good = (way < 2, way == 0)  # mostly, and only at first
    match question.kind:
        case HookKind.INPUT_GUARDRAIL | HookKind.OUTPUT_GUARDRAIL:
            return {"tripped": not good[0]}
        case HookKind.TOOL_INPUT_GUARDRAIL | HookKind.TOOL_OUTPUT_GUARDRAIL:
            return {"verdict": ("allow", "reject", "trip")[way], "message": "Not so."}
        case HookKind.INSTRUCTIONS:
            return {"instructions": "Be brief." if good[0] else None}
        case HookKind.TOOL_ENABLED | HookKind.HANDOFF_ENABLED:
            return {"enabled": good[0]}
        case HookKind.NEEDS_APPROVAL:
            return {"needs_approval": not good[1]}
        case HookKind.HANDOFF_INPUT_FILTER:
            return {**asked, "new_items": rewords(asked["new_items"], way), "input_items": [] if way == 1 else None}
        case HookKind.HANDOFF_HISTORY:
            return {"input": rewords(asked["transcript"], way)}
        case HookKind.SESSION_INPUT:
            return {"input": rewords([*asked["history"], *asked["new_input"]], way)}
        case HookKind.MODEL_INPUT_FILTER:
            return {"instructions": "Sing.", "input": rewords(asked["input"], way)}
        case HookKind.TOOL_USE:
            return {"final": not good[0], "output": "done"}
        case HookKind.ERROR_HANDLER:
            return {"output": (None, "Sorry.", ["a"])[way], "include_in_history": good[1]}
        case HookKind.AGENT_INPUT:
            return {"input": ("Hi", [{"role": "user", "content": "Hi"}], "forbidden")[way]}
        case HookKind.AGENT_OUTPUT:
            return {"output": ("in short", [], "")[way]}
        case HookKind.CUSTOM_DATA:
            return {"custom_data": {"a": 1} if good[1] else None}
        case HookKind.TOOL_ERROR | HookKind.BLOCKED_OUTPUT:
            return {"message": (None, "Sorry.", "")[way]}
        case HookKind.SESSION_STORE:
            return {"items": [{"role": "user", "content": "Before"}] if good[1] else []}
        case _:
            return {}


@st.composite
def replies(draw: st.DrawFn) -> list[NewItem]:
    """Draws a reply with calls, most of them good: ids are made distinct by who gives it."""
    words = draw(st.lists(WORDS, max_size=1))
    return [*words, *(call(name, arguments) for name, arguments in draw(st.lists(CALLS, min_size=1, max_size=4)))]
