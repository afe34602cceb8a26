"""Every field about hooks and about how functions are executed is sent once and seen to work."""

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any

from tests.api.calling import WEATHER, frame, helper, kinds, soon, text_of, told
from tests.api.conftest import Serve, Served
from tests.api.sending import sends
from tests.support.scripted_model import calls, say

from baton.v1 import agent_pb2, error_pb2, event_pb2, handler_pb2, item_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')
GUARDRAIL, FILTER, LISTENER, CHECK = (
    event_pb2.HANDLER_KIND_INPUT_GUARDRAIL,
    event_pb2.HANDLER_KIND_MODEL_INPUT_FILTER,
    event_pb2.HANDLER_KIND_LIFECYCLE,
    event_pb2.HANDLER_KIND_EFFECT_CHECK,
)
PASSES = '{"tripped":false}'


class Worker:
    """A worker by hand that hosts hooks and functions."""

    def __init__(self, served: Served) -> None:
        self._call = served.client.handlers.Connect()

    async def attach(self, handlers: Iterable[dict[str, Any]], **hello: Any) -> None:
        """Say Hello, with credit for many calls."""
        await self.write(hello={"handlers": list(handlers), "credit": {"messages": 100}, **hello})
        await self.read("welcome")

    async def write(self, **arm: Any) -> None:
        """Send a frame."""
        await self._call.write(frame(**arm))

    async def read(self, arm: str) -> Any:
        """Read up to the next frame of a kind."""
        while True:
            message = await soon(self._call.read())
            assert isinstance(message, handler_pb2.ConnectResponse), message
            if message.WhichOneof("frame") == arm:
                return getattr(message, arm)

    async def answer(self, batch: Any, *outcomes: dict[str, Any]) -> None:
        """Answer the hooks of a batch, in order."""
        answers = [
            {"hook_id": hook.hook_id, "attempt": hook.attempt, **outcome}
            for hook, outcome in zip(batch.hooks, outcomes, strict=True)
        ]
        await self.write(hook_answers={"batch_id": batch.batch_id, "answers": answers})


def hook(name: str, kind: int) -> dict[str, Any]:
    """Declare a hook."""
    return {"name": name, "kind": kind}


@sends("""
    Agent: input_guardrails
    RunConfig: input_guardrails
    Guardrail: name hook blocking
    HookRef: name timeout
    Hello: max_hook_batches
    HandlerSpec: kind
    ConnectRequest: hook_answers
    HookAnswers: batch_id answers
    HookAnswer: hook_id attempt answer_json
""")
async def test_guardrails_are_asked_as_they_say(noting: Serve) -> None:
    """The agent's and the run's in one batch, each by its handler and until its time; one that trips ends the turn."""
    served = await noting(say("never"))
    worker = Worker(served)
    await worker.attach([hook("pii", GUARDRAIL), hook("tone", GUARDRAIL)], max_hook_batches=1)
    of_agent = {"name": "no PII", "hook": {"name": "pii", "timeout": {"seconds": 600}}, "blocking": True}
    of_run = {"name": "good tone", "hook": {"name": "tone"}, "blocking": True}
    running = asyncio.ensure_future(
        served.client.run(agent=helper(input_guardrails=[of_agent]), run_config={"input_guardrails": [of_run]})
    )
    batch = await worker.read("hook_batch")
    await worker.answer(batch, {"answer_json": PASSES}, {"answer_json": '{"tripped":true,"info":{"rude":1}}'})

    answer = await running

    assert [(one.name, one.kind) for one in batch.hooks] == [("pii", GUARDRAIL), ("tone", GUARDRAIL)]
    assert batch.hooks[0].deadline.ToSeconds() > time.time() + 500 > batch.hooks[1].deadline.ToSeconds()
    assert "hello" in batch.shared_payload_json
    assert answer.turn.error.reason == error_pb2.ERROR_REASON_INPUT_GUARDRAIL_TRIPPED
    assert answer.turn.error.metadata == {"guardrail": "good tone"}
    tripped = told(await served.client.events(answer.session_id), "guardrail_tripped")
    assert [(one.name, json.loads(one.info_json)) for one in tripped] == [("good tone", {"rude": 1})]
    assert served.model.requests == []


