"""A run that has everything: two agents, a nested run, approvals, guardrails and other hooks; and who serves it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from tests.crash.house import ECHO_PARAMETERS, echo
from tests.crash.raw_clients import Body, RawWatcher, RawWorker, persist

from baton.v1 import agent_pb2, event_pb2, session_pb2, session_pb2_grpc

UNTIL_ASKED = Duration(seconds=30)
FUNCTIONS = ("pay", "look", "echo")

ENDS = ("turn_completed", "turn_failed", "turn_cancelled")


def _hook(name: str) -> agent_pb2.HookRef:
    return agent_pb2.HookRef(name=name, timeout=UNTIL_ASKED)


def _function(name: str, **fields: Any) -> agent_pb2.Tool:
    return agent_pb2.Tool(function=agent_pb2.FunctionTool(name=name, parameters_json=ECHO_PARAMETERS, **fields))


def clerk() -> agent_pb2.Agent:
    """Make the agent that begins: it pays, which must be allowed, asks the aide, and hands over to the closer.

    The aide looks, which a hook says must be allowed; the closer echoes, and its words are checked.
    """
    pay = _function(
        "pay",
        needs_approval=agent_pb2.Approval(always=True),
        input_guardrails=[agent_pb2.ToolGuardrail(name="before pay", hook=_hook("before_pay"))],
        output_guardrails=[agent_pb2.ToolGuardrail(name="after pay", hook=_hook("after_pay"))],
        custom_data=_hook("receipt"),
    )
    aide = agent_pb2.Agent(
        name="aide",
        model="rule:calls=1,name=look,words=2,checked=1",
        tools=[_function("look", needs_approval=agent_pb2.Approval(hook=_hook("may_look")))],
    )
    closer = agent_pb2.Agent(
        name="closer",
        model="rule:calls=4,name=echo,words=3,checked=1",
        tools=[_function("echo")],
        output_guardrails=[agent_pb2.Guardrail(name="words", hook=_hook("words"))],
    )
    handoff = agent_pb2.Handoff(
        agent="closer",
        input_schema_json=ECHO_PARAMETERS,
        on_handoff=_hook("handed"),
        input_filters=[agent_pb2.InputFilter(hook=_hook("passed_on"))],
    )
    ask_aide = agent_pb2.AgentTool(agent="aide", tool_name="ask_aide", parameters_json=ECHO_PARAMETERS)
    told = agent_pb2.LifecycleHook(
        hook=_hook("told"),
        moments=[agent_pb2.LIFECYCLE_MOMENT_FUNCTION_END, agent_pb2.LIFECYCLE_MOMENT_HANDOFF],
        awaited=True,
    )
    return agent_pb2.Agent(
        name="clerk",
        model="rule:calls=3,name=pay|ask_aide|transfer_to_closer,words=3,checked=1",
        tools=[pay, agent_pb2.Tool(agent=ask_aide)],
        handoffs=[handoff],
        lifecycle_hooks=[told],
        agents=[aide, closer],
    )


ANSWER = "word word word"
PAUSES = 2
"""Calls of the run that wait for a decision."""


def program(channel: grpc.aio.Channel, body: Body = echo) -> RawWorker:
    """Make the worker that serves all functions and hooks of it. No two receipts are alike."""
    numbers = itertools.count(1)
    filtered = ("input_history", "pre_handoff_items", "new_items")
    hooks: dict[str, Callable[[Any], Any]] = {
        "TOOL_INPUT_GUARDRAIL:before_pay": lambda _: {"verdict": "allow"},
        "TOOL_OUTPUT_GUARDRAIL:after_pay": lambda _: {"verdict": "allow"},
        "CUSTOM_DATA:receipt": lambda _: {"custom_data": {"receipt": next(numbers)}},
        "NEEDS_APPROVAL:may_look": lambda _: {"needs_approval": True},
        "OUTPUT_GUARDRAIL:words": lambda asked: {"tripped": asked["output"] != ANSWER},
        "ON_HANDOFF:handed": lambda _: {},
        "HANDOFF_INPUT_FILTER:passed_on": lambda asked: {name: asked[name] for name in filtered},
        "LIFECYCLE:told": lambda _: {},
    }
    first, *others = FUNCTIONS
    return RawWorker(channel, body, first, also=others, hooks=hooks)


class Approver:
    """Allows what a watcher sees waiting, for the whole session, over a channel of its own."""

    def __init__(self, channel: grpc.aio.Channel, watcher: RawWatcher) -> None:
        self._sessions = session_pb2_grpc.SessionServiceStub(channel)
        self._watcher = watcher

    async def allow(self, number: int) -> session_pb2.InputStatus.ValueType:
        """Wait for the session's pause of that number, from 1, and end it; returns what became of the decision."""
        await self._watcher.until(lambda: len(self._asked()) >= number)
        event = self._asked()[number - 1]
        decision = event_pb2.Decision(
            turn_id=event.turn_id,
            call_id=event.approval_requested.call_id,
            verdict=event_pb2.VERDICT_APPROVE,
            always_in_session=True,
            decided_by="the approver",
        )
        request = session_pb2.SubmitInputRequest(
            request_id=f"allow-{decision.call_id}",
            session_id=event.session_id,
            inputs=[session_pb2.Input(decision=decision)],
        )
        answer = await persist(lambda: self._sessions.SubmitInput(request, wait_for_ready=True))
        return answer.outcomes[0].status

    async def allow_all(self) -> None:
        """Allow whatever waits, until cancelled."""
        for number in itertools.count(1):
            await self.allow(number)

    def _asked(self) -> list[event_pb2.Event]:
        return [event for event in self._watcher.events if event.HasField("approval_requested")]


