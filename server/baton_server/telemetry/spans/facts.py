"""What spans say: attributes by OpenTelemetry's names for generative AI where there are any, else `baton.…`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from baton_server.core import jsontext
from baton_server.core.agents import Agent
from baton_server.core.events import Stage, TurnSnapshot
from baton_server.core.items import ContentPart, FunctionCall, OtherPart, RefusalPart, TextPart, Usage
from baton_server.core.run_config import Pinned, Tracing
from baton_server.core.tools import HostedTool, Tool

Value = str | bool | int | float | tuple[str, ...]
Facts = Mapping[str, Value]

TEXT_CHARACTERS = 16 * 1024
"""Of one attribute: a longer text is cut. Collectors refuse what is too large, and all that was sent with it."""

CUT = " … (cut)"


class Texts:
    """JSON texts for one attribute, kept up to its size."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._room = TEXT_CHARACTERS

    def add(self, text: str) -> None:
        """Take one more, as far as there is room."""
        if text and self._room > 0:
            self._texts.append(text[: self._room + 1])  # one more than there is room for shows that it is cut
            self._room -= len(text) + 1

    def take(self) -> str:
        """Give them as a list, and begin anew; empty: there are none."""
        texts, self._texts, self._room = self._texts, [], TEXT_CHARACTERS
        return clip(f"[{','.join(texts)}]") if texts else ""


def clip(text: str) -> str:
    """Cut a text to the size of an attribute."""
    return text if len(text) <= TEXT_CHARACTERS else text[: TEXT_CHARACTERS - len(CUT)] + CUT


def plain(parts: Iterable[ContentPart]) -> str:
    """Write an output as a text: words as they are, of the rest what it is."""
    return clip("".join(_part(part) for part in parts))


def labels(session_id: str, turn_id: str, tracing: Tracing) -> dict[str, Value]:
    """Say whose trace it is; for its outermost spans."""
    return {
        "baton.session_id": session_id,
        "baton.turn_id": turn_id,
        "baton.group_id": tracing.group_id or session_id,
        "gen_ai.conversation.id": session_id,
        **{f"baton.metadata.{key}": value for key, value in tracing.metadata.items()},
    }


def usage(used: Usage) -> Facts:
    """Say how many tokens were used."""
    return {
        "baton.usage.requests": used.requests,
        "gen_ai.usage.input_tokens": used.input_tokens,
        "gen_ai.usage.output_tokens": used.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": used.cached_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": used.reasoning_tokens,
    }


def agent(one: Agent) -> Facts:
    """Say who an agent is and what it can do."""
    schema = one.output_schema
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": one.name,
        "gen_ai.output.type": "text" if schema is None else "json",
        "baton.agent.output_type": "str" if schema is None else schema.name or "json",
        "baton.agent.tools": tuple(_tool(tool) for tool in one.tools),
        "baton.agent.handoffs": tuple(handoff.agent for handoff in one.handoffs),
    }


def request(pinned: Pinned, asked: Agent, replied: str) -> Facts:
    """Say how the model is asked for an agent. `replied`: the model that did, where nobody named one; empty: none."""
    settings = pinned.settings(asked)
    said = {
        "gen_ai.request.model": pinned.model(asked) or replied or None,
        "gen_ai.request.temperature": settings.temperature,
        "gen_ai.request.top_p": settings.top_p,
        "gen_ai.request.max_tokens": settings.max_tokens,
    }
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": asked.name,
        **{name: value for name, value in said.items() if value is not None},
    }


def function(call: FunctionCall) -> Facts:
    """Say which call it is."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.call_id,
        "gen_ai.tool.type": "function",
    }


def outcome(turn: TurnSnapshot) -> Facts:
    """Say how a turn ended."""
    return {
        "baton.status": turn.status.value,
        "baton.rounds": turn.rounds,
        "baton.last_agent": turn.last_agent,
        **({"baton.continues": turn.continues} if turn.continues else {}),
        **usage(turn.usage),
    }


def guardrail(name: str, stage: Stage, *, triggered: bool) -> Facts:
    """Say which guardrail judged, and whether it struck."""
    return {
        "baton.guardrail.name": name,
        "baton.guardrail.stage": stage.value.lower(),
        "baton.guardrail.triggered": triggered,
    }


def _tool(tool: Tool) -> str:
    if isinstance(tool, HostedTool):
        said = jsontext.parse(tool.tool_json)
        return str(said.get("type", "hosted")) if isinstance(said, dict) else "hosted"
    return getattr(tool, "name", "tool_search")


def _part(part: ContentPart) -> str:
    match part:
        case TextPart(text=text):
            return text
        case RefusalPart(refusal=refusal):
            return refusal
        case OtherPart(json=text):
            return text
        case _:
            return f"[{type(part).__name__.removesuffix('Part').lower()}]"
