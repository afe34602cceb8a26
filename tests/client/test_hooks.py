"""Hooks that a worker serves: what a function gets, what the server is answered, whatever the function does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from tests.client.scripted import Peer, ScriptedServer, soon

from baton import (
    CallModelData,
    EffectCheckData,
    FunctionError,
    GuardrailFunctionOutput,
    InputGuardrailData,
    LifecycleData,
    ModelInputData,
    TookEffect,
    ToolOutputImage,
    Worker,
)
from baton.v1 import event_pb2, handler_pb2

GUARDRAIL = event_pb2.HANDLER_KIND_INPUT_GUARDRAIL
FILTER = event_pb2.HANDLER_KIND_MODEL_INPUT_FILTER
LIFECYCLE = event_pb2.HANDLER_KIND_LIFECYCLE
CHECK = event_pb2.HANDLER_KIND_EFFECT_CHECK

INPUT = {"input": [{"role": "user", "content": "My number is 555-1234"}]}


class Hooked:
    """A worker and its server's end."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self.worker = Worker()
        self.seen: list[Any] = []
        self.peer: Peer | None = None

    async def attach(self) -> Peer:
        """Start the worker."""
        starting = asyncio.create_task(self.worker.start())
        self.peer = await self._server.attached()
        await soon(starting)
        return self.peer

    async def again(self) -> Peer:
        """Wait for its next stream."""
        self.peer = await self._server.attached()
        return self.peer


@pytest.fixture
async def hooked(server: ScriptedServer) -> AsyncIterator[Hooked]:
    """A worker that is not attached yet; at the end it leaves."""
    made = Hooked(server)
    yield made
    if made.peer is not None:
        await asyncio.gather(made.worker.stop(0), made.peer.ended())


async def test_a_guardrail_gets_the_input_and_says_whether_it_trips(hooked: Hooked) -> None:
    """With its reasons, whose moment it was, and no context: a worker knows of none."""

    @hooked.worker.hook("input_guardrail", name="no_numbers")
    async def check(data: InputGuardrailData[None]) -> GuardrailFunctionOutput:
        hooked.seen.append(data)
        return GuardrailFunctionOutput({"found": "555-1234"}, True)

    peer = await hooked.attach()
    assert [(spec.kind, spec.name) for spec in peer.hello.handlers] == [(GUARDRAIL, "no_numbers")]
    await peer.ask(GUARDRAIL, "no_numbers", INPUT, hook_id="hook_7", attempt=2, round=3)
    answer = await peer.answer()

    assert (answer.hook_id, answer.attempt) == ("hook_7", 2)
    assert json.loads(answer.answer_json) == {"tripped": True, "info": {"found": "555-1234"}}
    (data,) = hooked.seen
    assert (data.input, data.agent_name, data.round) == (INPUT["input"], "Assistant", 3)
    assert (data.session_id, data.turn_id, data.agent, data.context) == ("sess_1", "turn_1", None, None)


async def test_functions_that_are_no_coroutines_run_in_threads(hooked: Hooked) -> None:
    """A bool is enough of an answer."""

    @hooked.worker.hook("input_guardrail")
    def quiet(data: InputGuardrailData[None]) -> bool:
        hooked.seen.append(threading.current_thread())
        return False

    peer = await hooked.attach()
    await peer.ask(GUARDRAIL, "quiet", INPUT)

    assert json.loads((await peer.answer()).answer_json) == {"tripped": False, "info": None}
    assert hooked.seen[0] is not threading.main_thread()


async def test_a_filter_changes_what_a_request_carries(hooked: Hooked) -> None:
    """Instructions and items; large numbers and texts of any script stay what they are."""

    @hooked.worker.hook("model_input_filter")
    def newest(data: CallModelData[None]) -> ModelInputData:
        return ModelInputData(input=data.model_data.input[-1:], instructions=f"{data.model_data.instructions}!")

    peer = await hooked.attach()
    kept = {"role": "user", "content": "京都 9007199254740993", "n": 9007199254740993}
    await peer.ask(FILTER, "newest", {"instructions": "Be brief", "input": [INPUT["input"][0], kept]})

    assert (await peer.answer()).answer_json == json.dumps(
        {"instructions": "Be brief!", "input": [kept]}, ensure_ascii=False, separators=(",", ":")
    )


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("none", {"effect": "none"}),
        ("took_effect", {"effect": "took_effect"}),
        ("unknown", {"effect": "unknown"}),
        (TookEffect("paid"), {"effect": "took_effect", "output": "paid"}),
        (TookEffect({"id": 7}), {"effect": "took_effect", "output": {"id": 7}}),
        (TookEffect(None), {"effect": "took_effect", "output": ""}),
    ],
)
async def test_a_check_says_what_became_of_an_attempt(hooked: Hooked, said: Any, answer: dict[str, Any]) -> None:
    """It is registered under the function's name, and gets the key by which it can look."""

    @hooked.worker.function(side_effects="once")
    def pay(order: str) -> str:
        return "paid"

    @hooked.worker.check(pay)
    async def paid(data: EffectCheckData[None]) -> Any:
        hooked.seen.append((data.idempotency_key, data.call_id, data.attempt, data.tool_name, data.tool_arguments))
        return said

    peer = await hooked.attach()
    assert {(spec.kind, spec.name) for spec in peer.hello.handlers} == {(0, "pay"), (CHECK, "pay")}
    payload = {"idempotency_key": "k", "call_id": "call_1", "tool": "pay", "arguments_json": "{}", "attempt": 3}
    await peer.ask(CHECK, "pay", payload)

    assert json.loads((await peer.answer()).answer_json) == answer
    assert hooked.seen == [("k", "call_1", 3, "pay", "{}")]


