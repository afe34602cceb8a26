"""Every field about what an agent may call, and about decisions, is sent once and seen to work."""

import json
from typing import Any

from tests.api.calling import AT_ONCE, WEATHER, Client, everything, parts_in, streamed_request, told
from tests.api.conftest import Serve
from tests.api.programs import programs
from tests.api.sending import sends
from tests.support.scripted_model import Reply, calls, say

from baton.v1 import agent_pb2, error_pb2, event_pb2, item_pb2, runner_pb2
from baton.v1 import session_pb2 as pb

KYOTO, NARA = ("get_weather", '{"city":"Kyoto"}'), ("get_weather", '{"city":"Nara"}')
APPROVE, REJECT = event_pb2.VERDICT_APPROVE, event_pb2.VERDICT_REJECT


def helper(**function: Any) -> agent_pb2.Agent:
    """Make an agent with one function of a city."""
    return agent_pb2.Agent(
        name="Helper", tools=[{"function": {"name": "get_weather", "parameters_json": WEATHER, **function}}]
    )


def outputs(answer: runner_pb2.RunResponse) -> list[str]:
    """Say what the model was told of each call."""
    made = (item.function_call_output for item in answer.new_items if item.HasField("function_call_output"))
    return [one.output[0].text for one in made]


def why(answer: runner_pb2.RunResponse) -> str:
    """Say why a turn failed; empty: it did not."""
    return error_pb2.ErrorReason.Name(answer.turn.error.reason).removeprefix("ERROR_REASON_").replace("UNSPECIFIED", "")


async def decide(client: Client, action: event_pb2.RequiredAction, **decision: Any) -> None:
    """Decide about a call."""
    about = {"turn_id": action.turn_id, "call_id": action.call_id, **decision}
    await client.submit(action.session_id, {"decision": about})


# -- what an agent has ---------------------------------------------------------------------------


@sends("""
    Tool: hosted tool_search
    HostedTool: tool_json
    FunctionTool: defer_loading enabled
""")
async def test_an_agent_has_the_tools_that_it_says(noting: Serve) -> None:
    """Some run at the provider, some are found by its search, some are not there at the moment."""
    served = await noting(say("ok"))
    there = {"name": "there", "parameters_json": WEATHER, "enabled": {"hook": {"name": "look"}}}
    tools: list[Any] = [
        {"function": {"name": "get_weather", "parameters_json": WEATHER, "defer_loading": True}},
        {"function": there},
        {"function": {"name": "gone", "parameters_json": WEATHER, "enabled": {"always": False}}},
        {"hosted": {"tool_json": '{"type":"web_search"}'}},
        {"tool_search": {}},
    ]

    async with programs(
        served.client, hooks={"TOOL_ENABLED:look": lambda asked: {"enabled": asked["tool"] == "there"}}
    ):
        await served.client.run(agent=agent_pb2.Agent(name="Helper", tools=tools))

    found = served.model.requests[0].tools
    assert [getattr(tool, "name", type(tool).__name__) for tool in found] == [
        "get_weather",
        "there",
        "HostedTool",
        "ToolSearch",
    ]
    assert [getattr(tool, "defer_loading", None) for tool in found[:2]] == [True, False]
    assert getattr(found[2], "tool_json", "") == '{"type":"web_search"}'


# -- what the model is told ----------------------------------------------------------------------


