"""Runs of agents as tools: nested in the turn of the call, with rounds of their own, outside its history."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from baton_server.core import texts
from baton_server.core.course import asking, ending
from baton_server.core.course.here import Here, Next
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import AgentChanged, CallReturned, HookKind, NestedRunCreated
from baton_server.core.hooks.answers import AnswerError, members, read_output, required
from baton_server.core.inputs import CallSettled, NewItem
from baton_server.core.items import ContentPart, FunctionCallOutput, Message, Settlement, TextPart, text_of
from baton_server.core.jsontext import dump, parse
from baton_server.core.recorder import Recorder
from baton_server.core.request import as_list, as_object
from baton_server.core.responses import ItemError, read_items, user_message
from baton_server.core.run import CallRecord
from baton_server.core.tools import AgentTool

MAX_DEPTH = 8
"""Runs inside one another: agents that hand over to each other could nest without end (agent.proto, `AgentTool`)."""

MAX_AT_ONCE = 128
"""Nested runs of a turn that go on at once: each asks a model, and is looked at with every event (PROTOCOL.md §5)."""


def run(here: Here, call: CallRecord, tool: AgentTool) -> Next:
    """Begin the run of an agent tool, once its input is known; while it goes on there is nothing to say."""
    inner = here.state.runs.get(call.path)
    if inner is not None:
        return ()
    if len(call.path) > MAX_DEPTH:
        return partial(_give_up, call=call, failure=_too_deep(call), here=here)
    if len(here.state.runs) > MAX_AT_ONCE:  # the turn's own among them
        return partial(_give_up, call=call, failure=_too_many(call), here=here)
    if here.state.cancel is not None:
        return lambda record: ending.close(record, (call.call.call_id,))
    if tool.input_builder is None:
        return partial(_begin, call=call, tool=tool, items=(user_message(_default_input(call, tool)),), here=here)
    hook_id = asking.call_hook_id(here, "a", call.call.call_id)
    answer = asking.answered(here, hook_id)
    if answer is None:
        payload = asking.fixed(arguments_json=call.call.arguments)
        settle = asking.verbatim(_read_input)
        return (asking.question(here, hook_id, HookKind.AGENT_INPUT, tool.input_builder, payload, settle),)
    if answer.failure is not None:
        return partial(_give_up, call=call, failure=answer.failure, here=here)
    return partial(_begin, call=call, tool=tool, items=_read_input(answer.answer_json), here=here)


def extracted(here: Here, call: CallRecord, tool: AgentTool, given: CallSettled) -> CallSettled | Next:
    """Say what the model is told of a nested run's output: as a program says, or the output itself."""
    if tool.output_extractor is None:
        return given
    hook_id = asking.call_hook_id(here, "c", call.call.call_id)
    answer = asking.answered(here, hook_id)
    inner = here.state.runs.get(call.path)
    if answer is None:
        made = here.state.items_of(inner) if inner is not None else []
        items = as_list([item.json for item in made if item.agent])
        text = as_object(
            output=_as_json(given.output),
            new_items=items,
            last_agent=dump(tool.agent if inner is None else inner.agent),
        )
        settle = asking.verbatim(read_output)
        ref = tool.output_extractor
        return (asking.question(here, hook_id, HookKind.AGENT_OUTPUT, ref, lambda _history: text, settle),)
    if answer.failure is not None:
        return _crashed(given.call_id, answer.failure)
    return CallSettled(call_id=given.call_id, settlement=given.settlement, output=read_output(answer.answer_json))


def output_of(here: Here, output: TextPart) -> TextPart:
    """Say what a nested run gave: its final output, or where that is empty the last thing that was said in it."""
    if output.text or here.state.pinned.output_guardrails(here.agent):
        return output
    for item in reversed(here.state.items_of(here.run)):
        match item.body:
            case Message(content=content) if item.agent and text_of(content):
                return TextPart(text=text_of(content))
            case FunctionCallOutput(output=told) if text_of(told):
                return TextPart(text=text_of(told))
            case _:
                pass
    return output


def _begin(record: Recorder, call: CallRecord, tool: AgentTool, items: tuple[NewItem, ...], here: Here) -> None:
    record(NestedRunCreated(call_id=call.call.call_id, agent=tool.agent), here.run)
    inner = record.state.runs[call.path]
    record(AgentChanged(agent=tool.agent), inner)
    for item in items:
        record.item(item, inner)


def _give_up(record: Recorder, call: CallRecord, failure: Failure, here: Here) -> None:
    crashed = _crashed(call.call.call_id, failure)
    came = CallReturned(call_id=crashed.call_id, settlement=crashed.settlement, output=crashed.output, error=failure)
    record(came, here.run)


def _too_deep(call: CallRecord) -> Failure:
    return Failure(
        reason=Reason.USER_ERROR,
        message=f"The agent tool {call.call.name!r} was called {len(call.run_path)} runs deep, which is the most. Let "
        "its agents not call one another without end.",
        metadata={"tool": call.call.name, "limit": str(MAX_DEPTH)},
    )


def _too_many(call: CallRecord) -> Failure:
    return Failure(
        reason=Reason.USER_ERROR,
        message=f"The agent tool {call.call.name!r} was called while {MAX_AT_ONCE} nested runs of the turn went on, "
        "which is the most at once. Have the model call fewer agents in one reply.",
        metadata={"tool": call.call.name, "limit": str(MAX_AT_ONCE)},
    )


def _crashed(call_id: str, failure: Failure) -> CallSettled:
    words = (TextPart(text=texts.FUNCTION_FAILED),)
    return CallSettled(call_id=call_id, settlement=Settlement.CRASH, output=words, error=failure)


def _default_input(call: CallRecord, tool: AgentTool) -> str:
    """Say what a nested run begins with: the text `input`, else the arguments as data."""
    arguments = call.call.arguments.strip() or "{}"
    value = parse(arguments)
    if not tool.parameters_json and isinstance(value, dict) and isinstance(value.get("input"), str):
        return str(value["input"])
    sections = [texts.STRUCTURED_INPUT, f"## Input\n```json\n{arguments}\n```"]
    if tool.parameters_json:
        sections.append(f"## Its schema\n```json\n{tool.parameters_json}\n```")
    return "\n\n".join(sections)


def _read_input(answer_json: str) -> tuple[NewItem, ...]:
    value, text = required(members(answer_json), "input")
    if isinstance(value, str) and text.startswith('"'):
        return (user_message(value),)
    if not isinstance(value, list):
        raise AnswerError("$.input", "must be a text or a list of Responses API items")
    try:
        return read_items(text, "$.input")
    except ItemError as error:
        raise AnswerError(error.path, error.problem) from None


def _as_json(output: Sequence[ContentPart]) -> str:
    """Write the output of a nested run as JSON, if it is none already."""
    text = text_of(tuple(output))
    return text if any(isinstance(part, TextPart) and part.is_json for part in output) else dump(text)
