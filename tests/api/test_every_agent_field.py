"""Every field about agents, whom they hand over to and whom they call is sent once and seen to work."""

import json
from typing import Any

from tests.api.calling import WEATHER, told
from tests.api.conftest import Serve
from tests.api.programs import programs
from tests.api.sending import sends
from tests.support.scripted_model import calls, say

from baton.v1 import agent_pb2, error_pb2, event_pb2

KYOTO = ("get_weather", '{"city":"Kyoto"}')
CITY = '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}'
TOOL: Any = {"function": {"name": "get_weather", "parameters_json": WEATHER}}


def texts(items: list[Any]) -> list[str]:
    """Say what of a request's items are messages."""
    parts = [item["content"] for item in items if "content" in item]
    return [part if isinstance(part, str) else "".join(one["text"] for one in part) for part in parts]


# -- handoffs ------------------------------------------------------------------------------------


@sends("""
    Agent: agents handoffs handoff_description instructions_hook
    Handoff: agent tool_name tool_description input_schema_json on_handoff enabled
    Enabled: always hook
""")
async def test_an_agent_hands_over_as_it_says(noting: Serve) -> None:
    """Under the tool's name, with what the model must say, to one that is there at the moment."""
    served = await noting(calls(("to_billing", '{"city":"Kyoto"}')), say("Paid."))
    agent = agent_pb2.Agent(
        name="Helper",
        instructions_hook={"name": "greet"},
        handoffs=[
            {
                "agent": "Billing",
                "tool_name": "to_billing",
                "tool_description": "Bills.",
                "input_schema_json": CITY,
                "on_handoff": {"name": "note"},
                "enabled": {"hook": {"name": "open"}},
            },
            {"agent": "Sales"},
            {"agent": "Sales", "tool_name": "closed", "enabled": {"always": False}},
        ],
        agents=[{"name": "Billing", "instructions": "Bill."}, {"name": "Sales", "handoff_description": "Sells."}],
    )
    answers = {
        "INSTRUCTIONS:greet": lambda _asked: {"instructions": "Greet."},
        "HANDOFF_ENABLED:open": lambda _asked: {"enabled": True},
        "ON_HANDOFF:note": lambda _asked: {},
    }

    async with programs(served.client, hooks=answers) as application:
        answer = await served.client.run(agent=agent)

    first, second = served.model.requests
    assert (first.instructions, second.instructions) == ("Greet.", "Bill.")
    assert [handoff.name for handoff in first.handoffs] == ["to_billing", "transfer_to_sales"]
    assert (first.handoffs[0].description, first.handoffs[0].input_schema_json) == ("Bills.", CITY)
    assert "Sells." in first.handoffs[1].description
    assert application.asked["open"] == [{"tool": "to_billing", "to_agent": "Billing"}]
    assert application.asked["note"] == [
        {"from_agent": "Helper", "to_agent": "Billing", "input_json": '{"city":"Kyoto"}'}
    ]
    assert (answer.turn.output, answer.turn.agent, answer.turn.last_agent) == ("Paid.", "Helper", "Billing")
    (call, done) = answer.new_items[:2]
    assert (call.handoff_call.tool_name, call.handoff_call.to_agent) == ("to_billing", "Billing")
    assert (done.handoff_output.from_agent, done.handoff_output.to_agent) == ("Helper", "Billing")


@sends("""
    Handoff: input_filters nest_history
    InputFilter: hook keep_last remove_all_tools
    KeepLast: items
    RunConfig: handoff_input_filters nest_handoff_history handoff_history
    HandoffHistory: mapper start_marker end_marker
""")
async def test_the_receiver_sees_what_it_is_to_see(noting: Serve) -> None:
    """Filtered by the handoff's own filters or the run's; folded into one message; or as a program makes it."""
    over = ("transfer_to_billing", "{}")
    served = await noting(*[calls(over), say("ok")] * 4)

    async def seen(handoff: Any, **config: Any) -> list[Any]:
        agent = agent_pb2.Agent(name="Helper", handoffs=[{"agent": "Billing", **handoff}], agents=[{"name": "Billing"}])
        items = json.dumps([{"role": "user", "content": text} for text in ("one", "two")])
        await served.client.run(agent=agent, items_json=items, run_config=config)
        return served.model.input_of(len(served.model.requests) - 1)

    def shout(asked: Any) -> Any:
        louder = [{**one, "content": one["content"].upper()} for one in asked["input_history"]]
        return {**asked, "input_history": louder}

    answers = {
        "HANDOFF_INPUT_FILTER:shout": shout,
        "HANDOFF_HISTORY:fold": lambda asked: {"input": asked["transcript"][:1]},
    }
    async with programs(served.client, hooks=answers):
        own = [{"remove_all_tools": {}}, {"keep_last": {"items": 1}}, {"hook": {"name": "shout"}}]
        filtered = await seen({"input_filters": own}, handoff_input_filters=[{"keep_last": {"items": 5}}])
        of_the_run = await seen({}, handoff_input_filters=[{"remove_all_tools": {}}])
        markers = {"start_marker": "[[", "end_marker": "]]"}
        folded = await seen({"nest_history": True}, handoff_history=markers, nest_handoff_history=False)
        mapped = await seen({}, handoff_history={"mapper": {"name": "fold"}}, nest_handoff_history=True)

    assert texts(filtered) == ["TWO"]
    assert texts(of_the_run) == ["one", "two"]
    assert len(of_the_run) == 2
    (only,) = texts(folded)
    assert "[[" in only.splitlines()
    assert only.rstrip().endswith("]]")
    assert texts(mapped) == ["one"]


