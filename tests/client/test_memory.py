"""What a run remembers: one memory at a time, and how each travels."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.scripted import ScriptedServer
from tests.client.turns import answer

import baton
from baton import Agent, RunConfig, Runner, Session, SessionSettings, SQLiteSession
from baton.hooks.kinds import HOOK_KINDS
from baton.v1 import run_config_pb2, runner_pb2

AGENT: Agent[Any] = Agent(name="Assistant")


async def asked(server: ScriptedServer, **options: Any) -> runner_pb2.RunRequest:
    """Run, and take the request."""

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        return answer()

    server.runner.on_run = run
    await Runner.run(AGENT, "Hi", **options)
    request = server.runner.requests[-1]
    assert isinstance(request, runner_pb2.RunRequest)
    return request


def response(**fields: Any) -> run_config_pb2.History:
    """A chain of replies."""
    return run_config_pb2.History(response=run_config_pb2.ResponseHistory(**fields))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, run_config_pb2.History(caller=run_config_pb2.CallerHistory())),
        (
            {"conversation_id": "conv_1"},
            run_config_pb2.History(conversation=run_config_pb2.ConversationHistory(id="conv_1")),
        ),
        ({"previous_response_id": "resp_1"}, response(previous_id="resp_1")),
        ({"auto_previous_response_id": True}, response(auto=True)),
        (
            {"previous_response_id": "resp_1", "auto_previous_response_id": True},
            response(previous_id="resp_1", auto=True),
        ),
        ({"previous_response_id": None, "auto_previous_response_id": True}, response(auto=True)),
    ],
)
async def test_memories_of_the_caller_and_of_the_models_api(
    server: ScriptedServer, options: dict[str, Any], expected: run_config_pb2.History
) -> None:
    """No session is named; what the model's API keeps goes by its ids."""
    request = await asked(server, **options)

    assert request.run_config.history == expected
    assert request.WhichOneof("session_source") is None


async def test_a_session_is_named_and_its_limit_is_the_runs_or_its_own(server: ScriptedServer) -> None:
    """The run's settings win; without any the server reads all of it."""
    plain = await asked(server, session=SQLiteSession("user-7"))
    own = await asked(server, session=Session("user-7", session_settings=SessionSettings(limit=5)))
    config = RunConfig(session_settings={"limit": 3})
    won = await asked(server, session=Session("user-7", session_settings=SessionSettings(limit=5)), run_config=config)

    assert (plain.session_key, plain.run_config.HasField("history")) == ("user-7", False)
    assert own.run_config.history.session.limit == 5
    assert won.run_config.history.session.limit == 3


@pytest.mark.parametrize(
    "other",
    [{"conversation_id": "conv_1"}, {"previous_response_id": "resp_1"}, {"auto_previous_response_id": True}],
)
async def test_two_memories_are_refused_before_anything_is_sent(server: ScriptedServer, other: dict[str, Any]) -> None:
    """A session would keep what the model's API keeps already; streamed it is refused at once too."""
    with pytest.raises(baton.UserError, match="one run has one memory"):
        await Runner.run(AGENT, "Hi", session=Session("user-7"), **other)
    with pytest.raises(baton.UserError, match="one run has one memory"):
        Runner.run_streamed(AGENT, "Hi", session=Session("user-7"), **other)
    assert server.runner.requests == []


async def test_a_conversation_is_no_chain(server: ScriptedServer) -> None:
    """Both name what the model's API goes on from."""
    with pytest.raises(baton.UserError, match="two ways of one thing"):
        await Runner.run(AGENT, "Hi", conversation_id="conv_1", previous_response_id="resp_1")


async def test_a_session_of_the_application_is_asked_by_the_server(server: ScriptedServer) -> None:
    """Any object with the two methods: it is served as a hook of this process, as long as the run goes on."""

    class Store:
        def __init__(self) -> None:
            self.kept: list[Any] = [{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}]

        def get_items(self, limit: int | None = None) -> list[Any]:
            return self.kept[-limit:] if limit else self.kept

        async def add_items(self, items: list[Any]) -> None:
            self.kept += items

    store = Store()
    kind = HOOK_KINDS["session_store"].number
    answers: list[str] = []

    async def run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        stored = request.run_config.history.stored
        await peer.ask(kind, stored.store.name, {"operation": "get", "limit": stored.limit})
        answers.append((await peer.answer()).answer_json)
        await peer.ask(kind, stored.store.name, {"operation": "add", "items": [{"role": "user", "content": "Hi"}]})
        await peer.answer()
        return answer()

    server.runner.on_run = run
    config = RunConfig(session_settings=SessionSettings(limit=1))
    running = asyncio.create_task(Runner.run(AGENT, "Hi", session=store, run_config=config))
    peer = await server.attached()
    await running

    assert answers == ['{"items":[{"role":"assistant","content":"yes"}]}']
    assert store.kept[-1] == {"role": "user", "content": "Hi"}


async def test_a_store_that_a_worker_serves_is_named(server: ScriptedServer) -> None:
    """By its hook; this process hosts nothing for it."""
    request = await asked(server, session=baton.RemoteHook("ledger"))

    assert request.run_config.history.stored.store.name == "ledger"
    assert server.handlers.peers.empty()
