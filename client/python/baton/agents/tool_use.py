"""What happens after functions ran: the model is asked again, or an output of theirs ends the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from baton.errors import UserError
from baton.hooks import RemoteHook
from baton.hooks.answers import ToolsToFinalOutputResult
from baton.hooks.data import ToolUseData
from baton.hooks.refs import RefOf, hook_use
from baton.v1 import agent_pb2

if TYPE_CHECKING:
    from baton.agents.agent import Agent


class StopAtTools(TypedDict):
    """The output of the first call to one of these functions is the final output."""

    stop_at_tool_names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionToolResult:
    """What one function of a round gave. `tool`: as the agent has it; None: it is not known. `output`: as the model is
    told it, a text or a list of content parts."""

    tool: Any
    output: Any
    call_id: str


ToolUseBehavior = (
    Literal["run_llm_again", "stop_on_first_tool"]
    | StopAtTools
    | Callable[[Any, list[FunctionToolResult]], Any]
    | RemoteHook
)
"""A function is called as `(context, results)` and gives a ToolsToFinalOutputResult, sync or async."""


def check_tool_use(owner: str, given: object) -> None:
    """Check what stands for `tool_use_behavior`. Raises UserError, with the value."""
    if given in ("run_llm_again", "stop_on_first_tool") or isinstance(given, RemoteHook):
        return
    if isinstance(given, Mapping):
        names = given.get("stop_at_tool_names")
        listed = isinstance(names, list | tuple) and bool(names) and all(isinstance(name, str) for name in names)
        if listed and len(given) == 1:
            return
    elif callable(given):
        return
    raise UserError(
        f'{owner}: tool_use_behavior must be "run_llm_again", "stop_on_first_tool", {{"stop_at_tool_names": [names]}}, '
        f"a function or a RemoteHook, not {given!r}"
    )


def tool_use_to_pb(agent: Agent[Any], ref_of: RefOf) -> agent_pb2.ToolUseBehavior | None:
    """Write `baton.v1.ToolUseBehavior`; None: the model is asked again."""
    given: Any = agent.tool_use_behavior
    check_tool_use(f"Agent {agent.name!r}", given)
    match given:
        case "run_llm_again":
            return None
        case "stop_on_first_tool":
            return agent_pb2.ToolUseBehavior(stop_on_first_tool=True)
        case Mapping():
            return agent_pb2.ToolUseBehavior(stop_at_tools=agent_pb2.StopAtTools(names=given["stop_at_tool_names"]))
        case _:
            return agent_pb2.ToolUseBehavior(hook=ref_of(hook_use("tool_use", given, _arguments, _answer)))


def _arguments(data: ToolUseData[Any]) -> tuple[Any, ...]:
    find = data.agent.find_tool if data.agent is not None else lambda _name: None
    results = [
        FunctionToolResult(tool=find(one.tool_name), output=one.output, call_id=one.call_id) for one in data.results
    ]
    return data, results


def _answer(data: ToolUseData[Any], said: Any) -> Any:
    """Make a final output a text where the agent has no output type, as the Agents SDK does."""
    if not isinstance(said, ToolsToFinalOutputResult) or not said.is_final_output:
        return said
    plain = data.agent is None or data.agent.output_schema is None
    return ToolsToFinalOutputResult(True, str(said.final_output)) if plain else said
