"""The demo model: calls what a message names, then talks about the results; says in every text what it is."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import islice
from typing import Any

from baton_server.core.agents import FunctionTool
from baton_server.core.inputs import ModelReplied
from baton_server.core.items import Usage
from baton_server.core.responses import dump, read_item, unicode
from baton_server.model.demo.arguments import arguments_for
from baton_server.model.demo.conversation import Conversation, Made, read_conversation
from baton_server.model.demo.words import nouns, stems, telling
from baton_server.ports.clock import Clock
from baton_server.ports.model import ModelRequest, TextDelta

DEMO = "demo"
"""Its name, as a provider and in a response."""

WORD_DELAY_S = 0.02
"""Slow enough to see that text is streamed, fast enough not to wait for it."""

MAX_QUOTE = 300
"""Characters of a message or a result that an answer repeats."""

Json = Any  # arguments are whatever a schema asks for


class DemoModel:
    """Answers without a network, the same every time. A `ports.model.Model`. It never fails.

    `word_delay_s`: between two words of an answer; 0: none.
    """

    def __init__(self, clock: Clock, *, word_delay_s: float = WORD_DELAY_S) -> None:
        self._clock, self._word_delay_s = clock, word_delay_s

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReplied]:
        """Answer. See `Model.stream`."""
        began = self._clock.monotonic()
        conversation = read_conversation(request.items)
        calls = [
            {
                "type": "function_call",
                "call_id": f"call_demo_{request.turn_id}_{request.round}_{index}",
                "name": name,
                "arguments": arguments,
                "status": "completed",
            }
            for index, (name, arguments) in enumerate(_calls(request, conversation))
        ]
        text = "" if calls else unicode(_answer(conversation, request.agent.functions))
        for index, word in enumerate(re.findall(r"\S+\s*", text)):
            if index:
                await self._clock.sleep(self._word_delay_s)
            yield TextDelta(output_index=0, part_index=0, text=word)
        output = calls or [_message(text)]
        yield ModelReplied(
            round=request.round,
            items=tuple(read_item(item) for item in output),
            response_id=f"resp_demo_{request.turn_id}_{request.round}",
            model=DEMO,
            usage=_usage(request, output),
            duration_ms=round((self._clock.monotonic() - began) * 1000),
        )

    async def close(self) -> None:
        """Do nothing: it holds nothing."""


def _calls(request: ModelRequest, conversation: Conversation) -> list[tuple[str, str]]:
    """Choose the calls of this round, by name and arguments, none that the turn has made before."""
    choice = request.settings.tool_choice
    if choice == "none":
        return []
    functions = request.agent.functions
    asked = conversation.asked
    chosen = _named(functions, asked)
    if choice not in (None, "", "auto", "required"):
        chosen = [function for function in functions if function.name == choice]
    made = {(call.name, _canonical(call.arguments)) for call in conversation.made}
    besides = frozenset().union(*(stems(function.name) for function in functions))

    def fresh(some: Iterable[FunctionTool]) -> Iterator[tuple[str, str]]:
        for function in some:
            for arguments in arguments_for(function, asked, besides):
                text = dump(arguments)
                if (function.name, _canonical(text)) not in made:
                    yield function.name, text

    calls = list(fresh(chosen))
    if not calls and choice == "required":
        calls = list(islice(fresh(functions), 1))
    return calls[:1] if request.settings.parallel_tool_calls is False else calls


def _named(functions: tuple[FunctionTool, ...], asked: str) -> list[FunctionTool]:
    """Choose the functions whose name's words occur, else those whose description fits best."""
    words = stems(asked)
    for said in (nouns(words), telling(words)):  # "get_weather" for its weather; "add" when nothing is a noun
        by_name = [function for function in functions if stems(function.name) & said]
        if by_name:
            return by_name
    fit = {f.name: len(nouns(stems(f.description)) & words) for f in functions}
    best = max(fit.values(), default=0)
    return [f for f in functions if best and fit[f.name] == best]


def _answer(conversation: Conversation, functions: tuple[FunctionTool, ...]) -> str:
    if conversation.made:
        return "[demo] " + " ".join(map(_told, conversation.made))
    said = f"You said “{_cut(conversation.asked)}”." if conversation.asked else "You said nothing."
    names = ", ".join(function.name for function in functions)
    offer = f"call a function when a message names it: {names}" if names else "repeat what I am told"
    return (
        f"[demo] {said} I am the built-in demo model and think nothing; I only {offer}. "
        "With OPENAI_API_KEY set, the server asks a real model."
    )


def _told(call: Made) -> str:
    if call.output is None:
        return f"{call.name}{_shown(call.arguments)} gave no result."
    return f"{call.name}{_shown(call.arguments)} says “{_cut(call.output)}”."


def _shown(arguments: str) -> str:
    value = _loaded(arguments)
    if not isinstance(value, dict):
        return f"({_cut(arguments)})"
    parts = (f"{name}: {v if isinstance(v, str) else dump(v)}" for name, v in value.items())
    return f"({_cut(', '.join(parts))})"


def _canonical(arguments: str) -> str:
    value = _loaded(arguments)
    return arguments if value is None else json.dumps(value, sort_keys=True)


def _loaded(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + "…"


def _message(text: str) -> dict[str, Json]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def _usage(request: ModelRequest, output: list[dict[str, Json]]) -> Usage:
    """Count words where a model counts tokens."""
    read = sum(len(item.split()) for item in request.items) + len((request.agent.instructions or "").split())
    made = sum(len(dump(item).split()) for item in output)
    return Usage(requests=1, input_tokens=read, output_tokens=made, total_tokens=read + made)
