"""Options of a run: what each becomes, what is asked of this process, and what is refused where it is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.own_hooks import ask

import baton
from baton import (
    Agent,
    DenyTerms,
    HandoffInputData,
    KeepLast,
    ModelBehaviorError,
    ModelSettings,
    OutputGuardrailBlockedMessageArgs,
    RemoteHook,
    RunConfig,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    SessionSettings,
    ToolErrorFormatterArgs,
    ToolExecutionConfig,
    ToolOutputTrimmer,
    UserError,
    handoff_filters,
    reset_conversation_history_wrappers,
    set_conversation_history_wrappers,
    trace,
)
from baton.hooks.kinds import HOOK_KINDS
from baton.runs.run_config import config_to_pb, read_config
from baton.runs.run_options import RunOptions
from baton.runs.session_store import store_use
from baton.v1 import agent_pb2, run_config_pb2

AGENT: Agent[Any] = Agent(name="A")
USER = {"role": "user", "content": "Hi"}


def written(config: RunConfig | None = None, **options: Any) -> run_config_pb2.RunConfig:
    """Write options of which no hook is this process's own."""
    return config_to_pb(config or RunConfig(), RunOptions(**options))


def test_a_run_that_says_nothing_says_its_limit() -> None:
    """Ten rounds, as with the Agents SDK; None is none."""
    assert written() == run_config_pb2.RunConfig(max_turns=10)
    assert written(max_turns=None) == run_config_pb2.RunConfig(unlimited_turns=True)


def test_each_option_has_its_field() -> None:
    """Those without a program."""
    config = RunConfig(
        model="gpt-5",
        model_provider="azure",
        model_settings=ModelSettings(temperature=0.5),
        input_guardrails=[DenyTerms(["a"], "x")],
        output_guardrails=[RemoteHook("polite")],
        handoff_input_filter=[handoff_filters.remove_all_tools, KeepLast(3)],
        nest_handoff_history=True,
        handoff_history_mapper=RemoteHook("fold"),
        session_input_callback=RemoteHook("merge"),
        call_model_input_filter=[ToolOutputTrimmer(3, 600, 100, "search"), RemoteHook("trim")],
        reasoning_item_id_policy="omit",
        tool_execution=ToolExecutionConfig(max_function_tool_concurrency=2, pre_approval_tool_input_guardrails=True),
        tool_error_formatter={"tool_not_found": "No such thing."},
        tool_not_found_behavior="return_error_to_model",
        tool_name_collision_policy="error",
        output_guardrail_blocked_message="Withheld.",
        scopes=["svc"],
    )

    made = written(config, scopes=["mine"], max_turns=3)

    assert (made.model, made.model_provider, made.model_settings.temperature) == ("gpt-5", "azure", 0.5)
    assert [one.name for one in (*made.input_guardrails, *made.output_guardrails)] == ["x", "polite"]
    assert [one.WhichOneof("filter") for one in made.handoff_input_filters] == ["remove_all_tools", "keep_last"]
    assert made.nest_handoff_history and made.handoff_history.mapper.name == "fold"
    assert made.session_input.name == "merge"
    trim, hook = made.model_input_filters
    assert trim.trim_outputs == agent_pb2.TrimOutputs(
        recent_messages=3, max_chars=600, preview_chars=100, functions=["search"]
    )
    assert hook.hook.name == "trim"
    assert made.reasoning_item_ids == run_config_pb2.REASONING_ITEM_IDS_OMIT
    assert made.tool_execution == run_config_pb2.ToolExecution(
        max_function_concurrency=2, guardrails_before_approval=True
    )
    assert made.tool_error_texts == run_config_pb2.ToolErrorTexts(tool_not_found="No such thing.")
    assert made.tool_not_found == run_config_pb2.TOOL_NOT_FOUND_TELL_MODEL
    assert made.tool_name_collision == run_config_pb2.TOOL_NAME_COLLISION_FAIL_TURN
    assert made.blocked_output_text.text == "Withheld."
    assert list(made.scopes) == ["mine", "svc"]


