"""What `print` shows of a run: where it stands and how much there is of it, line by line as in the Agents SDK."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from baton.agents.agent import Agent
from baton.runs.guardrail_results import TellsGuardrails

_COUNTED = {
    "new_items": "new item(s)",
    "raw_responses": "raw response(s)",
    "input_guardrail_results": "input guardrail result(s)",
    "output_guardrail_results": "output guardrail result(s)",
}
"""What is counted, by attribute."""


def agent_line(word: str, agent: Agent[Any]) -> str:
    """Name an agent, without all that it is made of."""
    return f'{word} agent: Agent(name="{agent.name}", ...)'


def output_line(output: Any) -> str:
    """Show a final output, under its type; an object of pydantic as JSON."""
    dump = getattr(output, "model_dump_json", None)
    shown = dump(indent=2) if callable(dump) and not isinstance(output, type) else str(output)
    kind = "None" if output is None else type(output).__name__
    return f"Final output ({kind}):\n" + textwrap.indent(shown, "    ")


def printed(what: TellsGuardrails, lines: Iterable[str]) -> str:
    """Write what `print` shows: the lines, how much there is of the rest, and where more of it stands."""
    name = type(what).__name__
    counts = [f"{len(getattr(what, attribute))} {words}" for attribute, words in _COUNTED.items()]
    waiting = len(getattr(what, "interruptions", ()))  # most programs know of no approvals, and of no such line
    if waiting:
        counts.append(f"{waiting} interruption(s)")
    listed = "".join(f"\n- {line}" for line in (*lines, *counts))
    return f"{name}:{listed}\n(See `{name}` for more details)"
