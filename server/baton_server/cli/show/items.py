"""Items in words: what was said, asked for and answered, each as a text that may have several lines."""

from __future__ import annotations

from baton.v1 import item_pb2
from baton_server.cli.show.texts import LINE, one_line, safe, shortened
from baton_server.cli.show.words import bytes_words, call_words, error_words, parts_text, word

TEXT = 2000
"""Characters of a message that are shown; a person reads on elsewhere."""

WHOLE = 10**12
"""In place of TEXT and LINE: shorten nothing."""

_ROLES = {
    item_pb2.MESSAGE_ROLE_USER: "user",
    item_pb2.MESSAGE_ROLE_ASSISTANT: "assistant",
    item_pb2.MESSAGE_ROLE_DEVELOPER: "developer",
    item_pb2.MESSAGE_ROLE_SYSTEM: "system",
}

_SETTLEMENTS = {
    item_pb2.SETTLEMENT_OUTPUT: "",
    item_pb2.SETTLEMENT_FAILURE: "failed: ",
    item_pb2.SETTLEMENT_CRASH: "crashed: ",
    item_pb2.SETTLEMENT_OUTSIDE_OUTPUT: "answered by hand: ",
    item_pb2.SETTLEMENT_OUTSIDE_FAILURE: "failed, answered by hand: ",
    item_pb2.SETTLEMENT_TIMEOUT: "timed out: ",
    item_pb2.SETTLEMENT_EXPIRED: "expired: ",
    item_pb2.SETTLEMENT_CANCELLED: "cancelled: ",
    item_pb2.SETTLEMENT_ARGUMENTS_INVALID: "not called, wrong arguments: ",
    item_pb2.SETTLEMENT_WORKER_LOST: "lost with its workers: ",
    item_pb2.SETTLEMENT_REJECTED: "not called, rejected: ",
    item_pb2.SETTLEMENT_GUARDRAIL: "rejected by a guardrail: ",
    item_pb2.SETTLEMENT_NOT_FOUND: "there is no such function: ",
    item_pb2.SETTLEMENT_NESTED_RUN: "",
    item_pb2.SETTLEMENT_BLOCKED: "held back by a guardrail: ",
}
"""What stands before an output, by what settled the call."""

_CUT = {
    item_pb2.ITEM_STATUS_INCOMPLETE: "cut off",
    item_pb2.ITEM_STATUS_REJECTED: "rejected, the turn failed over it",
}


def item_words(item: item_pb2.Item, *, whole: bool = False) -> str:
    """Write an item. `whole`: shorten nothing; else arguments and results stand on one line."""
    text, line = (WHOLE, WHOLE) if whole else (TEXT, LINE)
    note = f" ({_CUT[item.status]})" if item.status in _CUT else ""
    match item.WhichOneof("item"):
        case "message":
            said = item.message
            who = item.agent if said.role == item_pb2.MESSAGE_ROLE_ASSISTANT and item.agent else _role(said.role)
            return f"{one_line(who)}: {shortened(parts_text(said.content), text)}{note}"
        case "function_call":
            return f"→ {call_words(item.function_call, line)}{note}"
        case "function_call_output":
            return f"← {output_words(item.function_call_output, whole=whole)}"
        case "handoff_call":
            return (
                f"→ {one_line(item.handoff_call.tool_name)}({one_line(item.handoff_call.arguments_json, line)}){note}"
            )
        case "handoff_output":
            return f"← {handoff_words(item.handoff_output)}"
        case "reasoning":
            thought = "\n".join([*item.reasoning.summary, *item.reasoning.content])
            return f"thought: {shortened(thought, text) or '(not shown by the model)'}{note}"
        case "hosted":
            omitted = item.hosted.item_omitted.omitted_bytes
            shown = bytes_words(omitted) if omitted else one_line(item.hosted.item_json, line)
            return f"{one_line(item.hosted.type)}: {shown}{note}"
        case _:
            return "an item of a kind that this version does not know"


def output_words(output: item_pb2.FunctionCallOutput, *, whole: bool = False) -> str:
    """Write what came of a call: `get_weather: 18 °C`, and how, where it was not simply a worker's result."""
    text = parts_text(output.output)
    shown = safe(text) if whole else one_line(text)
    how = _SETTLEMENTS.get(output.settlement, f"{word(item_pb2.Settlement, output.settlement)}: ")
    error = f" [{error_words(output.error)}]" if output.HasField("error") else ""
    return f"{one_line(output.name)}: {how}{shown}{error}"


def handoff_words(output: item_pb2.HandoffOutput) -> str:
    """Write how a handoff ended: `Triage → Billing`, or that another one of its round won."""
    if not output.to_agent:
        return f"{one_line(output.from_agent)}: the handoff was ignored, since another one of its round won"
    return f"{one_line(output.from_agent)} → {one_line(output.to_agent)}"


def _role(role: item_pb2.MessageRole.ValueType) -> str:
    return _ROLES.get(role, word(item_pb2.MessageRole, role))