async def test_notifications_of_a_turn_come_in_order_and_are_not_answered(hooked: Hooked) -> None:
    """A slow function gets them one after another; what raises does not stop those behind it."""
    let_go, all_told = asyncio.Event(), asyncio.Event()

    @hooked.worker.hook("lifecycle")
    async def audit(event: LifecycleData[None]) -> None:
        await let_go.wait()
        hooked.seen.append((event.moment, dict(event.facts)))
        if event.moment == "model_end":
            all_told.set()
        if event.moment == "model_start":
            raise ValueError("no such ledger")

    @hooked.worker.hook("input_guardrail")
    async def last(data: InputGuardrailData[None]) -> bool:
        return False

    peer = await hooked.attach()
    for moment in ("agent_start", "model_start", "model_end"):
        await peer.ask(LIFECYCLE, "audit", {"moment": moment, "agent": "A", "round": 1}, notification=True)
    let_go.set()
    await peer.ask(GUARDRAIL, "last", INPUT, hook_id="hook_2")
    answer = await peer.answer()
    await soon(all_told.wait())

    assert hooked.seen == [("agent_start", {"round": 1}), ("model_start", {"round": 1}), ("model_end", {"round": 1})]
    assert answer.hook_id == "hook_2" and peer.passed_over == []


async def test_a_hook_that_raises_is_a_crash(hooked: Hooked) -> None:
    """Type and stack; in words of its own, a failure."""

    @hooked.worker.hook("input_guardrail")
    def crash(data: InputGuardrailData[None]) -> bool:
        raise KeyError("secret")

    @hooked.worker.hook("input_guardrail")
    async def fail(data: InputGuardrailData[None]) -> bool:
        raise FunctionError("The list of words is not there.")

    peer = await hooked.attach()
    await peer.ask(GUARDRAIL, "crash", INPUT)
    crashed = await peer.answer()
    await peer.ask(GUARDRAIL, "fail", INPUT)
    failed = await peer.answer()

    assert crashed.crash.type == "KeyError" and "crash(data" not in crashed.crash.text
    assert "secret" in crashed.crash.text
    assert failed.failure == "The list of words is not there."


@pytest.mark.parametrize(
    ("kind", "number", "said", "says"),
    [
        ("input_guardrail", GUARDRAIL, None, "'wrong' must return a GuardrailFunctionOutput or a bool, not NoneType"),
        ("input_guardrail", GUARDRAIL, GuardrailFunctionOutput(None, "yes"), "'yes' for tripwire_triggered"),  # type: ignore[arg-type]
        ("input_guardrail", GUARDRAIL, GuardrailFunctionOutput(object(), True), "object has no JSON form"),
        ("model_input_filter", FILTER, [], "must return a ModelInputData, not list"),
        ("model_input_filter", FILTER, ModelInputData(input="x"), "a list of items, not str"),  # type: ignore[arg-type]
        ("model_input_filter", FILTER, ModelInputData(input=[], instructions=7), "a text or None, not int"),  # type: ignore[arg-type]
    ],
)
async def test_nonsense_is_named_where_it_was_made(
    hooked: Hooked, kind: Any, number: Any, said: Any, says: str
) -> None:
    """The author of the hook learns what it returned; the server only that it crashed."""

    @hooked.worker.hook(kind)
    async def wrong(data: Any) -> Any:
        return said

    peer = await hooked.attach()
    await peer.ask(number, "wrong", INPUT)

    assert says in (await peer.answer()).crash.text


@pytest.mark.parametrize("said", ["done", TookEffect(ToolOutputImage(image_url="https://example.com/a.png"))])
async def test_a_check_that_answers_something_else_is_told_its_words(hooked: Hooked, said: Any) -> None:
    """An output in place of a word is the likeliest mistake."""

    @hooked.worker.check("pay")
    async def paid(data: EffectCheckData[None]) -> Any:
        return said

    peer = await hooked.attach()
    await peer.ask(CHECK, "pay", {})

    answer = await peer.answer()
    assert answer.crash.type == "TypeError" and "'pay'" in answer.crash.text


async def test_a_hook_that_nobody_serves_here_is_answered(hooked: Hooked) -> None:
    """At once, since no answer would cost the turn its whole time limit; so is a question that cannot be read."""

    @hooked.worker.hook("input_guardrail")
    async def here(data: InputGuardrailData[None]) -> bool:
        return False

    peer = await hooked.attach()
    await peer.ask(GUARDRAIL, "elsewhere", INPUT)
    assert "does not serve the hook 'elsewhere'" in (await peer.answer()).crash.text
    await peer.ask(GUARDRAIL, "here", [1])
    assert "no JSON object" in (await peer.answer()).crash.text


