"""The body of a request to the Responses API: bytes joined by hand.

    {"model":…,"instructions":…,"tools":[…],…,"stream":true,"input":[  item  ,  item  ]}
    └────────── head: the same in every round, encoded once ─────────┘  └ stored texts ┘

The items' texts and the functions' parameters go out as they are, so that neither a big integer nor a float
nor the order of keys changes, and nothing is parsed to be written again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from baton_server.core.agents import Agent, FunctionTool, ModelSettings
from baton_server.core.responses import dump
from baton_server.ports.model import ModelRequest

MAX_HEADS = 256
"""Heads that are kept: about the turns that run at a time in one process."""

MAX_HEAD_BYTES = 128 * 1024
"""A larger head is encoded anew each time, so that all together stay under 32 MiB."""

_CHOICES = frozenset({"auto", "required", "none"})


class BodyWriter:
    """Writes bodies and remembers their heads, the most recently used ones."""

    def __init__(self) -> None:
        self._heads: OrderedDict[Hashable, bytes] = OrderedDict()

    def write(self, request: ModelRequest, model: str) -> bytes:
        """Write the body that asks `model`, the provider's own name of it."""
        return self._head(request, model) + _encode(",".join(request.items)) + b"]}"

    def _head(self, request: ModelRequest, model: str) -> bytes:
        if not request.agent_digest:  # nothing says what the agent is
            return write_head(request.agent, request.settings, model)
        key = (request.agent_digest, model, _key(request.settings))
        head = self._heads.get(key)
        if head is not None:
            self._heads.move_to_end(key)
            return head
        head = write_head(request.agent, request.settings, model)
        if len(head) <= MAX_HEAD_BYTES:
            self._heads[key] = head
            if len(self._heads) > MAX_HEADS:
                self._heads.popitem(last=False)
        return head


def write_head(agent: Agent, settings: ModelSettings, model: str) -> bytes:
    """Write a body up to its items. What is None or empty is left out: the model's API decides."""
    tools = ",".join(map(_tool, agent.functions))
    parts = [f'"model":{dump(model)}']
    if agent.instructions is not None:
        parts.append(f'"instructions":{dump(agent.instructions)}')
    if tools:
        parts.append(f'"tools":[{tools}]')
    parts += [f'"{name}":{dump(value)}' for name, value in _settings(settings, has_tools=bool(tools))]
    return _encode("{" + ",".join(parts) + ',"stream":true,"input":[')


def _tool(function: FunctionTool) -> str:
    parts = ['"type":"function"', f'"name":{dump(function.name)}']
    if function.description:
        parts.append(f'"description":{dump(function.description)}')
    if function.parameters_json:
        parts.append(f'"parameters":{function.parameters_json}')
    if function.strict is not None:
        parts.append(f'"strict":{dump(function.strict)}')
    return "{" + ",".join(parts) + "}"


def _settings(settings: ModelSettings, *, has_tools: bool) -> Iterator[tuple[str, Any]]:  # Any: JSON
    reasoning = _said({"effort": settings.reasoning_effort, "summary": settings.reasoning_summary})
    parallel = settings.parallel_tool_calls
    said = {
        "tool_choice": _choice(settings.tool_choice),
        # The API refuses a permission that concerns nothing; a ban it takes, as the Agents SDK knows.
        "parallel_tool_calls": parallel if has_tools or parallel is False else None,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "truncation": settings.truncation,
        "max_output_tokens": settings.max_tokens,
        "reasoning": reasoning,
        "text": _said({"verbosity": settings.verbosity}),
        "metadata": dict(settings.metadata or {}),
        "store": settings.store,
    }
    yield from _said(said).items()


def _choice(choice: str | None) -> str | dict[str, str] | None:
    if not choice or choice in _CHOICES:
        return choice
    return {"type": "function", "name": choice}


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value not in ("", {})}


def _key(settings: ModelSettings) -> Hashable:
    values = [getattr(settings, f.name) for f in fields(settings)]
    return tuple(tuple(v.items()) if isinstance(v, Mapping) else v for v in values)


def _encode(text: str) -> bytes:
    # A lone surrogate can stand only in a JSON string, where its backslash form means the same.
    return text.encode("utf-8", "backslashreplace")