# -- agents as tools -----------------------------------------------------------------------------


@sends("""
    Tool: agent
    AgentTool: agent tool_name description parameters_json input_builder output_extractor max_turns
    AgentTool: needs_approval enabled on_crash
    Approval: always
    Decision: turn_id call_id verdict
    Input: decision
""")
async def test_an_agent_is_called_as_a_tool(noting: Serve) -> None:
    """With an input and an output made by programs, once a person has allowed it; a failure is told in its words."""
    served = await noting(
        calls(("translate", '{"city":"Kyoto"}')), say("京都"),
        calls(("short", '{"input":"Nara"}')), calls(KYOTO), say("Done."),
    )  # fmt: skip
    tool = {
        "agent": "Translator",
        "tool_name": "translate",
        "description": "Translates.",
        "parameters_json": CITY,
        "input_builder": {"name": "ask"},
        "output_extractor": {"name": "take"},
        "needs_approval": {"always": True},
        "enabled": {"always": True},
    }
    short = {"agent": "Clerk", "tool_name": "short", "max_turns": 1, "on_crash": {"text": "Too long."}}
    hidden = {"agent": "Clerk", "tool_name": "hidden", "enabled": {"always": False}}
    agent = agent_pb2.Agent(
        name="Helper",
        tools=[{"agent": tool}, {"agent": short}, {"agent": hidden}],
        agents=[{"name": "Translator"}, {"name": "Clerk", "tools": [TOOL]}],
    )
    answers = {
        "AGENT_INPUT:ask": lambda asked: {"input": f"Say {json.loads(asked['arguments_json'])['city']}."},
        "AGENT_OUTPUT:take": lambda asked: {"output": f"<{asked['output']}>"},
    }
    async with programs(served.client, functions={"get_weather": lambda _given: "18"}, hooks=answers):
        paused = await served.client.run(agent=agent)
        (action,) = paused.required_actions
        allowed = {"turn_id": action.turn_id, "call_id": action.call_id, "verdict": event_pb2.VERDICT_APPROVE}
        await served.client.submit(paused.session_id, {"decision": allowed})
        events = await served.client.rest(paused.session_id)

    first, nested, _, clerk, _ = served.model.requests
    assert [tool.name for tool in first.tools] == ["translate", "short"]
    assert (first.tools[0].description, first.tools[0].parameters_json) == ("Translates.", CITY)
    assert [json.loads(item)["content"] for item in nested.items] == ["Say Kyoto."]
    assert served.model.input_of(2)[-1]["output"] == "<京都>"
    assert clerk.tools[0].name == "get_weather"
    assert served.model.input_of(4)[-1]["output"] == "Too long."
    assert told(events, "nested_run_closed")[1].error.reason == error_pb2.ERROR_REASON_MAX_TURNS_EXCEEDED
    assert told(events, "turn_completed")[0].turn.output == "Done."


# -- what is final -------------------------------------------------------------------------------


