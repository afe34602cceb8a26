"""What a run's answer says about its guardrails: each that said something, where it stands, and why."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.api.calling import WEATHER, attach, frame, soon
from tests.api.conftest import Serve, Served
from tests.support.scripted_model import calls, say

from baton.v1 import agent_pb2, event_pb2
from baton.v1 import runner_pb2 as runner

KYOTO = ("get_weather", '{"city":"Kyoto"}')
PASSED, TRIPPED, REJECTED = "PASSED", "TRIPPED", "CONTENT_REJECTED"


def deny(name: str, *terms: str, **more: Any) -> dict[str, Any]:
    """Make a guardrail that is against some words."""
    return {"name": name, "deny": {"terms": terms}, **more}


def agent(*, tool: Any = None, **fields: Any) -> agent_pb2.Agent:
    """Make an agent with guardrails, perhaps of a function."""
    tools = [{"function": {"name": "get_weather", "parameters_json": WEATHER, **tool}}] if tool is not None else []
    return agent_pb2.Agent(name="Helper", tools=tools, **fields)


def told(answer: runner.RunResponse) -> list[tuple[str, str, str]]:
    """Say shortly what guardrails said: name, stage, verdict."""
    return [
        (
            one.name,
            event_pb2.GuardrailStage.Name(one.stage).removeprefix("GUARDRAIL_STAGE_"),
            event_pb2.GuardrailVerdict.Name(one.verdict).removeprefix("GUARDRAIL_VERDICT_"),
        )
        for one in answer.guardrail_results
    ]


async def hooks(served: Served, *kinds: str) -> Any:
    """Attach a worker by hand that hosts a hook `judge` of some kinds."""
    worker = served.client.handlers.Connect()
    handlers = [{"name": "judge", "kind": event_pb2.HandlerKind.Value(f"HANDLER_KIND_{kind}")} for kind in kinds]
    await worker.write(frame(hello={"handlers": handlers}))
    assert (await soon(worker.read())).HasField("welcome")
    return worker


async def answer_next(worker: Any, **answer: Any) -> None:
    """Answer the one hook of the next batch."""
    while not (message := await soon(worker.read())).HasField("hook_batch"):
        pass
    (hook,) = message.hook_batch.hooks
    given = {"hook_id": hook.hook_id, "attempt": hook.attempt, "answer_json": json.dumps(answer)}
    await worker.write(frame(hook_answers={"batch_id": message.hook_batch.batch_id, "answers": [given]}))


async def test_a_run_without_guardrails_tells_of_none(serve: Serve) -> None:
    """As most do."""
    served = await serve(say("Hello."))

    assert told(await served.client.run()) == []


async def test_guardrails_that_let_pass_are_told(serve: Serve) -> None:
    """The agent's and the run's, of what came in and what comes out, though their terms leave no trace in the log."""
    served = await serve(say("Hello."))
    guarded = agent(input_guardrails=[deny("no swords", "sword")], output_guardrails=[deny("no prices", "EUR")])
    of_run = {"input_guardrails": [deny("no knives", "knife")], "output_guardrails": [deny("no names", "Smith")]}

    answer = await served.client.run(agent=guarded, run_config=of_run)

    assert told(answer) == [
        ("no swords", "INPUT", PASSED),
        ("no knives", "INPUT", PASSED),
        ("no prices", "OUTPUT", PASSED),
        ("no names", "OUTPUT", PASSED),
    ]
    assert {one.agent for one in answer.guardrail_results} == {"Helper"}


async def test_the_guardrail_that_ended_the_turn_is_told(serve: Serve) -> None:
    """Once, with what it said."""
    served = await serve(say("It is 5 EUR."))
    guarded = agent(input_guardrails=[deny("no swords", "sword")], output_guardrails=[deny("no prices", "EUR")])

    over_output = await served.client.run(agent=guarded)
    over_input = await served.client.run(agent=guarded, text="a Sword!")

    assert told(over_output) == [("no swords", "INPUT", PASSED), ("no prices", "OUTPUT", TRIPPED)]
    assert told(over_input) == [("no swords", "INPUT", TRIPPED)]


async def test_guardrails_of_functions_are_told_with_their_call(serve: Serve) -> None:
    """Of its arguments and of its output: what let pass, and what put words in place of the output."""
    served = await serve(calls(KYOTO, ("get_weather", '{"city":"Mordor"}')), say("Done."))
    tool = {
        "input_guardrails": [deny("places", "mordor", message="Not there.")],
        "output_guardrails": [deny("secrets", "secret", message="Held back.")],
    }
    worker = await attach(served.client, "get_weather")
    running = asyncio.ensure_future(served.client.run(agent=agent(tool=tool)))

    while not (message := await soon(worker.read())).HasField("call"):
        pass
    call = message.call
    await worker.write(frame(result={"call_id": call.call_id, "attempt": call.attempt, "output": "a secret"}))
    answer = await soon(running)

    assert sorted(told(answer)) == [
        ("places", "TOOL_INPUT", REJECTED),
        ("places", "TOOL_INPUT", PASSED),
        ("secrets", "TOOL_OUTPUT", REJECTED),
    ]
    ids = {one.call_id for one in answer.guardrail_results}
    assert ids == {item.function_call.call_id for item in answer.new_items if item.HasField("function_call")}


async def test_what_programs_say_is_told_with_their_reasons(serve: Serve) -> None:
    """By the guardrail's name, and not by that of its handler."""
    served = await serve(calls(KYOTO), say("Done."))
    worker = await hooks(served, "INPUT_GUARDRAIL", "TOOL_INPUT_GUARDRAIL")
    judge = {"hook": {"name": "judge"}}
    tool = {"input_guardrails": [{"name": "places", **judge}]}
    guarded = agent(
        tool=tool, input_guardrails=[deny("no swords", "sword"), {"name": "tone", "blocking": True, **judge}]
    )
    running = asyncio.ensure_future(served.client.run(agent=guarded))

    await answer_next(worker, tripped=False, info={"tone": "good"})
    await answer_next(worker, verdict="reject", message="Not there.", info="far")
    answer = await soon(running)

    assert told(answer) == [
        ("no swords", "INPUT", PASSED),
        ("tone", "INPUT", PASSED),
        ("places", "TOOL_INPUT", REJECTED),
    ]
    infos = [json.loads(one.info_json) for one in answer.guardrail_results if one.info_json]
    assert infos == [{"tone": "good"}, "far"]
