"""The order in which what a run makes is shown, whatever order it was made in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.client.turns import call, handed, handoff, message, output, undecided, user

from baton import Agent, HandoffOutputItem, ToolApprovalItem, ToolCallItem, ToolCallOutputItem
from baton.items.responses import RawItem
from baton.items.run_items import Names, RunItem
from baton.runs.item_order import RunItems, arranged, key_of
from baton.v1 import item_pb2

BILLING: Agent[Any] = Agent(name="Billing")
ASSISTANT: Agent[Any] = Agent(name="Assistant", handoffs=[BILLING])


def items() -> RunItems:
    """Begin with nothing."""
    return RunItems(Names(start=ASSISTANT, agents={"Assistant": ASSISTANT, "Billing": BILLING}))


def shown(made: Iterable[RunItem]) -> list[str]:
    """Name items by type and the model's id of their call."""
    return [f"{item.type.removesuffix('_item')}:{item.call_id or ''}" for item in made]


def fed(made: RunItems, *given: item_pb2.Item) -> list[str]:
    """Feed items; name what they let be shown."""
    return shown(one for item in given for one in made.feed(item))


def test_outputs_come_in_the_order_of_the_calls_once_all_are_there() -> None:
    """A fast function waits for a slow one before it; input and nested runs are passed over."""
    made = items()
    nested = output("inner", 9)
    nested.run_path.append("call_8")

    assert fed(made, user("Hi"), call("a", 1), call("b", 2)) == ["tool_call:fc_1", "tool_call:fc_2"]
    assert fed(made, nested, output("late", 2)) == []
    assert fed(made, output("early", 1)) == ["tool_call_output:fc_1", "tool_call_output:fc_2"]


def test_a_handover_comes_after_the_functions_and_the_one_that_lost_before_it() -> None:
    """As the model reads it: the outputs, then that the second handover is ignored, then that the first happened."""
    made = items()
    fed(made, handoff(1), call("a", 1), handoff(2, "Assistant"))

    told = [one for item in (handed(1), handed(2, ""), output("x", 1)) for one in made.feed(item)]

    assert shown(told) == ["tool_call_output:fc_1", "tool_call_output:fh_2", "handoff_output:fh_1"]
    ignored, happened = told[1:]
    assert isinstance(ignored, ToolCallOutputItem) and ignored.output == "ignored"
    assert isinstance(happened, HandoffOutputItem)
    assert (happened.source_agent, happened.target_agent) == (ASSISTANT, BILLING)


def test_what_an_unknown_function_gives_comes_behind_the_others() -> None:
    """Even if it was called first."""
    made = items()
    unknown = output("no such function", 1)
    unknown.function_call_output.settlement = item_pb2.SETTLEMENT_NOT_FOUND

    fed(made, call("nope", 1), call("b", 2), unknown)

    assert fed(made, output("x", 2)) == ["tool_call_output:fc_2", "tool_call_output:fc_1"]


def test_an_output_that_nobody_gave_is_not_shown() -> None:
    """It stands in the history of a turn that failed or was cancelled, so that a model takes it."""
    made = items()
    synthetic = output("cancelled", 1)
    synthetic.function_call_output.settlement = item_pb2.SETTLEMENT_CANCELLED

    assert fed(made, call("a", 1), call("b", 2), synthetic, output("x", 2))[2:] == ["tool_call_output:fc_2"]


def test_a_pause_shows_what_is_there_in_call_order_and_asks_once() -> None:
    """Outputs of siblings and calls that wait; what is still undecided at the next pause is not shown again."""
    made = items()
    fed(made, call("a", 1), call("b", 2), call("c", 3), output("x", 2))

    first = list(made.pause([undecided("a", 1), undecided("c", 3)]))
    fed(made, output("y", 1))
    second = list(made.pause([undecided("c", 3)]))

    assert shown(first) == ["tool_approval:fc_1", "tool_call_output:fc_2", "tool_approval:fc_3"]
    assert shown(second) == ["tool_call_output:fc_1"]
    assert fed(made, output("z", 3)) == ["tool_call_output:fc_3"]


