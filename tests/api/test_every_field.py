"""Every field of every request is sent once and seen to work, or refused by its name.

A field that is added to the contract fails `test_every_field_of_the_contract_is_sent` until a test here, or in
the files that it imports, sends it.
"""

import json
from typing import Any

from tests.api import (
    test_every_agent_field,
    test_every_frame_field,
    test_every_hook_field,
    test_every_option_field,
    test_every_session_field,
    test_every_tool_field,
    test_every_twin_field,
)
from tests.api.calling import (
    events_in,
    everything,
    fresh,
    helper,
    kinds,
    parts_in,
    streamed_request,
)
from tests.api.conftest import Serve
from tests.api.sending import DECLARED, all_fields, missing, sends
from tests.support.scripted_model import Gate, say

from baton.v1 import agent_pb2, event_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')
PIXEL = "data:image/png;base64,iVBORw0KGgo="
DIGEST = "0" * 64
AT_REST: Any = {"unserved_grace": {"seconds": 0}}


def test_every_field_of_the_contract_is_sent() -> None:
    """No field of a request is without a test that sends it."""
    files = (
        *(test_every_agent_field, test_every_frame_field, test_every_hook_field, test_every_option_field),
        *(test_every_session_field, test_every_tool_field, test_every_twin_field),
    )
    assert {file.sends for file in files} == {sends}

    assert list(missing(DECLARED, all_fields())) == []


# -- agents --------------------------------------------------------------------------------------


@sends("""
    CreateAgentRequest: request_id agent metadata
    UpdateAgentRequest: request_id agent_id agent expected_revision metadata
    GetAgentRequest: agent_id revision
    ListAgentsRequest: page_size page_token
    ListAgentRevisionsRequest: agent_id page_size page_token
    DeleteAgentRequest: request_id agent_id
""")
async def test_agents_by_every_field(noting: Serve) -> None:
    """An agent is kept, revised, read, listed by pages and deleted."""
    agents = (await noting()).client.agents
    made = [
        (
            await agents.CreateAgent(
                agent_pb2.CreateAgentRequest(request_id=fresh(), agent=helper(), metadata={"n": str(n)})
            )
        ).revision
        for n in range(2)
    ]
    update = agent_pb2.UpdateAgentRequest(
        request_id=fresh(), agent_id=made[0].agent_id, agent=helper(), expected_revision=1, metadata={"n": "2"}
    )
    revised = (await agents.UpdateAgent(update)).revision

    assert (await agents.GetAgent(agent_pb2.GetAgentRequest(agent_id=made[0].agent_id, revision=1))).revision == made[0]
    page = await agents.ListAgents(agent_pb2.ListAgentsRequest(page_size=1))
    rest = await agents.ListAgents(agent_pb2.ListAgentsRequest(page_size=1, page_token=page.next_page_token))
    assert [*page.revisions, *rest.revisions] == [made[1], revised]
    request = agent_pb2.ListAgentRevisionsRequest(agent_id=made[0].agent_id, page_size=1)
    page_ = await agents.ListAgentRevisions(request)
    request.page_token = page_.next_page_token
    assert [*page_.revisions, *(await agents.ListAgentRevisions(request)).revisions] == [revised, made[0]]
    await agents.DeleteAgent(agent_pb2.DeleteAgentRequest(request_id=fresh(), agent_id=made[1].agent_id))
    assert (await agents.ListAgents(agent_pb2.ListAgentsRequest())).revisions == [revised]