@sends("""
    RunConfig: model_input_filters lifecycle_hooks
    InputFilter: hook
    LifecycleHook: hook moments
""")
async def test_filters_and_listeners_get_what_they_are_for(noting: Serve) -> None:
    """A filter changes what the model is asked; a listener is told of its moments alone, and owes nothing."""
    served = await noting(say("ok"))
    worker = Worker(served)
    await worker.attach([hook("trim", FILTER), hook("audit", LISTENER)])
    moments = [agent_pb2.LIFECYCLE_MOMENT_MODEL_END, agent_pb2.LIFECYCLE_MOMENT_AGENT_END]
    config = {
        "model_input_filters": [{"hook": {"name": "trim"}}],
        "lifecycle_hooks": [{"hook": {"name": "audit"}, "moments": moments}],
    }
    running = asyncio.ensure_future(served.client.run(agent=helper(instructions="Help."), run_config=config))
    batch = await worker.read("hook_batch")
    asked = json.loads(batch.hooks[0].payload_json)
    changed = {"instructions": "Be brief.", "input": [{"role": "user", "content": "changed"}]}
    await worker.answer(batch, {"answer_json": json.dumps(changed)})

    answer = await running
    heard = [await worker.read("hook_batch") for _ in moments]

    assert (asked["instructions"], asked["input"][0]["content"]) == ("Help.", "hello")
    assert served.model.requests[0].instructions == "Be brief."
    assert served.model.input_of(0) == changed["input"]
    assert answer.turn.output == "ok"
    assert [json.loads(one.hooks[0].payload_json)["moment"] for one in heard] == ["model_end", "agent_end"]
    assert all(one.hooks[0].notification and not one.hooks[0].HasField("deadline") for one in heard)


@sends("""
    HookAnswer: crash failure
    Crash: type text
""")
async def test_a_hook_may_fail_by_every_field(noting: Serve) -> None:
    """What it said on purpose, and what it did not expect, each end the turn that hangs on it."""
    served = await noting(lambda _: say("never"))
    worker = Worker(served)
    await worker.attach([hook("pii", GUARDRAIL)])
    guarded = helper(input_guardrails=[{"name": "no PII", "hook": {"name": "pii"}, "blocking": True}])
    outcomes: list[dict[str, Any]] = [{"failure": "list away"}, {"crash": {"type": "KeyError", "text": "stack"}}]
    errors = []
    for outcome in outcomes:
        running = asyncio.ensure_future(served.client.run(agent=guarded))
        await worker.answer(await worker.read("hook_batch"), outcome)
        errors.append((await running).turn.error)

    assert {error.reason for error in errors} == {error_pb2.ERROR_REASON_HOOK_RAISED}
    assert [error.metadata.get("type") for error in errors] == [None, "KeyError"]
    assert ["list away" in errors[0].message, "stack" in errors[1].message] == [True, True]


