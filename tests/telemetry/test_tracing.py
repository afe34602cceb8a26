"""How the spans of a turn hang together, of turns that a server runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from opentelemetry.trace import StatusCode
from tests.support.scripted_model import calls, say
from tests.support.stage import ANY_OBJECT, Stage
from tests.telemetry.exported import ended, facts, named, run, tree

from baton.v1 import event_pb2


async def test_spans_hang_together_as_the_turn_went(stage: Stage) -> None:
    """Task, agent, rounds; in each round its reply and what that called."""
    worker = await stage.worker("f", "g")
    turn = await stage.turn([("f", '{"n":1}'), ("g", "{}")], [("f", '{"n":2}')])
    for call in await worker.expect_all("call", 2):
        await worker.finish(call)
    await worker.finish(await worker.expect("call"))
    await turn.completed()

    assert tree() == [
        "Agent workflow",
        "  invoke_agent Helper",
        "    round 1",
        "      chat scripted",
        "      execute_tool f",
        "      execute_tool g",
        "    round 2",
        "      chat scripted",
        "      execute_tool f",
        "    round 3",
        "      chat scripted",
    ]


async def test_a_handoff_is_a_span_and_begins_the_next_agent(tmp_path: Path) -> None:
    """The agents follow one another under the task, each with what it can do."""
    agent = {
        "name": "Triage",
        "handoffs": [{"agent": "Billing"}],
        "agents": [{"name": "Billing", "tools": [{"function": {"name": "pay", "parameters_json": ANY_OBJECT}}]}],
    }
    await run(tmp_path, calls(("transfer_to_billing", "{}")), say("Done."), agent=agent)

    assert tree() == [
        "Agent workflow",
        "  invoke_agent Triage",
        "    round 1",
        "      chat scripted",
        "      handoff Billing",
        "  invoke_agent Billing",
        "    round 2",
        "      chat scripted",
    ]
    handoff = facts(named("handoff Billing"))
    assert (handoff["baton.handoff.from"], handoff["baton.handoff.to"]) == ("Triage", "Billing")
    assert facts(named("invoke_agent Triage"))["baton.agent.handoffs"] == ("Billing",)
    assert facts(named("invoke_agent Billing"))["baton.agent.tools"] == ("pay",)


async def test_a_nested_run_is_under_the_call_that_it_is_for(tmp_path: Path) -> None:
    """Its agent and its rounds, which count by themselves."""
    agent = {
        "name": "Chief",
        "tools": [{"agent": {"tool_name": "research", "agent": "Scout"}}],
        "agents": [{"name": "Scout"}],
    }
    await run(tmp_path, calls(("research", '{"input":"look"}')), say("Found."), say("Done."), agent=agent)

    assert tree() == [
        "Agent workflow",
        "  invoke_agent Chief",
        "    round 1",
        "      chat scripted",
        "      execute_tool research",
        "        invoke_agent Scout",
        "          round 1",
        "            chat scripted",
        "    round 2",
        "      chat scripted",
    ]
    assert facts(named("execute_tool research"))["gen_ai.tool.call.result"] == "Found."


async def test_guardrails_are_under_what_they_judge(stage: Stage) -> None:
    """Of input and output under the agent, of a function under its call; each says whether it struck."""
    kinds_ = ("INPUT_GUARDRAIL", "OUTPUT_GUARDRAIL", "TOOL_INPUT_GUARDRAIL")
    handlers: list[dict[str, Any]] = [
        {"name": kind.lower(), "kind": event_pb2.HandlerKind.Value(f"HANDLER_KIND_{kind}")} for kind in kinds_
    ]
    worker = await stage.worker(handlers=handlers)
    function = {
        "name": "f",
        "parameters_json": ANY_OBJECT,
        "input_guardrails": [{"name": "arguments", "hook": {"name": "tool_input_guardrail"}}],
    }
    turn = await stage.turn(
        [("f", "{}")],
        tools=[{"function": function}],
        input_guardrails=[{"name": "asked", "hook": {"name": "input_guardrail"}}],
        output_guardrails=[{"name": "said", "hook": {"name": "output_guardrail"}}],
    )
    reject = '{"verdict":"reject","message":"no","info":{"why":"a secret"}}'
    for answer in ('{"tripped":false}', reject, '{"tripped":false}'):
        (hook,) = (await worker.expect("hook_batch")).hooks
        answers = [{"hook_id": hook.hook_id, "attempt": 1, "answer_json": answer}]
        await worker.send(hook_answers={"batch_id": "b", "answers": answers})
    await turn.completed()

    assert tree() == [
        "Agent workflow",
        "  invoke_agent Helper",
        "    guardrail asked",
        "    round 1",
        "      chat scripted",
        "      execute_tool f",
        "        guardrail arguments",
        "    round 2",
        "      chat scripted",
        "    guardrail said",
    ]
    struck = {span.name: facts(span).get("baton.guardrail.triggered") for span in ended() if "guardrail" in span.name}
    assert struck == {"guardrail asked": False, "guardrail arguments": True, "guardrail said": False}
    assert facts(named("guardrail arguments"))["baton.guardrail.info"] == '{"why":"a secret"}'


async def test_a_list_of_terms_is_a_span_when_it_strikes(tmp_path: Path) -> None:
    """Nobody is asked about it, so it takes no time; the turn's error is on what failed by it."""
    agent = {"name": "Helper", "input_guardrails": [{"name": "no secrets", "deny": {"terms": ["secret"]}}]}
    await run(tmp_path, agent=agent)

    assert tree() == ["Agent workflow", "  invoke_agent Helper", "    guardrail no secrets"]
    assert facts(named("guardrail no secrets"))["baton.guardrail.triggered"] is True
    assert named("Agent workflow").status.status_code is StatusCode.ERROR


async def test_without_turn_spans_agents_are_outermost(stage: Stage) -> None:
    """No span of the task or of a round; what would be under a round is under its agent."""
    worker = await stage.worker("f")
    text, agent = stage.script([("f", "{}")])
    tracing = {"include_turn_spans": False, "group_id": "thread_1"}
    running = asyncio.ensure_future(stage.client.run(agent=agent, text=text, run_config={"tracing": tracing}))
    await worker.finish(await worker.expect("call"))
    await running

    assert tree() == ["invoke_agent Helper", "  chat scripted", "  execute_tool f", "  chat scripted"]
    assert facts(named("invoke_agent Helper"))["baton.group_id"] == "thread_1"