@sends("""
    Agent: name instructions model model_settings tools
    ModelSettings: temperature top_p tool_choice parallel_tool_calls truncation max_tokens reasoning
    ModelSettings: verbosity metadata store
    ReasoningSettings: effort summary
    Tool: function
    FunctionTool: name description parameters_json strict
""")
async def test_an_agent_is_asked_as_it_says(noting: Serve) -> None:
    """Every field of an agent reaches the model's request as it was given."""
    served = await noting(say("ok"))
    schema = '{"type":"object","properties":{}}'
    agent = agent_pb2.Agent(
        name="Helper",
        instructions="Help.",
        model="gpt-5",
        tools=[{"function": {"name": "f", "description": "does", "parameters_json": schema, "strict": False}}],
        model_settings={
            "temperature": 0.0,
            "top_p": 0.5,
            "tool_choice": "f",
            "parallel_tool_calls": False,
            "truncation": "auto",
            "max_tokens": 7,
            "reasoning": {"effort": "low", "summary": "auto"},
            "verbosity": "low",
            "metadata": {"k": "v"},
            "store": True,
        },
    )

    answer = await served.client.run(agent=agent)

    (asked,) = served.model.requests
    settings = asked.settings
    assert (answer.turn.agent, asked.instructions, asked.model) == ("Helper", "Help.", "gpt-5")
    (function,) = asked.tools
    assert (function.name, function.description, function.parameters_json, function.strict) == (
        "f",
        "does",
        schema,
        False,
    )
    assert (settings.temperature, settings.top_p, settings.tool_choice) == (0.0, 0.5, "f")
    assert (settings.parallel_tool_calls, settings.truncation, settings.max_tokens) == (False, "auto", 7)
    assert (settings.reasoning_effort, settings.reasoning_summary) == ("low", "auto")
    assert (settings.verbosity, dict(settings.metadata or {}), settings.store) == ("low", {"k": "v"}, True)


@sends("""
    RunConfig: max_turns unlimited_turns model model_settings history tracing unserved_grace scopes
    History: session caller
    Tracing: disabled workflow_name group_id metadata
""")
async def test_a_turn_is_run_as_its_options_say(noting: Serve) -> None:
    """Options of a run win over the session's, field by field, and are pinned."""
    served = await noting(lambda _: say("ok"))
    client = served.client
    made = await client.session(
        run_config={"unlimited_turns": True, "model": "old", "history": {"session": {}}, **AT_REST}
    )
    config = {
        "max_turns": 3,
        "model": "gpt-5",
        "model_settings": {"temperature": 0.5},
        "tracing": {"disabled": True, "workflow_name": "w", "group_id": "g", "metadata": {"k": "v"}},
        "scopes": ["svc-7"],
    }

    turns = [await client.run(session_id=made.session_id, run_config=given) for given in ({}, config)]
    pinned = [
        await client.sessions.GetTurn(
            pb.GetTurnRequest(session_id=made.session_id, turn_id=turn.turn.turn_id, with_pinned=True)
        )
        for turn in turns
    ]
    caller = await client.run(session_id=made.session_id, run_config={"history": {"caller": {}}})

    assert [asked.model for asked in served.model.requests[:2]] == ["old", "gpt-5"]
    assert served.model.requests[1].settings.temperature == 0.5
    assert [turn.turn.HasField("max_turns") for turn in turns] == [False, True]
    run_config = pinned[1].run_config
    assert (run_config.max_turns, run_config.unlimited_turns, run_config.tracing.disabled) == (3, False, True)
    assert (run_config.tracing.workflow_name, run_config.tracing.group_id) == ("w", "g")
    assert dict(run_config.tracing.metadata) == {"k": "v"}
    assert run_config.scopes[0] == "svc-7"
    assert [len(served.model.input_of(n)) for n in range(3)] == [1, 3, 1]
    assert len(json.loads(caller.next_items_json)) == 2


# -- runs ----------------------------------------------------------------------------------------

RUN = """
    {0}: request_id session_id session_key agent agent_ref text message items_json run_config
    {0}: if_busy cancel_on_disconnect expires_after metadata max_message_bytes with_next_items
"""


