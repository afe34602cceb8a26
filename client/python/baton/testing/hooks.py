"""Asks hooks as a server would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from baton.agents.agent import Agent
from baton.agents.guardrails import InputGuardrail, guardrails_to_pb
from baton.agents.tool_guardrails import GUARDED
from baton.hooks import RemoteHook, adapted, name_of
from baton.hooks.data import Moment
from baton.hooks.kinds import HOOK_KINDS, HookName
from baton.hooks.refs import Gathered
from baton.hosting.asked import AskedHooks, HookHandler
from baton.testing.calls import CallFacts
from baton.v1 import handler_pb2


class MomentFacts(TypedDict, total=False):
    """Whose moment a hook is asked in."""

    session_id: str
    turn_id: str
    agent_name: str
    round: int
    deadline: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOutcome:
    """What the server would learn of a hook: an answer, as its JSON object; or why there is none.

    `failure`: it raised a FunctionError, in these words. `crash_type`, `text`: it raised anything else, or returned
    what is no answer of its kind.
    """

    kind: Literal["answer", "failure", "crash"]
    answer: Mapping[str, Any]
    failure: str = ""
    crash_type: str = ""
    text: str = ""


async def ask_guardrail(
    guardrail: InputGuardrail[Any] | Callable[[Any], Any],
    input: str | Sequence[Mapping[str, Any]],
    *,
    agent: Agent[Any] | None = None,
    context: Any = None,
    **moment: Unpack[MomentFacts],
) -> HookOutcome:
    """Ask an input guardrail, of `input_guardrail` or of `worker.hook`. `input`: a user's text, or items."""
    items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
    function = guardrail
    if isinstance(guardrail, InputGuardrail):
        gathered = Gathered()
        guardrails_to_pb([guardrail], gathered.ref_of)
        if not gathered.hooks:
            raise TypeError(f"the guardrail {guardrail.get_name()!r} is served elsewhere")
        function = gathered.hooks[0].function
    return await _ask("input_guardrail", function, {"input": items}, moment, (agent, context))


async def ask_filter(
    function: Callable[[Any], Any],
    input: Sequence[Mapping[str, Any]],
    instructions: str | None = None,
    *,
    agent: Agent[Any] | None = None,
    context: Any = None,
    **moment: Unpack[MomentFacts],
) -> HookOutcome:
    """Ask a model input filter what a request is to carry. `instructions` None: there are none."""
    payload = {"instructions": instructions, "input": list(input)}
    return await _ask("model_input_filter", function, payload, moment, (agent, context))


async def ask_check(
    function: Callable[[Any], Any], tool: str, arguments: str | Mapping[str, Any] = "", **facts: Unpack[CallFacts]
) -> HookOutcome:
    """Ask a check whether a lost attempt took effect. `tool`: the function's name."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    call_id = facts.get("call_id", "call_1")
    payload = {
        "idempotency_key": facts.get("idempotency_key", call_id),
        "call_id": call_id,
        "tool": tool,
        "arguments_json": text,
        "attempt": facts.get("attempt", 1),
    }
    moment = MomentFacts(
        session_id=facts.get("session_id", "sess_1"),
        turn_id=facts.get("turn_id", "turn_1"),
        agent_name=facts.get("agent_name", "Assistant"),
    )
    return await _ask("effect_check", function, payload, moment, (None, None))


async def tell(
    function: Callable[[Any], Any],
    moment: Moment,
    facts: Mapping[str, Any] | None = None,
    *,
    agent: Agent[Any] | None = None,
    context: Any = None,
    **whose: Unpack[MomentFacts],
) -> HookOutcome:
    """Tell a lifecycle hook what has happened. A server would not wait for it, nor learn that it raised."""
    return await _ask("lifecycle", function, {"moment": moment, **(facts or {})}, whose, (agent, context))


async def ask_hook(
    kind: HookName,
    function: Callable[[Any], Any],
    payload: Mapping[str, Any],
    *,
    agent: Agent[Any] | None = None,
    context: Any = None,
    **moment: Unpack[MomentFacts],
) -> HookOutcome:
    """Ask a hook of any kind, as `worker.hook(kind)` serves it. `payload`: the question, as PROTOCOL.md has it."""
    given = GUARDED.get(kind)
    asked = function if given is None else adapted(function, given, lambda _data, said: said)
    return await _ask(kind, asked, payload, moment, (agent, context))


class _Answers:
    """Stands for the stream on which a hook is asked."""

    def __init__(self) -> None:
        self.given: asyncio.Future[handler_pb2.HookAnswer] = asyncio.get_running_loop().create_future()

    def send(self, frame: handler_pb2.ConnectRequest) -> None:
        self.given.set_result(frame.hook_answers.answers[0])


async def _ask(
    kind: str, function: Any, payload: Mapping[str, Any], moment: MomentFacts, run: tuple[Any, Any]
) -> HookOutcome:
    if isinstance(function, RemoteHook):
        raise TypeError(f"the hook {function.name!r} is served elsewhere")
    found, name = HOOK_KINDS[kind], name_of(function)
    agents = {run[0].name: run[0]} if run[0] is not None else {}
    handler = HookHandler(kind=found, name=name, function=function, agents=agents, context=run[1])
    hook = handler_pb2.Hook(hook_id="hook_1", attempt=1, kind=found.number, name=name, payload_json=json.dumps(payload))
    if "deadline" in moment:
        hook.deadline.FromDatetime(moment["deadline"])
    agent_name = run[0].name if run[0] is not None else "Assistant"
    batch = handler_pb2.HookBatch(
        batch_id="batch_1",
        session_id=moment.get("session_id", "sess_1"),
        turn_id=moment.get("turn_id", "turn_1"),
        agent=moment.get("agent_name", agent_name),
        round=moment.get("round", 1),
        hooks=[hook],
    )
    answers = _Answers()
    hooks = AskedHooks(lambda _batch, _hook: handler)
    hooks.ask(batch, answers)
    try:
        answer = await answers.given
    finally:
        await hooks.close()
    match answer.WhichOneof("outcome"):
        case "answer_json":
            return HookOutcome(kind="answer", answer=json.loads(answer.answer_json), text=answer.answer_json)
        case "failure":
            return HookOutcome(kind="failure", answer={}, failure=answer.failure)
        case _:
            return HookOutcome(kind="crash", answer={}, crash_type=answer.crash.type, text=answer.crash.text)