def test_a_dict_is_as_good_as_an_object() -> None:
    """Also for what is in it."""
    config = read_config(
        {
            "model": "gpt-5",
            "model_settings": {"top_p": 0.5},
            "tool_execution": {"max_function_tool_concurrency": 1},
            "session_settings": {"limit": 5},
        }
    )

    assert config.session_settings == SessionSettings(limit=5)
    assert written(config).tool_execution.max_function_concurrency == 1
    assert read_config(None) == RunConfig()


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"sandbox": None, "modle": "x"}, TypeError, "RunConfig does not support sandbox, modle"),
        ({"model": object()}, TypeError, "the server asks the model"),
        ({"model_provider": object()}, TypeError, "providers are configured at the server"),
        ({"tracing": {"api_key": "sk-1"}}, UserError, "a stored configuration holds no secret"),
        ({"tracing": {"exporter": 1}}, TypeError, "TracingConfig does not support exporter"),
        ({"trace_metadata": {"seen": {1}}}, TypeError, "trace_metadata['seen'] must be a text or what JSON can say"),
        ({"trace_metadata": {1: "x"}}, TypeError, "trace_metadata: the name of a label must be a text, not 1"),
        ({"trace_id": "t"}, UserError, 'trace_id must be "trace_" and 32 hex digits'),
        ({"output_guardrails": [len]}, TypeError, "no output guardrail"),
        ({"session_input_callback": 1}, TypeError, "session_input_callback must be a function or a RemoteHook, not 1"),
        ({"handoff_input_filter": 1}, TypeError, "handoff_input_filter must be a function or a RemoteHook, not 1"),
        ({"call_model_input_filter": [KeepLast(1)] * 9}, ValueError, "at most 8 filters, not 9"),
        ({"tool_error_formatter": {"timeout": "x"}}, UserError, "not 'timeout': 'x'"),
        ({"tool_not_found_behavior": "ignore"}, UserError, "'raise_error', 'return_error_to_model', not 'ignore'"),
        ({"tool_execution": {"max_function_tool_concurrency": 0}}, UserError, "must be at least 1, not 0"),
        ({"session_settings": {"limit": -1}}, UserError, "limit must be at least 0, not -1"),
        ({"output_guardrail_blocked_message": ""}, UserError, "a text that is not empty"),
        ({"nest_handoff_history": "yes"}, TypeError, "nest_handoff_history must be True, False or None, not 'yes'"),
    ],
)
def test_mistakes_are_named_where_they_are_written(wrong: Any, error: type[Exception], says: str) -> None:
    """With the value, and what would be right."""
    with pytest.raises(error) as caught:
        read_config(wrong)
    assert says in str(caught.value)


# --- traces and markers -------------------------------------------------------------------------------------


def test_a_run_says_how_it_is_traced() -> None:
    """Its own words win over those of the trace around it."""
    trace_id = f"trace_{'0' * 32}"
    config = RunConfig(
        workflow_name="Mine",
        trace_include_sensitive_data=False,
        tracing={"include_task_and_turn_spans": False},
        trace_metadata={"k": "v", "attempt": 2},
    )

    with trace("Around", trace_id=trace_id, group_id="g", metadata={"x": "y"}):
        made = written(config).tracing

    assert made == run_config_pb2.Tracing(
        workflow_name="Mine",
        trace_id=trace_id,
        group_id="g",
        metadata={"k": "v", "attempt": "2"},
        include_sensitive_data=False,
        include_turn_spans=False,
    )
    assert not written().HasField("tracing")


@pytest.fixture
def markers() -> Iterator[None]:
    """Other markers, which are put back."""
    set_conversation_history_wrappers(start="<<", end=">>")
    yield
    reset_conversation_history_wrappers()


def test_markers_of_folded_conversations_hold_for_the_process(markers: None) -> None:
    """From when they are set to when they are put back."""
    assert written().handoff_history == run_config_pb2.HandoffHistory(start_marker="<<", end_marker=">>")
    assert baton.get_conversation_history_wrappers() == ("<<", ">>")
    set_conversation_history_wrappers(end="//")
    assert baton.get_conversation_history_wrappers() == ("<<", "//")
    reset_conversation_history_wrappers()
    assert not written().HasField("handoff_history")