@sends("""
    FunctionTool: on_crash custom_data
    FailureText: text hook fail_turn
""")
async def test_a_crash_is_told_as_the_function_says(noting: Serve) -> None:
    """By a text, by a program, or by the turn's end; and what an application keeps beside an output is no model's."""
    rounds = [calls(KYOTO), say("ok")]
    served = await noting(*rounds, *rounds, calls(KYOTO), *rounds)
    hooks = {
        "TOOL_ERROR:explain": lambda asked: {"message": f"{asked['kind']} in {asked['tool']}"},
        "CUSTOM_DATA:keep": lambda asked: {"custom_data": {"row": 7, "of": asked["output"]}},
    }
    broken = {"get_weather": lambda _given: str(1 // 0)}
    async with programs(served.client, functions=broken, hooks=hooks):
        told_texts = [
            outputs(await served.client.run(agent=helper(on_crash=words)))
            for words in ({"text": "It broke."}, {"hook": {"name": "explain"}})
        ]
        failed = await served.client.run(agent=helper(on_crash={"fail_turn": True}))
    async with programs(served.client, functions={"get_weather": lambda _given: "18"}, hooks=hooks):
        kept = await served.client.run(agent=helper(custom_data={"name": "keep"}))

    assert told_texts == [["It broke."], ["tool_exception in get_weather"]]
    assert why(failed) == "TOOL_FAILED"
    (output,) = [item.function_call_output for item in kept.new_items if item.HasField("function_call_output")]
    assert json.loads(output.custom_data_json) == {"row": 7, "of": "18"}
    assert "row" not in str(served.model.input_of(6))


@sends("""
    FunctionTool: input_guardrails output_guardrails
    ToolGuardrail: name hook deny allow message
""")
async def test_arguments_and_outputs_are_checked(noting: Serve) -> None:
    """Terms put a text in place of the output, or end the turn; a program says itself what follows."""
    served = await noting(calls(KYOTO), say("ok"), calls(KYOTO), calls(KYOTO), say("ok"))
    kyoto = {"name": "no Kyoto", "deny": {"terms": ["kyoto"]}, "message": "Not there."}
    warm = {"name": "warm", "allow": {"terms": ["warm"]}}
    asks = {"name": "asks", "hook": {"name": "judge"}}
    hooks = {"TOOL_OUTPUT_GUARDRAIL:judge": lambda _asked: {"verdict": "reject", "message": "Held.", "info": [1]}}

    async with programs(served.client, functions={"get_weather": lambda _given: "cold"}, hooks=hooks) as application:
        denied = await served.client.run(agent=helper(input_guardrails=[kyoto]))
        missing = await served.client.run(agent=helper(output_guardrails=[warm]))
        judged = await served.client.run(agent=helper(output_guardrails=[asks]))

    assert (outputs(denied), outputs(judged), why(missing)) == (
        ["Not there."],
        ["Held."],
        "TOOL_OUTPUT_GUARDRAIL_TRIPPED",
    )
    assert application.asked["judge"][0]["output"] == "cold"
    assert len(application.asked["get_weather"]) == 2
    (said,) = told(await served.client.events(judged.session_id), "guardrail_tripped")
    assert (said.name, said.stage, said.verdict, json.loads(said.info_json)) == (
        "asks",
        event_pb2.GUARDRAIL_STAGE_TOOL_OUTPUT,
        event_pb2.GUARDRAIL_VERDICT_CONTENT_REJECTED,
        [1],
    )


@sends("""
    RunConfig: tool_error_texts tool_not_found tool_execution tool_name_collision
    ToolErrorTexts: hook approval_rejected tool_not_found tool_exception
    ToolExecution: max_function_concurrency guardrails_before_approval
    FunctionTool: needs_approval
    Approval: hook expires
    Decision: always always_in_session arguments_digest definition_digest decided_by message
""")
async def test_failures_are_told_as_the_run_says(noting: Serve) -> None:
    """Of a function that is not there, that crashed, that was not allowed; the words of a rejection win."""
    unknown = ("get_wether", "{}")
    served = await noting(
        calls(unknown), say("ok"), calls(unknown), say("ok"), calls(KYOTO), say("ok"),
        calls(KYOTO), say("ok"), calls(KYOTO), say("ok"), say("never"),
    )  # fmt: skip
    client = served.client
    words = {"approval_rejected": "Refused.", "tool_not_found": "None such.", "tool_exception": "Broken."}
    lenient = {"tool_not_found": "TOOL_NOT_FOUND_TELL_MODEL", "tool_error_texts": words, "unserved_grace": AT_ONCE}
    asked_rule = {"hook": {"name": "ask"}, "expires": {"seconds": 60}}
    hooks = {
        "TOOL_ERROR:explain": lambda asked: {"message": f"{asked['kind']}!"},
        "NEEDS_APPROVAL:ask": lambda asked: {"needs_approval": "Kyoto" in asked["arguments_json"]},
    }
    async with programs(client, functions={"get_weather": lambda _given: str(1 // 0)}, hooks=hooks):
        not_there = await client.run(agent=helper(), run_config=lenient)
        explained = await client.run(
            agent=helper(), run_config={**lenient, "tool_error_texts": {"hook": {"name": "explain"}}}
        )
        broken = await client.run(
            agent=helper(), run_config={**lenient, "tool_execution": {"max_function_concurrency": 1}}
        )
        pauses = []
        for decision in ({}, {"message": "Not today.", "always": True, "decided_by": "ann"}):
            before = {**lenient, "tool_execution": {"guardrails_before_approval": True}}
            paused = await client.run(agent=helper(needs_approval=asked_rule), run_config=before)
            (action,) = paused.required_actions
            seen = {
                "arguments_digest": action.approval.arguments_digest,
                "definition_digest": action.approval.definition_digest,
            }
            await decide(client, action, verdict=REJECT, always_in_session=True, **seen, **decision)
            await client.rest(paused.session_id)
            pauses.append((action, served.model.input_of(len(served.model.requests) - 1)[-1]["output"]))
        twice = agent_pb2.Agent(name="Helper", tools=[*helper().tools, *helper().tools])
        collided = await client.run(agent=twice, run_config={"tool_name_collision": "TOOL_NAME_COLLISION_FAIL_TURN"})

    assert [outputs(one) for one in (not_there, explained, broken)] == [
        ["None such."],
        ["tool_not_found!"],
        ["Broken."],
    ]
    assert [text for _, text in pauses] == ["Refused.", "Not today."]
    assert all(action.HasField("expires_at") for action, _ in pauses)
    assert why(collided) == "USER_ERROR"


@sends("""
    RunConfig: blocked_output_text output_guardrails
    BlockedOutputText: text hook
""")
async def test_an_output_that_is_held_back_is_replaced(noting: Serve) -> None:
    """By a text, or by a program's; what was held back is in no history."""
    served = await noting(calls(KYOTO), calls(KYOTO))
    agent = helper()
    agent.tool_use_behavior.stop_on_first_tool = True
    no_secrets = [{"name": "no secrets", "deny": {"terms": ["secret"]}}]
    hooks = {"BLOCKED_OUTPUT:word": lambda asked: {"message": f"held by {asked['guardrail']}"}}
    kept = []
    async with programs(served.client, functions={"get_weather": lambda _given: "a secret"}, hooks=hooks):
        for words in ({"text": "Held back."}, {"hook": {"name": "word"}}):
            config = {"blocked_output_text": words, "output_guardrails": no_secrets}
            answer = await served.client.run(agent=agent, run_config=config)
            assert why(answer) == "OUTPUT_GUARDRAIL_TRIPPED"
            kept.append(await served.client.items(answer.session_id, history_only=True))

    shown = [_output_of(items) for items in kept]
    assert shown == ["Held back.", "held by no secrets"]
    assert "a secret" not in str(kept)


def _output_of(items: list[item_pb2.Item]) -> str:
    (output,) = [item.function_call_output for item in items if item.HasField("function_call_output")]
    return output.output[0].text


# -- going on, and nested runs -------------------------------------------------------------------


@sends("""
    Input: continues
    ContinueInput: turn_id max_turns unlimited_turns
    RunRequest: continues
    RunStreamedRequest: continues
""")
async def test_a_turn_goes_on_from_an_ended_one(noting: Serve) -> None:
    """By an input, by a run, by a streamed run; with a new limit, or with none."""
    script: list[Reply] = [reply for _ in range(3) for reply in (calls(KYOTO), say("Warm."))]
    served = await noting(*script)
    client = served.client
    ended = []
    async with programs(client, functions={"get_weather": lambda _given: "18"}):
        for _ in range(3):
            ended.append(await client.run(agent=helper(), run_config={"max_turns": 1}))
            about = {"turn_id": ended[-1].turn.turn_id}
            of = {"session_id": ended[-1].session_id}
            if len(ended) == 1:
                await client.submit(of["session_id"], {"continues": {**about, "max_turns": 2}})
                await client.rest(of["session_id"])
            elif len(ended) == 2:
                request = runner_pb2.RunRequest(request_id="go-on", continues={**about, "unlimited_turns": True}, **of)
                await client.runner.Run(request)
            else:
                streamed = runner_pb2.RunStreamedRequest(request_id="go-on", continues={**about, "max_turns": 3}, **of)
                await everything(client.runner.RunStreamed(streamed))
    turns = [
        (await client.sessions.ListTurns(pb.ListTurnsRequest(session_id=one.session_id))).turns[0] for one in ended
    ]

    assert [why(one) for one in ended] == ["MAX_TURNS_EXCEEDED"] * 3
    assert [turn.output for turn in turns] == ["Warm."] * 3
    assert [turn.continues for turn in turns] == [one.turn.turn_id for one in ended]
    assert [turn.max_turns if turn.HasField("max_turns") else None for turn in turns] == [2, None, 3]


@sends("""
    WatchRequest: root_only
    RunStreamedRequest: root_only
""")
async def test_nested_runs_are_left_out(noting: Serve) -> None:
    """Who wants the turn's own run alone is sent no event and no fragment of another."""
    served = await noting(calls(("clerk", '{"input":"look"}')), say("nested"), say("Done."))
    agent = agent_pb2.Agent(name="Helper", tools=[{"agent": {"agent": "Clerk"}}], agents=[{"name": "Clerk"}])
    request = streamed_request(agent=agent)
    request.root_only = True

    streamed = await everything(served.client.runner.RunStreamed(request))
    session_id = streamed[0].started.session_id
    whole = await served.client.rest(session_id)
    own = await served.client.rest(session_id, root_only=True)

    parts = parts_in(streamed)
    assert any(event.run_path for event in whole)
    assert [event.sequence for event in own] == [event.sequence for event in whole if not event.run_path]
    assert not any(part.event.run_path or part.delta.run_path or part.reset.run_path for part in parts)
    assert "nested" not in "".join(part.delta.output_text for part in parts)
