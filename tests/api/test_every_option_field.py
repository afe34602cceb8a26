"""Every field about how a model is asked and how a run remembers is sent once and seen to work."""

import json
from typing import Any

from tests.api.calling import WEATHER, helper, told
from tests.api.conftest import Serve
from tests.api.programs import programs
from tests.api.sending import sends
from tests.support.scripted_model import Reply, calls, fail, say

from baton.v1 import agent_pb2
from baton.v1 import session_pb2 as pb
from baton_server.core.errors import Reason

KYOTO = ("get_weather", '{"city":"Kyoto"}')
SECOND: Any = {"seconds": 1}
REFUSAL = Reply(
    items=({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I can't."}]},)
)


@sends("""
    ModelSettings: frequency_penalty presence_penalty prompt_cache_retention include_usage response_include
    ModelSettings: top_logprobs extra_query extra_body_json extra_headers extra_args_json
    ModelSettings: context_management_json prompt_cache_options_json preserve_raw_usage timeout
    RunConfig: model_provider
""")
async def test_a_model_is_asked_as_the_settings_say(noting: Serve) -> None:
    """Each setting comes to the model's adapter as it was given, the run's over the agent's."""
    served = await noting(say("ok"))
    said: dict[str, Any] = {
        "frequency_penalty": -1.0,
        "presence_penalty": 1.0,
        "prompt_cache_retention": "24h",
        "include_usage": False,
        "top_logprobs": 3,
        "extra_query": {"api-version": "1"},
        "extra_body_json": '{"service_tier":"flex"}',
        "extra_headers": {"X-Team": "a"},
        "context_management_json": "[]",
        "prompt_cache_options_json": "{}",
        "preserve_raw_usage": True,
    }
    agent = helper(
        model_settings={**said, "response_include": ["a"], "timeout": SECOND, "extra_args_json": '{"a":1,"b":1.0}'}
    )
    over = {"response_include": ["b"], "extra_args_json": '{"b":2.50}'}

    await served.client.run(agent=agent, run_config={"model_settings": over, "model_provider": "elsewhere"})

    (asked,) = served.model.requests
    found = {name: getattr(asked.settings, name) for name in said}
    assert found == said
    assert (asked.settings.response_include, asked.settings.timeout_s) == (("b",), 1.0)
    assert asked.settings.extra_args_json == '{"a":1,"b":2.50}'
    assert asked.provider == "elsewhere"


@sends("""
    ModelSettings: retry
    RetrySettings: max_retries initial_delay max_delay multiplier jitter rule
    RetryRule: provider_suggested network_error retry_after http_status any all hook
    RetryRules: rules
    HttpStatuses: codes
""")
async def test_a_failed_request_is_made_again_as_the_rule_says(noting: Serve) -> None:
    """Where no other rule fits, a program is asked; and no more often than is allowed."""
    served = await noting(*[fail(Reason.MODEL_UNAVAILABLE)] * 3, say("never"))
    flat: list[Any] = [
        {"provider_suggested": True},
        {"network_error": True},
        {"retry_after": True},
        {"http_status": {"codes": [503]}},
    ]
    rule = {"any": {"rules": [*flat, {"all": {"rules": flat[:2]}}, {"hook": {"name": "again"}}]}}
    retry = {
        "max_retries": 2,
        "initial_delay": {},
        "max_delay": SECOND,
        "multiplier": 1.0,
        "jitter": False,
        "rule": rule,
    }
    hooks = {"MODEL_RETRY:again": lambda _asked: {"retry": True}}

    async with programs(served.client, hooks=hooks) as application:
        answer = await served.client.run(agent=helper(model_settings={"retry": retry}))

    failed = told(await served.client.events(answer.session_id), "model_attempt_failed")
    assert len(served.model.requests) == 3
    assert [one.model_attempt for one in failed][:2] == [1, 2]
    assert [one["model_attempt"] for one in application.asked["again"]][:2] == [1, 2]
    assert answer.turn.error.message
    assert answer.turn.output == ""


@sends("""
    History: conversation response stored session
    ConversationHistory: id
    ResponseHistory: previous_id auto
    StoredHistory: store limit
    SessionHistory: limit
""")
async def test_a_run_remembers_as_it_says(noting: Serve) -> None:
    """By the model's API, by a store of the caller's own, or by the newest of the session's items."""
    weather = [{"function": {"name": "get_weather", "parameters_json": WEATHER}}]
    agent = agent_pb2.Agent(name="Helper", tools=weather)
    served = await noting(lambda request: calls(KYOTO) if request.round == 1 else say("ok"))
    kept = [{"role": "user", "content": text} for text in ("first", "second")]
    added: list[Any] = []

    def store(asked: Any) -> Any:
        if asked["operation"] == "get":
            return {"items": kept[-asked["limit"] :]}
        added.extend(asked["items"])
        return {}

    async def asked(**history: Any) -> list[Any]:
        before = len(served.model.requests)
        await served.client.run(agent=agent, run_config={"history": history})
        return served.model.requests[before:]

    functions = {"get_weather": lambda _given: "18"}
    async with programs(served.client, functions=functions, hooks={"SESSION_STORE:mine": store}):
        conversation = await asked(conversation={"id": "conv_1"})
        chain = await asked(response={"previous_id": "resp_0", "auto": True})
        stored = await asked(stored={"store": {"name": "mine"}, "limit": 1})
        session = await served.client.session(agent=agent)
        await served.client.run(session_id=session.session_id)
        limited = len(served.model.requests)
        await served.client.run(session_id=session.session_id, run_config={"history": {"session": {"limit": 1}}})

    assert [one.conversation_id for one in conversation] == ["conv_1"] * 2
    assert [len(one.items) for one in conversation] == [1, 1]
    assert [one.previous_response_id for one in chain] == ["resp_0", "resp_3"]
    assert [json.loads(item)["content"] for item in stored[0].items] == ["second", "hello"]
    assert [item.get("type", "message") for item in added] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert len(served.model.requests[limited].items) == 2


@sends("""
    RunConfig: session_input reasoning_item_ids start_agent
    ErrorHandlers: max_turns model_refusal
    ErrorHandler: hook output
""")
async def test_a_run_begins_and_ends_as_its_options_say(noting: Serve) -> None:
    """With the input that a program makes, at any agent, and with a fallback where it would fail."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    reply = Reply(items=(thought, *calls(KYOTO).items))
    served = await noting(reply, say("ok"), REFUSAL, calls(KYOTO))
    client = served.client
    weather: Any = {"function": {"name": "get_weather", "parameters_json": WEATHER}}
    agent = agent_pb2.Agent(name="Front", agents=[{"name": "Back", "tools": [weather]}])
    handlers = {"max_turns": {"output": "Enough."}, "model_refusal": {"hook": {"name": "excuse"}}}
    config = {"start_agent": "Back", "error_handlers": handlers}
    hooks = {
        "SESSION_INPUT:merge": lambda asked: {"input": [*asked["new_input"], *asked["new_input"]]},
        "ERROR_HANDLER:excuse": lambda asked: {"output": f"It said: {asked['error']['metadata']['refusal']}"},
    }

    async with programs(client, functions={"get_weather": lambda _given: "18"}, hooks=hooks):
        merged = await client.run(
            agent=agent,
            run_config={**config, "session_input": {"name": "merge"}, "reasoning_item_ids": "REASONING_ITEM_IDS_OMIT"},
        )
        refused = await client.run(agent=agent, run_config=config)
        ended = await client.run(agent=agent, run_config={**config, "max_turns": 1})

    assert merged.turn.agent == "Back"
    assert [item["content"] for item in served.model.input_of(0)] == ["hello", "hello"]
    (sent,) = [item for item in served.model.input_of(1) if item.get("type") == "reasoning"]
    assert "id" not in sent
    assert (refused.turn.output, ended.turn.output) == ("It said: I can't.", "Enough.")


@sends("""
    InputFilter: trim_outputs
    TrimOutputs: recent_messages max_chars preview_chars functions
    Tracing: include_sensitive_data trace_id include_turn_spans
""")
async def test_old_outputs_are_shortened_for_the_model_alone(noting: Serve) -> None:
    """Of the functions that are named; what the session keeps is whole. How a turn is traced is pinned with it."""
    served = await noting(lambda request: calls(KYOTO) if request.round == 1 else say("ok"))
    trim = {"recent_messages": 1, "max_chars": 10, "preview_chars": 3, "functions": ["get_weather"]}
    trace_id = f"trace_{'ab' * 16}"
    config = {
        "model_input_filters": [{"trim_outputs": trim}],
        "tracing": {"include_sensitive_data": False, "trace_id": trace_id, "include_turn_spans": False},
    }
    agent = helper("get_weather")

    async with programs(served.client, functions={"get_weather": lambda _given: "rain " * 100}):
        first = await served.client.run(agent=agent, session_key="user-7", run_config=config)
        await served.client.run(agent=agent, session_key="user-7", run_config=config)

    recent, old = (
        next(item["output"] for item in served.model.input_of(n) if item.get("type") == "function_call_output")
        for n in (1, 2)
    )
    assert recent == "rain " * 100
    assert len(old) < 200
    assert "rai" in old
    items = await served.client.items(first.session_id, history_only=True)
    assert "rain rain" in str(items)
    request = pb.GetTurnRequest(session_id=first.session_id, turn_id=first.turn.turn_id, with_pinned=True)
    tracing = (await served.client.sessions.GetTurn(request)).run_config.tracing
    assert (tracing.trace_id, tracing.include_turn_spans, tracing.include_sensitive_data) == (trace_id, False, False)
