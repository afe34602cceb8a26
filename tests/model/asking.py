"""Requests as the tests make them, and what a model answers to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from baton_server.core.agents import Agent
from baton_server.core.errors import Failure
from baton_server.core.inputs import ModelReplied
from baton_server.core.responses import user_message
from baton_server.core.settings import ModelSettings
from baton_server.core.tools import FunctionTool
from baton_server.ports.model import Model, ModelError, ModelRequest, TextDelta

HELLO = user_message("Hello").json
PLAIN = Agent(name="Assistant", instructions="Be concise.")


def function(name: str, description: str = "", **properties: Any) -> FunctionTool:
    """Make a function whose properties are all required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return FunctionTool(name=name, description=description, parameters_json=json.dumps(schema), strict=True)


def asking(
    model: str,
    *,
    items: Sequence[str] = (HELLO,),
    agent: Agent = PLAIN,
    settings: ModelSettings | None = None,
    round: int = 1,  # noqa: A002 - as ModelRequest names it
    **more: Any,
) -> ModelRequest:
    """Make the request that an agent makes. `more`: other fields of it."""
    return ModelRequest(
        turn_id="turn_1",
        round=round,
        model=model,
        settings=settings or ModelSettings(),
        items=items,
        instructions=agent.instructions,
        tools=agent.tools,
        handoffs=agent.handoffs,
        output_schema=agent.output_schema,
        **more,
    )


async def answer(model: Model, request: ModelRequest) -> tuple[list[TextDelta], ModelReplied]:
    """Ask and take everything: the deltas, then the one reply."""
    parts = [part async for part in model.stream(request)]
    *deltas, reply = parts
    assert isinstance(reply, ModelReplied)
    return [delta for delta in deltas if isinstance(delta, TextDelta)], reply


async def failure(model: Model, request: ModelRequest) -> Failure:
    """Ask and return how it fails."""
    return (await error_of(model, request)).failure


async def error_of(model: Model, request: ModelRequest) -> ModelError:
    """Ask and return the error, with what retries go by."""
    with pytest.raises(ModelError) as caught:
        async with aclosing(model.stream(request)) as parts:  # type: ignore[type-var]  # a generator, each one
            async for _ in parts:
                pass
    return caught.value
