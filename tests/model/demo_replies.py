"""The demo model, asked: functions that it may call, and what its replies hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.model.asking import answer, asking, function
from tests.model.clock import InstantClock

from baton_server.core.agents import Agent
from baton_server.core.inputs import ModelReplied, NewItem
from baton_server.core.items import FunctionCall, Message, TextPart, text_of
from baton_server.core.responses import output_json
from baton_server.core.settings import ModelSettings
from baton_server.model.demo import DemoModel

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
CURRENCY = {"enum": ["USD", "EUR", "NOK"]}
FUNCTIONS = (
    function("get_weather", "Weather of a city.", city=TEXT),
    function("get_time", "Local time of a place.", city=TEXT),
    function("add", "Sums.", a=INTEGER, b=INTEGER),
    function("convert_currency", amount={"type": "number"}, source=CURRENCY, target=CURRENCY),
    function("lookupOrder", "Finds what somebody has bought.", order_id=TEXT),
    function("send_email", to=TEXT, body=TEXT),
    function("echo", text=TEXT),
    function("roll_dice", sides={"type": "integer", "default": 6}),
)
AGENT = Agent(name="Assistant", tools=FUNCTIONS)


async def reply_to(items: Sequence[str], agent: Agent = AGENT, **settings: Any) -> ModelReplied:
    """Ask for the next reply."""
    model = DemoModel(InstantClock(), word_delay_s=0)
    _, reply = await answer(model, asking("demo", items=items, agent=agent, settings=ModelSettings(**settings)))
    return reply


def calls_of(reply: ModelReplied) -> list[tuple[str, Any]]:
    """Read the calls of a reply, their arguments parsed."""
    bodies = [item.body for item in reply.items]
    return [(body.name, json.loads(body.arguments)) for body in bodies if isinstance(body, FunctionCall)]


def text_in(reply: ModelReplied) -> str:
    """Read the one message of a reply."""
    (item,) = reply.items
    assert isinstance(item.body, Message)
    return text_of(item.body.content)


def answered(call: NewItem, output: str) -> list[str]:
    """Write a call and its output, as the next request carries them."""
    assert isinstance(call.body, FunctionCall)
    return [call.json, output_json(call.body.model_call_id, (TextPart(text=output),))]