@sends("""
    FunctionTool: execution on_timeout handler_version
    Execution: timeout expires lost_worker max_attempts idempotency_fields
    FailureText: text fail_turn
""")
async def test_a_function_is_executed_as_its_agent_says(noting: Serve) -> None:
    """Over what its handler says; what happens at its timeout is the agent's to say, function by function."""
    served = await noting(lambda _: calls(KYOTO, KYOTO, ("strict", '{"city":"Kyoto"}')))
    worker = Worker(served)
    old, new = ({"name": "get_weather", "version": version, "parameters_json": WEATHER} for version in ("1", "2"))
    await worker.attach([old, new, {"name": "strict", "parameters_json": WEATHER}])
    execution = {
        "timeout": {"seconds": 600},
        "expires": {"seconds": 3600},
        "lost_worker": agent_pb2.LOST_WORKER_ASK,
        "max_attempts": 7,
        "idempotency_fields": ["/city"],
    }
    mild = {"name": "get_weather", "parameters_json": WEATHER, "execution": execution, "handler_version": "1"}
    hard = {"name": "strict", "execution": {"timeout": {"nanos": 1_000_000}}, "on_timeout": {"fail_turn": True}}
    tools = [{"function": {**mild, "on_timeout": {"text": "too slow"}}}, {"function": hard}]
    made = await served.client.session(agent=agent_pb2.Agent(name="Helper", tools=tools))
    turn_id = (await served.client.submit(made.session_id, "hi")).turn_id
    by_name = {call.name: call for call in [await worker.read("call") for _ in range(2)]}
    actions = (await served.client.get(made.session_id)).required_actions
    await worker.write(call_ack={"call_id": by_name["strict"].call_id, "attempt": 1})

    events = await served.client.rest(made.session_id)
    request = pb.GetTurnRequest(session_id=made.session_id, turn_id=turn_id, with_pinned=True)
    pinned = (await served.client.sessions.GetTurn(request)).agent.tools[0].function

    call = by_name["get_weather"]
    assert pinned.execution == agent_pb2.Execution(**execution)
    assert (pinned.on_timeout.text, pinned.handler_version) == ("too slow", "1")
    assert (call.version, call.idempotency_key != call.call_id) == ("1", True)
    assert call.deadline.ToSeconds() > time.time() + 500
    assert [action.expires_at.ToSeconds() > time.time() + 3000 for action in actions][:2] == [True, True]
    assert len({action.idempotency_key for action in actions}) == 2  # the equal ones are one in effect
    (failed,) = told(events, "turn_failed")
    assert failed.turn.error.reason == error_pb2.ERROR_REASON_TOOL_TIMEOUT
    assert failed.turn.error.metadata["tool"] == "strict"


@sends("""
    HandlerSpec: kind
    HandlerExecution: side_effects
    Input: redelivery
    Redelivery: turn_id call_id decided_by
""")
async def test_a_call_of_unknown_effect_is_decided_by_every_field(noting: Serve) -> None:
    """Its check does not know, so somebody says that it may run again; the log says who."""
    served = await noting(calls(KYOTO), say("ok"))
    worker = Worker(served)
    once = {"execution": {"side_effects": handler_pb2.SIDE_EFFECTS_ONCE}}
    weather = {"name": "get_weather", "parameters_json": WEATHER, **once}
    await worker.attach([weather, hook("get_weather", CHECK)])
    made = await served.client.session(agent=helper("get_weather"))
    await served.client.submit(made.session_id, "hi")
    call = await worker.read("call")
    await worker.write(nack={"call_id": call.call_id, "attempt": 1})
    batch = await worker.read("hook_batch")
    await worker.answer(batch, {"answer_json": '{"effect":"unknown"}'})
    events = await served.client.rest(made.session_id)
    (action,) = (await served.client.get(made.session_id)).required_actions
    redelivery = {"turn_id": action.turn_id, "call_id": action.call_id, "decided_by": "an operator"}
    await served.client.submit(made.session_id, {"redelivery": redelivery})
    again = await worker.read("call")
    await worker.write(result={"call_id": again.call_id, "attempt": 2, "output": "18"})

    rest = await served.client.rest(made.session_id)

    (asked,) = batch.hooks
    question = json.loads(asked.payload_json)
    assert (asked.kind, asked.name) == (CHECK, "get_weather")
    assert (question["call_id"], question["attempt"]) == (call.call_id, 1)
    assert action.state == event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN
    assert "effect_unknown" in kinds(events)
    assert [one.decided_by for one in told(rest, "effect_decided")] == ["an operator"]
    assert (again.attempt, again.may_have_run) == (2, True)
    (output,) = [item for item in await served.client.items(made.session_id) if item.HasField("function_call_output")]
    assert (text_of(output), output.function_call_output.settlement) == ("18", item_pb2.SETTLEMENT_OUTPUT)