@sends(RUN.format("RunRequest"))
async def test_runs_by_every_field(noting: Serve) -> None:
    """Sessions, agents, inputs and options of a run, each in its ways."""
    served = await noting(lambda _: say("ok " * 60_000))
    client = served.client
    kept = await client.agents.CreateAgent(
        agent_pb2.CreateAgentRequest(request_id=fresh(), agent=helper(instructions="kept"))
    )
    by_key = await client.run(
        session_key="user-7",
        agent_ref={"agent_id": kept.revision.agent_id},
        message={"content": [{"text": "parts"}]},
        run_config={"model": "m"},
        if_busy=pb.IF_BUSY_QUEUE,
        cancel_on_disconnect=True,
        expires_after={"seconds": 60},
        metadata={"t": "a"},
        max_message_bytes=65_536,
        with_next_items=True,
    )
    await client.run(session_id=by_key.session_id, agent=helper(), text="text")
    raw = await client.run(session_id=by_key.session_id, agent=helper(), items_json='[{"role":"user","content":"raw"}]')
    session = await client.get(by_key.session_id)

    assert (served.model.requests[0].instructions, served.model.requests[0].model) == ("kept", "m")
    said = [item["content"] for item in served.model.input_of(2) if item["role"] == "user"]
    assert said == [[{"type": "input_text", "text": "parts"}], "text", "raw"]
    assert by_key.ByteSize() <= 65_536
    assert by_key.next_items_omitted.omitted_bytes > 180_000
    assert raw.next_items_json == ""
    assert (session.key, dict(session.metadata)) == ("user-7", {"t": "a"})
    assert session.expires_at.seconds - session.last_active_at.seconds == 60


@sends(RUN.format("RunStreamedRequest") + "RunStreamedRequest: deltas after_sequence")
async def test_streamed_runs_by_every_field(noting: Serve) -> None:
    """As for Run, and how it is streamed."""
    gate = Gate()
    served = await noting(lambda asked: say("ok " * 60_000, *([gate] if asked.model == "held" else [])))
    client = served.client
    kept = await client.agents.CreateAgent(
        agent_pb2.CreateAgentRequest(request_id=fresh(), agent=helper(instructions="kept"))
    )
    request = streamed_request(
        session_key="user-7",
        agent_ref={"agent_id": kept.revision.agent_id},
        message={"content": [{"text": "parts"}]},
        expires_after={"seconds": 60},
        metadata={"t": "a"},
        max_message_bytes=65_536,
        with_next_items=True,
        deltas=event_pb2.DELTA_LEVEL_NONE,
        after_sequence=4,
    )
    messages = await everything(client.runner.RunStreamed(request))
    session_id = messages[0].started.session_id
    for given in ({"text": "text"}, {"items_json": '[{"role":"user","content":"raw"}]'}):
        await everything(client.runner.RunStreamed(streamed_request(session_id=session_id, agent=helper(), **given)))
    leaving = streamed_request(
        session_id=session_id,
        agent=helper(),
        run_config={"model": "held"},
        if_busy=pb.IF_BUSY_REJECT,
        cancel_on_disconnect=True,
    )
    stream = client.runner.RunStreamed(leaving)
    await gate.reached()
    stream.cancel()
    events = await client.rest(session_id)
    session = await client.get(session_id)

    assert served.model.requests[0].instructions == "kept"
    assert events_in(messages)[0].sequence == 5
    assert {part.WhichOneof("part") for part in parts_in(messages)} == {"event", "heartbeat"}
    assert max(message.ByteSize() for message in messages) <= 65_536
    assert messages[-1].result.next_items_omitted.omitted_bytes > 180_000
    said = [item["content"] for item in served.model.input_of(2) if item["role"] == "user"]
    assert said == [[{"type": "input_text", "text": "parts"}], "text", "raw"]
    assert kinds(events)[-2:] == ["turn_cancelled", "session_idle"]
    assert (session.key, dict(session.metadata)) == ("user-7", {"t": "a"})
    assert session.expires_at.seconds - session.last_active_at.seconds == 60
