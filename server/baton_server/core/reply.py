"""A model's reply, judged: what it says twice, what it must not say, which arguments no handler may see.

Pure: nothing here records anything; `Runner` draws the consequences.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from baton_server.core import offers, texts
from baton_server.core.agents import Agent
from baton_server.core.errors import Failure, Reason, clip
from baton_server.core.inputs import ModelReplied, NewItem
from baton_server.core.items import FunctionCall, Reasoning, TextPart
from baton_server.core.jsontext import JsonError, parse
from baton_server.core.rules import Rules
from baton_server.core.run import Run
from baton_server.core.tools import AgentTool, FunctionTool

_NAME_BYTES = 128
"""Of a name or id that a model made up, in a failure: real names have at most 64 characters."""

_REASON_BYTES = 512
"""Of a model's or a provider's own words, in a failure."""

_SPACES = " \t\n\r"


def repeats(rules: Rules, run: Run, items: Sequence[NewItem]) -> frozenset[int]:
    """Find the calls that were said before, in the reply or earlier in the run: by position in the reply.

    A call is executed once. The reasoning that led to none but such a call is one of them: a model's API refuses it
    alone.
    """
    said: dict[str, tuple[str, str]] = {}
    found: set[int] = set()
    for position, item in enumerate(items):
        if not isinstance(item.body, FunctionCall):
            continue
        call = item.body
        earlier = run.asked.get(call.model_call_id) or said.get(call.model_call_id)
        if earlier is not None and _same(rules, earlier, (call.name, call.arguments)):
            found.add(position)
        said.setdefault(call.model_call_id, (call.name, call.arguments))
    led_to = -1
    for position in reversed(range(len(items)) if found else ()):
        if not isinstance(items[position].body, Reasoning):
            led_to = position
        elif led_to in found:
            found.add(position)
    return frozenset(found)


def _same(rules: Rules, one: tuple[str, str], other: tuple[str, str]) -> bool:
    return one == other or (one[0] == other[0] and rules.digest(one[1]) == rules.digest(other[1]))


def misbehaviour(
    agent: Agent, run: Run, turn_id: str, given: ModelReplied, repeated: Collection[int], *, unknown_allowed: bool
) -> Failure | None:
    """Say what the model did that it must not; None: nothing.

    `repeated`: positions of what is passed over. `unknown_allowed`: a call of something that the agent does not have is
    told to the model, and is no fault.
    """
    if given.incomplete_reason:
        reason = clip(given.incomplete_reason, _REASON_BYTES)
        return _behaviour(
            f"The model's reply is incomplete: {reason}. Raise model_settings.max_tokens if it was cut off.",
            incomplete=reason,
        )
    seen: set[str] = set()
    for position, call in ((at, item.body) for at, item in enumerate(given.items)):
        if not isinstance(call, FunctionCall):
            continue
        name, call_id = clip(call.name, _NAME_BYTES), clip(call.model_call_id, _NAME_BYTES)
        if not unknown_allowed and offers.find(turn_id, run, agent, call.name) is None:
            return _behaviour(
                f"The model called the function {name!r}, which the agent {agent.name!r} does not "
                "have. Declare it in the agent's tools, or name the functions in its instructions.",
                tool=name,
                agent=agent.name,
            )
        if not call.model_call_id:
            return _behaviour(f"The model called the function {name!r} without a call id.", tool=name, call_id="")
        if position in repeated:
            continue
        if call.model_call_id in seen or call.model_call_id in run.asked:
            return _behaviour(
                f"The model used the call id {call_id!r} for two different calls.", tool=name, call_id=call_id
            )
        seen.add(call.model_call_id)
    return None


def refusal(words: str) -> Failure:
    """Say that the model refused, in its own words."""
    words = clip(words, _REASON_BYTES)
    return Failure(
        reason=Reason.MODEL_REFUSAL,
        message=f"The model refused to produce an output: {words}",
        metadata={"refusal": words},
    )


def bad_arguments(rules: Rules, call: FunctionCall, tool: FunctionTool | AgentTool) -> TextPart | None:
    """Tell the model why a handler must not see its arguments; None: it may."""
    problem = _problem(rules, call.arguments, tool)
    if problem is None:
        return None
    return TextPart(text=f"The arguments of {call.name} were not accepted: {problem}. {texts.CALL_AGAIN}")


def ended_by_arguments(call: FunctionCall, told: TextPart) -> Failure:
    """Say that a run ends over the arguments of a call, whose function ends it when it fails. `told`: to the model."""
    name = clip(call.name, _NAME_BYTES)
    return _behaviour(clip(told.text, _REASON_BYTES), tool=name, call_id=call.call_id)


def _problem(rules: Rules, arguments: str, tool: FunctionTool | AgentTool) -> str | None:
    # No text at all means no arguments: some models leave out the braces.
    arguments = arguments if arguments.strip(_SPACES) else "{}"
    try:
        value = parse(arguments)
    except JsonError as error:
        return f"they are {error}"
    if not isinstance(value, dict):
        return "they are no JSON object"
    if isinstance(tool, AgentTool):
        if not tool.parameters_json:
            return None if "input" in value else "input is missing"
        return rules.violation(tool.parameters_json, arguments)
    return rules.violation(tool.parameters_json, arguments) if tool.strict else None


def _behaviour(message: str, **metadata: str) -> Failure:
    return Failure(reason=Reason.MODEL_BEHAVIOR_ERROR, message=message, metadata=metadata)
