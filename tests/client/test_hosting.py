"""Whose function a call reaches: of the agent that makes it, and of the run, also where that paused and goes on."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.client.old_turn import OldTurn
from tests.client.scripted import Peer, ScriptedServer, soon
from tests.client.turns import answer, undecided, waiting
from tests.client.turns import call as called

from baton import Agent, FunctionTool, RunContext, Runner, RunState, function_tool
from baton.v1 import event_pb2, runner_pb2


def saying(word: str) -> FunctionTool:
    """Make a function `say`, which tells whose it is and in which context it runs."""

    @function_tool
    def say(ctx: RunContext[Any]) -> str:
        """Say it."""
        return f"{word} {ctx.context}"

    return say


def agent(tool: FunctionTool) -> Agent[Any]:
    """Make an agent that has it."""
    return Agent(name="Assistant", tools=[tool])


async def said(peer: Peer, scope: str, **fields: Any) -> str:
    """Call the function in a scope; take what it says."""
    await peer.call("say", scope=scope, **fields)
    result = await peer.settle()
    return str(result.output)


async def test_agents_of_one_run_keep_their_own_functions_of_one_name(server: ScriptedServer) -> None:
    """The call says which agent makes it; of two of one name on one agent the last one counts."""
    told: list[str] = []

    async def run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        scope = request.run_config.scopes[1]
        told.append(await said(peer, scope, agent="Assistant", call_id="call_1"))
        told.append(await said(peer, scope, agent="Billing", call_id="call_2"))
        return answer()

    server.runner.on_run = run
    billing: Agent[Any] = Agent(name="Billing", tools=[saying("billing")])
    front: Agent[Any] = Agent(name="Assistant", tools=[saying("old"), saying("front")], handoffs=[billing])
    running = asyncio.create_task(Runner.run(front, "Hi", context="c"))
    peer = await server.attached()
    await soon(running)

    assert told == ["front c", "billing c"]
    assert [spec.name for spec in peer.hello.handlers] == ["say"]


async def test_a_call_of_a_paused_run_reaches_its_own_function(server: ScriptedServer) -> None:
    """Somebody allows it elsewhere, while another run uses the name with another context."""
    told: list[str] = []

    async def run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        if request.text == "first":
            return waiting(called("say"), actions=[undecided("say")])
        scope = request.run_config.scopes[1]
        told.append(await said(peer, scope, turn_id="turn_2", call_id="call_2"))
        told.append(await said(peer, scope, turn_id="turn_1", call_id="call_1"))
        return answer()

    server.runner.on_run = run
    first = asyncio.create_task(Runner.run(agent(saying("first")), "first", context="Ann"))
    peer = await server.attached()
    assert (await soon(first)).interruptions
    await soon(Runner.run(agent(saying("second")), "second", context="Bob"))

    assert told == ["second Bob", "first Ann"]


async def test_a_run_that_is_resumed_is_served_where_it_looks_first(server: ScriptedServer) -> None:
    """In a scope of its own, by whoever resumes it; the process that began it may be there and busy with others."""
    scopes: list[str] = []

    async def run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        scopes.extend(request.run_config.scopes)
        return waiting(called("say"), actions=[undecided("say")])

    server.runner.on_run = run
    began = asyncio.create_task(Runner.run(agent(saying("old")), "Hi", context="old"))
    await server.attached()
    text = (await soon(began)).to_state().to_string()
    elsewhere = agent(saying("new"))
    state = await RunState.from_string(elsewhere, text)
    state.approve(state.get_interruptions()[0])
    turn = OldTurn(server)
    turn.wait_for(undecided("say"))
    told: list[str] = []

    async def goes_on() -> Any:
        told.append(await said(guest, scopes[0], turn_id="turn_1"))
        turn.end("Done.")
        yield event_pb2.StreamPart(heartbeat=event_pb2.Heartbeat(last_sequence=9))

    turn.goes_on = goes_on
    resumed = asyncio.create_task(Runner.run(elsewhere, state, context="new"))
    guest = await server.attached()
    result = await soon(resumed)

    assert (told, result.final_output) == (["new new"], "Done.")
    assert list(guest.hello.scopes) == [scopes[0]]
    await guest.ended()  # nobody needs it any more


async def test_hooks_of_a_resumed_run_have_the_names_that_it_began_with(server: ScriptedServer) -> None:
    """The server asks by the names that it keeps; they follow from the definitions, in whichever process."""

    def made(word: str) -> Agent[Any]:
        return Agent(name="Assistant", instructions=lambda ctx, _agent: f"{word} {ctx.context}")

    names: list[str] = []

    async def run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        names.append(request.agent.instructions_hook.name)
        return waiting(called("far"), actions=[undecided("far")])

    server.runner.on_run = run
    began = asyncio.create_task(Runner.run(made("old"), "Hi"))
    await server.attached()
    state = await RunState.from_json(made("new"), (await soon(began)).to_state().to_json())
    turn = OldTurn(server)
    turn.wait_for(undecided("far"))
    told: list[str] = []

    async def goes_on() -> Any:
        await guest.ask(event_pb2.HANDLER_KIND_INSTRUCTIONS, names[0])
        told.append((await guest.answer()).answer_json)
        turn.end("Done.")
        yield event_pb2.StreamPart(heartbeat=event_pb2.Heartbeat(last_sequence=9))

    turn.goes_on = goes_on
    resumed = asyncio.create_task(Runner.run(made("new"), state, context="c"))
    guest = await server.attached()
    await soon(resumed)

    assert told == ['{"instructions":"new c"}']
    assert [spec.name for spec in guest.hello.handlers] == names