async def test_what_hooks_share_is_laid_under_each(hooked: Hooked) -> None:
    """One input for all guardrails of a moment; what a hook says itself wins."""

    @hooked.worker.hook("model_input_filter")
    async def look(data: CallModelData[None]) -> ModelInputData:
        return data.model_data

    peer = await hooked.attach()
    shared = json.dumps({"input": [{"role": "user"}], "instructions": "shared"})
    await peer.ask(FILTER, "look", {"instructions": "own"}, shared_payload_json=shared)

    assert json.loads((await peer.answer()).answer_json) == {"instructions": "own", "input": [{"role": "user"}]}


async def test_an_answer_that_is_not_needed_any_more_is_not_given(hooked: Hooked) -> None:
    """A sibling tripped: the coroutine is stopped, and sees why."""
    entered, stopped = asyncio.Event(), asyncio.Event()

    @hooked.worker.hook("input_guardrail")
    async def slow(data: InputGuardrailData[None]) -> bool:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            hooked.seen.append(data.cancelled.reason)
            stopped.set()
        return False

    @hooked.worker.hook("input_guardrail")
    async def quick(data: InputGuardrailData[None]) -> bool:
        return False

    peer = await hooked.attach()
    await peer.ask(GUARDRAIL, "slow", INPUT)
    await soon(entered.wait())
    cancel = handler_pb2.Cancel(call_id="hook_1", attempt=1, reason=handler_pb2.CANCEL_REASON_NOT_NEEDED)
    await peer.send(cancel=cancel)
    await soon(stopped.wait())
    await peer.ask(GUARDRAIL, "quick", INPUT, hook_id="hook_2")

    assert (await peer.answer()).hook_id == "hook_2"
    assert hooked.seen == ["not_needed"] and peer.passed_over == []


async def test_a_stream_that_ends_takes_its_questions_with_it(hooked: Hooked) -> None:
    """The server asks again on the next one; an answer to the old question would mean nothing there."""
    begun = asyncio.Queue[None](10)

    @hooked.worker.hook("input_guardrail")
    async def slow(data: InputGuardrailData[None]) -> bool:
        hooked.seen.append(data)
        begun.put_nowait(None)
        if len(hooked.seen) == 1:
            await asyncio.Event().wait()
        return True

    peer = await hooked.attach()
    await peer.ask(GUARDRAIL, "slow", INPUT)
    await soon(begun.get())
    peer.end(grpc.StatusCode.UNAVAILABLE)
    again = await hooked.again()
    assert hooked.seen[0].cancelled.is_set()
    await again.ask(GUARDRAIL, "slow", INPUT, attempt=2)
    answer = await again.answer()

    assert answer.attempt == 2 and again.passed_over == []


async def test_functions_that_run_long_hold_up_no_hook(hooked: Hooked) -> None:
    """They have threads of their own, and hooks take no credit."""
    hooked.worker = Worker(max_concurrency=1)
    entered, let_go, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    @hooked.worker.function
    def work() -> str:
        loop.call_soon_threadsafe(entered.set)
        let_go.wait(5)
        return "worked"

    @hooked.worker.hook("input_guardrail")
    def check(data: InputGuardrailData[None]) -> bool:
        return True

    peer = await hooked.attach()
    await peer.call("work")
    await soon(entered.wait())
    await peer.ask(GUARDRAIL, "check", INPUT)

    assert json.loads((await peer.answer()).answer_json)["tripped"] is True
    let_go.set()
    assert (await peer.settle()).output == "worked"


def test_mistakes_in_hooks_are_named() -> None:
    """Where the program makes them."""
    worker = Worker()
    with pytest.raises(ValueError, match="session_store, not 'effect_check'"):
        worker.hook("effect_check")  # type: ignore[arg-type]
    worker.hook("input_guardrail", name="a")(lambda data: True)
    with pytest.raises(ValueError, match="hook 'a' of the kind 'input_guardrail' already"):
        worker.hook("input_guardrail", name="a")(lambda data: True)
    worker.hook("lifecycle", name="a")(lambda data: None)
    with pytest.raises(TypeError, match="must be a function"):
        worker.hook("lifecycle")(7)  # type: ignore[type-var]


def test_a_copy_of_a_worker_hosts_the_same() -> None:
    """Functions, hooks and options; what is given is changed, and the first stays as it was."""
    worker = Worker("first:1", scopes=["a"], max_concurrency=3, max_argument_bytes=10)
    worker.hook("input_guardrail", name="a")(lambda data: True)

    @worker.function
    def add(a: int) -> int:
        return a

    made = worker.copy(scopes=["b"])
    made.hook("input_guardrail", name="b")(lambda data: True)

    assert (made.address, made.scopes, made.max_concurrency, made.tools) == ("first:1", ("b",), 3, (add,))
    with pytest.raises(ValueError, match="hook 'a'"):
        made.hook("input_guardrail", name="a")(lambda data: True)
    worker.hook("input_guardrail", name="b")(lambda data: True)
