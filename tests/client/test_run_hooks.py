"""Hooks of a run: named where they are a worker's, hosted as long as the run where they are this process's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.client.scripted import Peer, ScriptedServer, soon
from tests.client.turns import answer

import baton
from baton import (
    Agent,
    CallModelData,
    Client,
    GuardrailFunctionOutput,
    InputGuardrail,
    LifecycleData,
    LifecycleHook,
    ModelInputData,
    RemoteFunction,
    RemoteHook,
    RunConfig,
    Runner,
    function_tool,
    input_guardrail,
)
from baton.v1 import agent_pb2, error_pb2, event_pb2, runner_pb2

GUARDRAIL = event_pb2.HANDLER_KIND_INPUT_GUARDRAIL
FILTER = event_pb2.HANDLER_KIND_MODEL_INPUT_FILTER
LIFECYCLE = event_pb2.HANDLER_KIND_LIFECYCLE
INPUT = {"input": [{"role": "user", "content": "Hi"}]}

Answer = Callable[[runner_pb2.RunRequest], Awaitable[runner_pb2.RunResponse]]


async def test_hooks_elsewhere_are_named(server: ScriptedServer) -> None:
    """Nothing is hosted for them: no worker stream begins."""
    server.runner.on_run = answering(answer())
    agent: Agent[None] = Agent(
        name="Assistant",
        input_guardrails=[RemoteHook("no_pii"), InputGuardrail(RemoteHook("slow", timeout=90), "S!", False)],
    )
    config = RunConfig(
        scopes=["svc"],
        input_guardrails=[RemoteHook("more")],
        call_model_input_filter=[RemoteHook("trim"), RemoteHook("redact")],
        lifecycle_hooks=[RemoteHook("audit"), LifecycleHook(RemoteHook("bill"), ["model_end"])],
    )

    await Runner.run(agent, "Hi", run_config=config)

    request = server.runner.requests[0]
    slow = agent_pb2.HookRef(name="slow")
    slow.timeout.FromTimedelta(timedelta(seconds=90))
    assert list(request.agent.input_guardrails) == [
        agent_pb2.Guardrail(name="no_pii", hook=agent_pb2.HookRef(name="no_pii")),
        agent_pb2.Guardrail(name="S!", hook=slow, blocking=True),
    ]
    written = request.run_config
    assert [one.name for one in written.input_guardrails] == ["more"]
    assert [one.hook.name for one in written.model_input_filters] == ["trim", "redact"]
    assert [(one.hook.name, list(one.moments)) for one in written.lifecycle_hooks] == [
        ("audit", []),
        ("bill", [agent_pb2.LIFECYCLE_MOMENT_MODEL_END]),
    ]
    assert list(written.scopes) == ["svc"] and server.handlers.peers.empty()


async def test_hooks_of_this_process_are_hosted_while_the_run_goes_on(server: ScriptedServer) -> None:
    """They get the run's own context and agent, which no server has seen."""
    seen: list[Any] = []
    basket = object()

    @input_guardrail(name="Numbers?", run_in_parallel=False)
    async def check(ctx: Any, its_agent: Agent[Any], input: Any) -> GuardrailFunctionOutput:
        seen.append(("guardrail", ctx.context, its_agent.name, input))
        return GuardrailFunctionOutput(None, False)

    def trim(data: CallModelData[Any]) -> ModelInputData:
        seen.append(("filter", data.context, data.agent and data.agent.name, data.model_data.instructions))
        return data.model_data

    async def audit(event: LifecycleData[Any]) -> None:
        seen.append((event.moment, event.context, event.agent_name, dict(event.facts)))

    async def run(peer: Peer, request: runner_pb2.RunRequest) -> None:
        await peer.ask(GUARDRAIL, request.agent.input_guardrails[0].hook.name, INPUT)
        assert json.loads((await peer.answer()).answer_json)["tripped"] is False
        await peer.ask(FILTER, request.run_config.model_input_filters[0].hook.name, {"instructions": None, **INPUT})
        assert json.loads((await peer.answer()).answer_json) == {"instructions": None, **INPUT}
        name = request.run_config.lifecycle_hooks[0].hook.name
        await peer.ask(LIFECYCLE, name, {"moment": "agent_end", "output": "Done."}, notification=True)
        await peer.ask(FILTER, request.run_config.model_input_filters[0].hook.name, INPUT, hook_id="hook_3")
        await peer.answer()

    agent: Agent[Any] = Agent(name="Assistant", input_guardrails=[check])
    config = RunConfig(call_model_input_filter=trim, lifecycle_hooks=[audit])
    request = await run_with(server, run, Runner.run(agent, "Hi", context=basket, run_config=config))

    (guardrail,) = request.agent.input_guardrails
    assert (guardrail.name, guardrail.hook.name, guardrail.blocking) == ("Numbers?", "Numbers_", True)
    assert seen[:3] == [
        ("guardrail", basket, "Assistant", INPUT["input"][0]["content"]),
        ("filter", basket, "Assistant", None),
        ("agent_end", basket, "Assistant", {"output": "Done."}),
    ]


