"""What the spans of a turn say, and what they keep to themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.calling import client_of
from tests.support.scripted_model import ScriptedModel, calls, fail, say
from tests.support.server import server
from tests.support.stage import ANY_OBJECT, Stage
from tests.telemetry.exported import ended, facts, named, run, tree

from baton_server.core.errors import Reason


async def test_the_task_says_whose_it_is_and_how_it_ended(tmp_path: Path) -> None:
    """Name, group, labels, outcome and tokens."""
    tracing = {"workflow_name": "Support", "group_id": "thread_1", "metadata": {"team": "a"}}
    response = await run(tmp_path, say("Hello."), tracing=tracing)

    said = facts(named("Support"))
    assert said["baton.group_id"] == "thread_1"
    assert said["baton.metadata.team"] == "a"
    assert said["baton.turn_id"] == response.turn.turn_id
    assert said["baton.status"] == "COMPLETED"
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (7, 3)


async def test_a_reply_says_what_was_new_and_what_came(stage: Stage) -> None:
    """Model, settings, ids and tokens; of the input what joined since the reply before."""
    worker = await stage.worker("f")
    turn = await stage.turn([("f", '{"n":1}')], model="big", model_settings={"temperature": 0.5})
    await worker.finish(await worker.expect("call"), output="sunny")
    await turn.completed()

    first, second = [facts(span) for span in ended() if span.name == "chat big"]
    assert first["gen_ai.request.model"] == "big"
    assert first["gen_ai.response.model"] == "scripted"
    assert first["gen_ai.request.temperature"] == 0.5
    assert first["gen_ai.response.id"] == "resp_1"
    assert first["gen_ai.usage.output_tokens"] == 3
    assert "script" in first["baton.input"]
    assert "function_call" in first["baton.output"]
    assert "sunny" in second["baton.input"]
    assert "script" not in second["baton.input"]
    called = facts(named("execute_tool f"))
    assert (called["gen_ai.tool.call.arguments"], called["gen_ai.tool.call.result"]) == ('{"n":1}', "sunny")
    assert (called["baton.settlement"], called["baton.attempt"]) == ("output", 1)


@pytest.mark.parametrize("by", ["run", "server"])
async def test_what_is_sensitive_can_be_left_out(tmp_path: Path, by: str) -> None:
    """No input, output or error text; names, tokens and the spans themselves stay. The run's word wins."""
    settings = {"trace_include_sensitive_data": by == "run"}
    tracing = {"include_sensitive_data": False} if by == "run" else {}
    agent = {"name": "Helper", "tools": [{"function": {"name": "f", "parameters_json": ANY_OBJECT}}]}
    replies = [calls(("f", '["a secret"]')), say("a secret"), fail(Reason.MODEL_UNAVAILABLE)]
    async with server(tmp_path, ScriptedModel(replies), **settings) as baton, client_of(baton) as client:
        await client.run(agent=agent, text="a secret", run_config={"tracing": tracing})
        await client.run(agent=agent, text="a secret", run_config={"tracing": tracing})

    written = "".join(span.to_json() for span in ended())
    assert "secret" not in written
    assert "as the script says" not in written
    assert facts(named("execute_tool f"))["baton.settlement"] == "arguments_invalid"
    assert {span.status.description for span in ended() if not span.status.is_ok} >= {"MODEL_UNAVAILABLE"}


async def test_the_run_may_want_what_the_server_leaves_out(tmp_path: Path) -> None:
    """The server's setting is a default."""
    settings = {"trace_include_sensitive_data": False}
    await run(tmp_path, say("Hello."), settings=settings, tracing={"include_sensitive_data": True})

    assert "a secret" in facts(named("chat scripted"))["baton.input"]


async def test_a_failed_request_is_a_span_with_its_error(tmp_path: Path) -> None:
    """Also where no reply ever came; what is around it failed by it."""
    await run(tmp_path, fail(Reason.MODEL_AUTHENTICATION))

    assert tree() == ["Agent workflow", "  invoke_agent Helper", "    round 1", "      chat"]
    for name in ("chat", "invoke_agent Helper", "Agent workflow"):
        assert named(name).status.description == "MODEL_AUTHENTICATION: as the script says"
        assert facts(named(name))["error.type"] == "MODEL_AUTHENTICATION"


async def test_a_crash_of_a_function_is_told_without_its_words(stage: Stage) -> None:
    """What an exception says may be anything; the reason is enough to find it."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.settle(call, crash={"type": "KeyError", "text": "a secret"})
    await turn.completed()

    span = named("execute_tool f")
    assert span.status.description == "HANDLER_CRASHED"
    assert "secret" not in span.to_json()


async def test_a_long_text_is_cut(stage: Stage) -> None:
    """A collector refuses what is too large, and everything that came with it."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    await worker.finish(await worker.expect("call"), output="x" * 100_000)
    await turn.completed()

    assert max(len(str(value)) for span in ended() for value in facts(span).values()) == 16 * 1024
    assert facts(named("execute_tool f"))["gen_ai.tool.call.result"].endswith("(cut)")