@sends("""
    Agent: output_schema
    OutputSchema: name schema_json strict
    RunConfig: error_handlers
    ErrorHandlers: invalid_final_output
    ErrorHandler: output_json include_in_history
""")
async def test_a_final_output_has_its_schema(noting: Serve) -> None:
    """The model is asked for it; what has it is JSON, and what breaks it has a fallback where one is given."""
    served = await noting(say('{"city":"Kyoto"}'), say("no JSON"))
    agent = agent_pb2.Agent(name="Helper", output_schema={"name": "place", "schema_json": CITY, "strict": False})
    fallback = {"invalid_final_output": {"output_json": '{"city":"Nara"}', "include_in_history": False}}

    good = await served.client.run(agent=agent)
    saved = await served.client.run(agent=agent, run_config={"error_handlers": fallback})

    asked = served.model.requests[0].output_schema
    assert asked is not None
    assert (asked.name, asked.schema_json, asked.strict) == ("place", CITY, False)
    assert json.loads(good.turn.output_json) == {"city": "Kyoto"}
    assert json.loads(saved.turn.output_json) == {"city": "Nara"}
    assert "Nara" not in str(await served.client.items(saved.session_id, history_only=True))


@sends("""
    Agent: tool_use_behavior keep_tool_choice
    ToolUseBehavior: stop_on_first_tool stop_at_tools hook
    StopAtTools: names
""")
async def test_functions_end_a_turn_as_the_agent_says(noting: Serve) -> None:
    """By the first output, by a name, by a program; and a forced tool stays forced where the agent keeps it."""
    served = await noting(calls(KYOTO), calls(KYOTO), calls(KYOTO), calls(KYOTO), say("Warm."))
    answers = {
        "TOOL_USE:judge": lambda asked: {"final": True, "output": f"judged {asked['results'][0]['output']}"},
    }
    outputs = []
    async with programs(served.client, functions={"get_weather": lambda _given: "18"}, hooks=answers):
        for behavior in (
            {"stop_on_first_tool": True},
            {"stop_at_tools": {"names": ["get_weather"]}},
            {"hook": {"name": "judge"}},
        ):
            agent = agent_pb2.Agent(name="Helper", tools=[TOOL], tool_use_behavior=behavior)
            outputs.append((await served.client.run(agent=agent)).turn.output)
        kept = agent_pb2.Agent(
            name="Helper", tools=[TOOL], keep_tool_choice=True, model_settings={"tool_choice": "required"}
        )
        await served.client.run(agent=kept)

    assert outputs == ["18", "18", "judged 18"]
    assert [one.settings.tool_choice for one in served.model.requests[-2:]] == ["required", "required"]


@sends("""
    Agent: output_guardrails lifecycle_hooks input_guardrails
    RunConfig: output_guardrails
    Guardrail: deny allow
    Terms: terms case_sensitive
    LifecycleHook: awaited
""")
async def test_outputs_are_checked_and_programs_are_told(noting: Serve) -> None:
    """By terms that need no program: denied ones, and ones of which one must be there."""
    served = await noting(say("The price is 3."), say("PRICE"), say("please"), say("never"))
    deny = {"name": "no prices", "deny": {"terms": ["price"], "case_sensitive": True}}
    allow = {"name": "polite", "allow": {"terms": ["please", "PRICE"]}}
    no_pii = {"name": "no pii", "deny": {"terms": ["HELLO"]}, "blocking": True}
    moments: Any = ["LIFECYCLE_MOMENT_AGENT_END"]
    listener = {"hook": {"name": "audit"}, "awaited": True, "moments": moments}
    agent = agent_pb2.Agent(name="Helper", output_guardrails=[deny], lifecycle_hooks=[listener])

    async with programs(served.client, hooks={"LIFECYCLE:audit": lambda _asked: {}}) as application:
        denied = await served.client.run(agent=agent)
        passed = await served.client.run(agent=agent, run_config={"output_guardrails": [allow]})
        missing = await served.client.run(
            agent=agent_pb2.Agent(name="Helper"),
            run_config={"output_guardrails": [{"name": "polite", "allow": {"terms": ["thanks"]}}]},
        )
        stopped = await served.client.run(agent=agent_pb2.Agent(name="Helper", input_guardrails=[no_pii]))

    reasons = [error_pb2.ErrorReason.Name(one.turn.error.reason) for one in (denied, missing, stopped)]
    assert reasons == [
        "ERROR_REASON_OUTPUT_GUARDRAIL_TRIPPED",
        "ERROR_REASON_OUTPUT_GUARDRAIL_TRIPPED",
        "ERROR_REASON_INPUT_GUARDRAIL_TRIPPED",
    ]
    assert denied.turn.error.metadata == {"guardrail": "no prices"}
    assert passed.turn.output == "PRICE"
    assert [one["moment"] for one in application.asked["audit"]] == ["agent_end", "agent_end"]
    assert application.asked["audit"][0]["output"] == "The price is 3."