def test_an_approval_shows_the_call_as_the_model_made_it() -> None:
    """By the model's own id, with the arguments; that of a nested run is no item of the run."""
    made = items()
    fed(made, call("a", 1, '{"x":1}'))
    inner = undecided("b", 2, agent="Billing", arguments_json='{"y":2}', run_path=["call_7"])

    (own,) = made.pause([undecided("a", 1), inner])
    nested = made.interruption(inner)

    assert isinstance(own, ToolApprovalItem) and isinstance(nested, ToolApprovalItem)
    assert (own.name, own.call_id, own.arguments, own.agent) == ("a", "fc_1", '{"x":1}', ASSISTANT)
    assert (nested.tool_name, nested.call_id, nested.arguments, nested.agent) == ("b", "call_2", '{"y":2}', BILLING)


def test_an_item_is_dumped_as_one_of_the_openai_package() -> None:
    """To plain dictionaries that share nothing with it, and to JSON."""
    item = RawItem(type="message", id=None, content=[RawItem(type="output_text", text="é")])

    dumped = item.model_dump(exclude_unset=True)
    dumped["content"][0]["text"] = "changed"

    assert type(dumped["content"][0]) is dict and item.content[0].text == "é"
    assert item.model_dump(exclude_none=True) == {"type": "message", "content": [{"type": "output_text", "text": "é"}]}
    assert json.loads(item.model_dump_json(indent=2)) == item and "é" in item.model_dump_json()


def test_replies_are_told_apart() -> None:
    """By their positions, and by the outputs between them; an agent that took over makes the next one."""
    made = items()
    second = message("Done.", 3, output_index=0)
    second.agent = "Billing"
    fed(made, message("Let me.", 1, output_index=0), call("a", 1), output("x", 1), second)
    fed(made, message("More.", 4, output_index=0))

    assert [[item.type for item in reply.items] for reply in made.replies] == [
        ["message_output_item", "tool_call_item"],
        ["message_output_item"],
        ["message_output_item"],
    ]
    assert made.replies[1].items[0].agent is BILLING
    assert made.outputs["call_1"].call_id == "fc_1"


def test_what_was_seen_before_a_pause_is_not_shown_again() -> None:
    """In the same order as then, wherever the log has it; what came since follows."""
    log = [call("a", 1), call("b", 2), output("y", 1), output("x", 2), message("Done.", 4)]
    before = items()
    fed(before, *log[:2], log[3])
    asked = next(iter(before.pause([undecided("a", 1)])))
    keys = ["item_c1", "item_c2", "call_1", "item_o2"]

    again = items()
    made = list(again.seen(log, frozenset(keys), frozenset({"call_1"})))
    later = fed(again, log[2], log[4])
    assert isinstance(asked, ToolApprovalItem)

    assert shown(arranged(made, keys, {"call_1": asked})) == [
        "tool_call:fc_1",
        "tool_call:fc_2",
        "tool_approval:fc_1",
        "tool_call_output:fc_2",
    ]
    assert later == ["tool_call_output:fc_1", "message_output:"]


def test_provider_tools_have_their_own_items() -> None:
    """A search for functions, MCP, and everything else as a call."""
    made = items()
    kinds = ["tool_search_call", "tool_search_output", "mcp_list_tools", "mcp_approval_request", "web_search_call"]
    hosted = [
        item_pb2.Item(
            item_id=f"item_{kind}",
            agent="Assistant",
            hosted=item_pb2.HostedItem(type=kind, item_json=f'{{"type": "{kind}"}}'),
        )
        for kind in kinds
    ]

    told = [one for item in hosted for one in made.feed(item)]

    assert [item.type for item in told] == [f"{kind}_item" for kind in kinds[:4]] + ["tool_call_item"]
    assert isinstance(told[-1], ToolCallItem) and told[-1].tool_name is None
    assert key_of(told[0]) == "item_tool_search_call"


def test_custom_data_of_an_output_is_read() -> None:
    """An object of the application's own, which no model sees."""
    made = items()
    told = output("x", 1)
    told.function_call_output.custom_data_json = '{"row": 7}'
    fed(made, call("a", 1))

    (item,) = made.feed(told)

    assert isinstance(item, ToolCallOutputItem) and item.custom_data == {"row": 7}