# --- what is asked of this process --------------------------------------------------------------------------


async def test_a_session_and_new_input_are_joined_by_a_function() -> None:
    """Sync or async."""

    async def newest(history: list[Any], new: list[Any]) -> list[Any]:
        return [*history[-1:], *new]

    payload = {"history": [{"role": "user", "content": "Old"}, USER], "new_input": [USER]}

    assert await ask("session_input", payload, AGENT, RunConfig(session_input_callback=newest)) == {
        "input": [USER, USER]
    }


async def test_a_folded_conversation_may_be_ones_own() -> None:
    """What the function gives is the whole input of the receiver."""
    config = RunConfig(handoff_history_mapper=lambda transcript: [{"role": "user", "content": str(len(transcript))}])

    said = await ask("handoff_history", {"transcript": [USER, USER]}, AGENT, config)
    assert said == {"input": [{"role": "user", "content": "2"}]}


async def test_a_runs_handoff_filter_is_like_an_agents() -> None:
    """Of handoffs that have none."""

    def last(data: HandoffInputData) -> HandoffInputData:
        return data.clone(input_history="All in one text")

    said = await ask("handoff_input_filter", {"input_history": [USER]}, AGENT, RunConfig(handoff_input_filter=last))
    assert said["input_history"] == [{"role": "user", "content": "All in one text"}]


async def test_words_for_failures_are_ones_own() -> None:
    """By kind; None leaves the default sentence."""
    seen: list[ToolErrorFormatterArgs[Any]] = []

    def words(args: ToolErrorFormatterArgs[Any]) -> str | None:
        seen.append(args)
        return f"{args.tool_name}: no" if args.kind == "approval_rejected" else None

    config = RunConfig(tool_error_formatter=words)
    payload = {"tool": "pay", "tool_type": "function", "call_id": "call_1", "default_message": "It failed."}

    said = await ask("tool_error", {**payload, "kind": "approval_rejected", "error": None}, AGENT, config)
    assert said == {"message": "pay: no"}
    error = {"type": "KeyError", "text": "KeyError: 'x'"}
    said = await ask("tool_error", {**payload, "kind": "tool_exception", "error": error}, AGENT, config)
    assert said == {"message": None}
    assert (seen[0].default_message, seen[0].run_context.context, seen[0].error) == ("It failed.", "basket", None)
    assert await ask("tool_error", {**payload, "kind": "timeout", "error": error}, AGENT, config) == {"message": None}
    assert len(seen) == 2  # timeouts are not its business
    assert isinstance(seen[1].error, baton.HandlerCrashedError)
    assert (seen[1].error.metadata["type"], str(seen[1].error)) == ("KeyError", "KeyError: 'x'")


async def test_what_stands_for_a_held_back_output_is_ones_own() -> None:
    """Made of the guardrail's name, not of the output."""

    def words(args: OutputGuardrailBlockedMessageArgs[Any]) -> str:
        assert args.agent is not None
        return f"{args.agent.name}: stopped by {args.guardrail_name}; {args.default_message}"

    config = RunConfig(output_guardrail_blocked_message=words)
    payload = {"guardrail": "no_prices", "tool": "f", "call_id": "call_1"}

    said = await ask("blocked_output", payload, AGENT, config)
    assert said == {"message": "A: stopped by no_prices; Output withheld by an output guardrail."}


# --- error handlers -----------------------------------------------------------------------------------------


class Recipe(BaseModel):
    """An output type."""

    ingredients: list[str]


RUN = {"input": [USER], "new_items": [], "history": [USER], "output": [], "last_agent": "A"}
ERROR = {"reason": "MODEL_BEHAVIOR_ERROR", "message": "no Recipe", "metadata": {"agent": "A"}}


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (None, {"output": None}),
        ("Sorry.", {"output": "Sorry.", "include_in_history": True}),
        (Recipe(ingredients=[]), {"output": {"ingredients": []}, "include_in_history": True}),
        (RunErrorHandlerResult("Sorry.", include_in_history=False), {"output": "Sorry.", "include_in_history": False}),
        ({"final_output": "Sorry.", "include_in_history": False}, {"output": "Sorry.", "include_in_history": False}),
        ({"ingredients": ["egg"]}, {"output": {"ingredients": ["egg"]}, "include_in_history": True}),
    ],
)
async def test_an_error_handler_may_answer_in_many_ways(given: Any, answer: dict[str, Any]) -> None:
    """As the Agents SDK takes it."""
    options = RunOptions(error_handlers={"invalid_final_output": lambda data: given})

    assert await ask("error_handler", {"error": ERROR, "run": RUN}, AGENT, options=options) == answer