async def test_runs_at_once_keep_to_their_own_hooks(server: ScriptedServer) -> None:
    """Requests of a web server, each with a guardrail made for it: a question names no run, yet finds its own."""

    def made(who: str) -> InputGuardrail:
        @input_guardrail
        async def check(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
            return GuardrailFunctionOutput(who, False)

        return check

    all_of_them = asyncio.Barrier(3)
    reading = asyncio.Lock()
    told: dict[str, str] = {}
    peers: list[Peer] = []

    async def on_run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        await all_of_them.wait()
        peer = next(one for one in peers if set(request.run_config.scopes) & set(one.hello.scopes))
        async with reading:
            await peer.ask(GUARDRAIL, request.agent.input_guardrails[0].hook.name, INPUT)
            told[request.agent.name] = json.loads((await peer.answer()).answer_json)["info"]
        return answer()

    server.runner.on_run = on_run
    runs = [
        asyncio.create_task(Runner.run(Agent(name=who, input_guardrails=[made(who)]), "Hi"))
        for who in ("Ann", "Bo", "Cy")
    ]
    peers += [await server.attached(), await server.attached()]
    await soon(asyncio.gather(*runs))

    assert told == {"Ann": "Ann", "Bo": "Bo", "Cy": "Cy"}


async def test_guardrails_of_one_name_in_a_run_are_told_apart(server: ScriptedServer) -> None:
    """Each is served, and shown, under a name of its own."""
    one, two = (InputGuardrail(lambda ctx, agent, input: GuardrailFunctionOutput(None, False), "same") for _ in "ab")

    async def run(peer: Peer, request: runner_pb2.RunRequest) -> None:
        return None

    agent: Agent[None] = Agent(name="Assistant", input_guardrails=[one, two])
    request = await run_with(server, run, Runner.run(agent, "Hi", run_config=RunConfig(input_guardrails=[one])))

    assert [(given.name, given.hook.name) for given in request.agent.input_guardrails] == [
        ("same", "same"),
        ("same (2)", "same_2"),
    ]
    assert request.run_config.input_guardrails[0].hook.name == "same"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tripped_guardrail_raises_with_its_reasons(server: ScriptedServer, streamed: bool) -> None:
    """The exception of that name, with the guardrail and what it said."""

    @input_guardrail
    async def no_numbers(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, False)

    response = answer()
    response.turn.status = event_pb2.TURN_STATUS_FAILED
    response.turn.error.reason = error_pb2.ERROR_REASON_INPUT_GUARDRAIL_TRIPPED
    response.turn.error.metadata["guardrail"] = "no_numbers"
    response.guardrail_results.add(
        name="no_numbers",
        stage=event_pb2.GUARDRAIL_STAGE_INPUT,
        verdict=event_pb2.GUARDRAIL_VERDICT_TRIPPED,
        agent="Assistant",
        info_json='{"found":"555"}',
    )
    server.runner.on_run = answering(response)

    async def on_stream(_request: Any) -> Any:
        yield runner_pb2.RunStreamedResponse(result=response)

    server.runner.on_stream = on_stream
    agent: Agent[None] = Agent(name="Assistant", input_guardrails=[no_numbers])

    async def run() -> None:
        if not streamed:
            await Runner.run(agent, "555")
            return
        async for _event in Runner.run_streamed(agent, "555").stream_events():
            pass

    running = asyncio.create_task(run())
    await server.attached()
    with pytest.raises(baton.InputGuardrailTripwireTriggered) as caught:
        await soon(running)

    error = caught.value
    assert (error.guardrail_name, error.reason) == ("no_numbers", "INPUT_GUARDRAIL_TRIPPED")
    assert error.guardrail_result is not None
    assert error.guardrail_result.guardrail is no_numbers
    assert error.guardrail_result.output == GuardrailFunctionOutput({"found": "555"}, True)


async def test_a_function_that_took_too_long_names_itself(server: ScriptedServer) -> None:
    """Where its timeout is to fail the run."""
    response = answer()
    response.turn.status = event_pb2.TURN_STATUS_FAILED
    response.turn.error.reason = error_pb2.ERROR_REASON_TOOL_TIMEOUT
    response.turn.error.metadata["tool"] = "pay"
    server.runner.on_run = answering(response)
    agent: Agent[None] = Agent(name="Assistant", tools=[RemoteFunction("pay", timeout_behavior="raise_exception")])

    with pytest.raises(baton.ToolTimeoutError) as caught:
        await Runner.run(agent, "Pay!")

    assert caught.value.tool_name == "pay"
    assert server.runner.requests[0].agent.tools[0].function.on_timeout.fail_turn


async def test_a_hook_of_this_process_cannot_be_kept_elsewhere(server: ScriptedServer) -> None:
    """A session's default agent is used by runs that this process does not know of."""
    agent: Agent[None] = Agent(name="A", input_guardrails=[InputGuardrail(lambda c, a, i: True, "mine")])  # type: ignore[arg-type,return-value]

    with pytest.raises(baton.UserError, match="'mine' is a function of this process"):
        await Client().create_session(agent=agent)


def test_mistakes_in_hooks_are_named() -> None:
    """Where the program makes them, with what would be right."""
    with pytest.raises(TypeError, match="decorate the function with input_guardrail"):
        Agent(name="A", input_guardrails=[len])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="input_guardrail"):
        RunConfig(input_guardrails=["no_pii"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="call_model_input_filter must be a function or a RemoteHook, not 'trim'"):
        RunConfig(call_model_input_filter="trim")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="lifecycle hook must be"):
        RunConfig(lifecycle_hooks=["audit"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="lifecycle moment is one of agent_start"):
        RunConfig(lifecycle_hooks=[LifecycleHook(RemoteHook("audit"), ["tool_start"])])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a function or a RemoteHook, not 7"):
        InputGuardrail(7)  # type: ignore[arg-type]


# --- how functions are executed -----------------------------------------------------------------------------


async def test_what_a_function_says_of_its_execution_travels_with_the_agent(server: ScriptedServer) -> None:
    """So that it holds whoever is attached: what may not run twice is asked about."""

    @function_tool(
        version="2", timeout=1.5, side_effects="once", idempotency_fields=["/order"], timeout_behavior="raise_exception"
    )
    def pay(order: str) -> str:
        return "paid"

    async def run(peer: Peer, request: runner_pb2.RunRequest) -> None:
        assert [(spec.name, spec.version) for spec in peer.hello.handlers] == [("pay", "2")]

    remote = RemoteFunction("ship", version="1", expires=60, lost_worker="ask", max_attempts=3)
    agent: Agent[None] = Agent(name="Assistant", tools=[pay, remote])
    request = await run_with(server, run, Runner.run(agent, "Pay!"))

    pays, ships = (tool.function for tool in request.agent.tools)
    assert (pays.handler_version, pays.on_timeout.fail_turn) == ("2", True)
    assert pays.execution.timeout.ToTimedelta() == timedelta(seconds=1.5)
    assert pays.execution.lost_worker == agent_pb2.LOST_WORKER_ASK
    assert list(pays.execution.idempotency_fields) == ["/order"]
    assert (ships.handler_version, ships.execution.max_attempts) == ("1", 3)
    assert ships.execution.expires.ToTimedelta() == timedelta(seconds=60)
    assert ships.execution.lost_worker == agent_pb2.LOST_WORKER_ASK
    assert not ships.HasField("on_timeout")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"timeout": 0}, "pay: timeout must be 0.001 to 86,400 seconds, not 0"),
        ({"timeout": "1s"}, "pay: timeout must be a number, not '1s'"),
        ({"side_effects": "twice"}, "'none', 'idempotent', 'once', not 'twice'"),
        ({"timeout_behavior": "raise"}, "'error_as_result', 'raise_exception', not 'raise'"),
        ({"idempotency_fields": ["order"]}, "a JSON Pointer such as '/order/id', not 'order'"),
        ({"idempotency_fields": "/order"}, "a list of texts, not the text '/order'"),
        ({"idempotency_fields": [f"/{n}" for n in range(17)]}, "at most 16, not 17"),
        ({"max_concurrency": 0}, "max_concurrency must be 1 to 10,000, not 0"),
        ({"version": "v" * 65}, "at most 64 characters, not 65"),
    ],
)
def test_options_of_functions_are_checked(wrong: dict[str, Any], says: str) -> None:
    """With the function's name, the value, and what would be right."""
    with pytest.raises((TypeError, ValueError)) as caught:
        function_tool(name_override="pay", **wrong)(lambda: "")
    assert says in str(caught.value)


def test_unknown_options_of_functions_are_refused_by_name() -> None:
    """All of them, also beside known ones."""
    with pytest.raises(TypeError, match="function_tool does not support docstring_style, retries"):
        function_tool(timeout=1.0, docstring_style="google", retries=3)  # type: ignore[call-overload]


# --- small makers -------------------------------------------------------------------------------------------


def answering(response: runner_pb2.RunResponse) -> Answer:
    """Make a Run that gives this answer."""

    async def on_run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        return response

    return on_run


async def run_with(
    server: ScriptedServer,
    script: Callable[[Peer, runner_pb2.RunRequest], Awaitable[None]],
    run: Awaitable[Any],
) -> runner_pb2.RunRequest:
    """Let a run go on at a server that does what the script says; return what was asked for."""
    requests: list[runner_pb2.RunRequest] = []
    attached: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()

    async def on_run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        requests.append(request)
        await script(await attached, request)
        return answer()

    server.runner.on_run = on_run
    running = asyncio.ensure_future(run)
    attached.set_result(await server.attached())
    await soon(running)
    return requests[0]