@asynccontextmanager
async def allowing(channel: grpc.aio.Channel, watcher: RawWatcher) -> AsyncIterator[asyncio.Task[None]]:
    """Allow whatever waits beside a block, or until the task is cancelled."""
    task = asyncio.create_task(Approver(channel, watcher).allow_all())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def check_hooks(events: Sequence[event_pb2.Event], worker: RawWorker) -> Counter[str]:
    """See that each hook was settled once, by an answer that was given to it; returns how many of each name.

    The log keeps what a filter passed on by reference, so that of its answers only their hook is compared.
    """
    settled = [event.hook_settled for event in events if event.HasField("hook_settled")]
    given = {(one.hook_id, _canonical(one.answer)) for one in worker.answered}
    for hook in settled:
        assert hook.WhichOneof("outcome") == "answer_json", hook
        of_it = {answer for hook_id, answer in given if hook_id == hook.hook_id}
        by_reference = hook.kind == event_pb2.HANDLER_KIND_HANDOFF_INPUT_FILTER
        assert of_it if by_reference else _canonical(hook.answer_json) in of_it, f"nobody answered so: {hook}"
    again = [hook_id for hook_id, times in Counter(hook.hook_id for hook in settled).items() if times > 1]
    assert not again, f"settled twice: {again}"
    return Counter(hook.name for hook in settled)


def check_receipts(events: Sequence[event_pb2.Event]) -> list[int]:
    """See that what an output keeps is what the log says that its hook answered; returns the receipts' numbers."""
    answers = [json.loads(e.hook_settled.answer_json) for e in events if e.hook_settled.name == "receipt"]
    outputs = [event.item_added.item.function_call_output for event in events]
    kept = [json.loads(output.custom_data_json) for output in outputs if output.custom_data_json]
    assert kept == [answer["custom_data"] for answer in answers]
    return [data["receipt"] for data in kept]


def check_decisions(events: Sequence[event_pb2.Event], runs: int) -> None:
    """See that each pause of so many runs was ended once, by the approver: what it said stands for later ones."""
    asked = [event.approval_requested.call_id for event in events if event.HasField("approval_requested")]
    decided = [event.approval_decided.decision for event in events if event.HasField("approval_decided")]
    assert len(asked) == PAUSES * runs
    assert [decision.call_id for decision in decided] == asked
    assert {decision.decided_by for decision in decided} == {"the approver"}


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)