async def test_an_error_handler_sees_the_error_and_the_run() -> None:
    """By class, with what the run made."""
    seen: list[RunErrorHandlerInput[Any]] = []

    async def handle(data: RunErrorHandlerInput[Any]) -> None:
        seen.append(data)

    message = {"type": "message", "role": "assistant", "content": []}
    run = {**RUN, "new_items": [message], "output": [message]}
    await ask(
        "error_handler", {"error": ERROR, "run": run}, AGENT, options=RunOptions(error_handlers={"max_turns": handle})
    )

    (data,) = seen
    assert isinstance(data.error, ModelBehaviorError) and str(data.error) == "no Recipe"
    assert (data.context.context, data.run_data.last_agent, data.run_data.history) == ("basket", AGENT, [USER])
    assert [item.raw_item for item in data.run_data.new_items] == [message]


def test_fixed_outputs_are_data() -> None:
    """Nobody is asked; texts, and JSON for agents with an output type."""
    handlers = {
        "max_turns": RunErrorHandlerResult("Too long.", include_in_history=False),
        "model_refusal": RunErrorHandlerResult(Recipe(ingredients=[])),
        "invalid_final_output": None,
    }

    assert written(error_handlers=handlers).error_handlers == run_config_pb2.ErrorHandlers(
        max_turns=run_config_pb2.ErrorHandler(output="Too long.", include_in_history=False),
        model_refusal=run_config_pb2.ErrorHandler(output_json='{"ingredients":[]}', include_in_history=True),
    )


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"timeout": print}, UserError, "there is none for 'timeout'; they are for max_turns, model_refusal"),
        ({"max_turns": "Sorry."}, TypeError, "or a fixed RunErrorHandlerResult, not 'Sorry.'"),
        ([print], TypeError, "a dict of handlers by error"),
    ],
)
def test_mistakes_in_error_handlers_are_named(wrong: Any, error: type[Exception], says: str) -> None:
    """With the value, and what would be right."""
    with pytest.raises(error) as caught:
        written(error_handlers=wrong)
    assert says in str(caught.value)


# --- sessions of the application's own ----------------------------------------------------------------------


class Store:
    """The least that a session has."""

    def __init__(self) -> None:
        self.items: list[Any] = [{"n": 1}, {"n": 2}]

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Give some."""
        return self.items[-limit:] if limit else self.items

    def add_items(self, items: list[Any]) -> None:
        """Keep some, without a coroutine."""
        self.items += items


async def test_a_session_of_ones_own_is_read_and_told() -> None:
    """Any object with get_items and add_items."""
    store = Store()

    def history(ref_of: Any) -> run_config_pb2.History:
        return run_config_pb2.History(stored=run_config_pb2.StoredHistory(store=ref_of(store_use(store))))

    use = store_use(store)
    assert history(lambda one: agent_pb2.HookRef(name=one.name)).stored.store.name == "Store"

    async def say(payload: dict[str, Any]) -> Any:
        kind = HOOK_KINDS["session_store"]
        data = kind.read(FACTS, payload)
        assert use.function is not None
        return json.loads(kind.write("store", await use.function(data)))

    assert await say({"operation": "get", "limit": 1}) == {"items": [{"n": 2}]}
    assert await say({"operation": "add", "items": [{"n": 3}]}) == {}
    assert await say({"operation": "get", "limit": None}) == {"items": [{"n": 1}, {"n": 2}, {"n": 3}]}


FACTS: dict[str, Any] = {"session_id": "s", "turn_id": "t", "agent_name": "A", "round": 1, "context": None}
