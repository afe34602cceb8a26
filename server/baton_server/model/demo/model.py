"""The demo model: calls what a message names, then talks about the results; says in every text what it is.

A handoff comes first where the message names the agent, each once in a turn. An agent with an output schema gets the
simplest value that fits, labelled where it holds a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from baton_server.core.errors import Failure, Reason
from baton_server.core.inputs import ModelReplied
from baton_server.core.items import Usage
from baton_server.core.responses import dump, read_item, unicode
from baton_server.core.structured import asked_schema
from baton_server.model.demo.arguments import arguments_for, simplest
from baton_server.model.demo.conversation import Conversation, Made, read_conversation
from baton_server.model.demo.offers import Offer, handoff_named, handoff_offer, offers_of
from baton_server.model.demo.words import nouns, stems, telling
from baton_server.ports.clock import Clock
from baton_server.ports.model import ModelError, ModelRequest, TextDelta

DEMO = "demo"
"""Its name, as a provider and in a response."""

WORD_DELAY_S = 0.02
"""Slow enough to see that text is streamed, fast enough not to wait for it."""

LABEL = "[demo]"
"""Stands before or in everything that it says."""

MAX_QUOTE = 300
"""Characters of a message or a result that an answer repeats."""

Json = Any  # arguments are whatever a schema asks for


class DemoModel:
    """Answers without a network, the same every time. A `ports.model.Model`.

    It remembers nothing, so a request that leaves the history to it fails; no other does. `word_delay_s`: between two
    words of an answer; 0: none.
    """

    def __init__(self, clock: Clock, *, word_delay_s: float = WORD_DELAY_S) -> None:
        self._clock, self._word_delay_s = clock, word_delay_s

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReplied]:
        """Answer. See `Model.stream`."""
        if request.conversation_id or request.previous_response_id:
            raise _forgetful()
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
        text = "" if calls else unicode(_text(request, conversation))
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
    offers, handoffs = offers_of(request.tools), list(map(handoff_offer, request.handoffs))
    asked = conversation.asked
    made = {(call.name, _canonical(call.arguments)) for call in conversation.made}
    besides = frozenset().union(*(stems(offer.name) for offer in offers))

    def fresh(some: Iterable[Offer]) -> Iterator[tuple[str, str]]:
        for offer in some:
            for arguments in arguments_for(offer, asked, besides):
                text = dump(arguments)
                if (offer.name, _canonical(text)) not in made:
                    yield offer.name, text

    if choice not in (None, "", "auto", "required"):
        chosen = [offer for offer in (*offers, *handoffs) if offer.name == choice]
    elif (named := handoff_named(request.handoffs, asked)) and all(name != named.name for name, _ in made):
        return list(islice(fresh([handoff_offer(named)]), 1))
    else:
        chosen = _named(offers, asked)
    calls = list(fresh(chosen))
    if not calls and choice == "required":
        calls = list(islice(fresh([*offers, *handoffs]), 1))
    return calls[:1] if request.settings.parallel_tool_calls is False else calls


def _named(functions: Sequence[Offer], asked: str) -> list[Offer]:
    """Choose the functions whose name's words occur, else those whose description fits best."""
    words = stems(asked)
    for said in (nouns(words), telling(words)):  # "get_weather" for its weather; "add" when nothing is a noun
        by_name = [function for function in functions if stems(function.name) & said]
        if by_name:
            return by_name
    fit = {f.name: len(nouns(stems(f.description)) & words) for f in functions}
    best = max(fit.values(), default=0)
    return [f for f in functions if best and fit[f.name] == best]


def _text(request: ModelRequest, conversation: Conversation) -> str:
    if request.output_schema is not None:
        return dump(simplest(asked_schema(request.output_schema.schema_json), LABEL))
    told = [call for call in conversation.made if not _is_handoff(call)]
    if told:
        return f"{LABEL} {' '.join(map(_told, told))}"
    said = f"You said “{_cut(conversation.asked)}”." if conversation.asked else "You said nothing."
    names = [offer.name for offer in offers_of(request.tools)]
    calls = f"call a function when a message names it: {', '.join(names)}" if names else ""
    agents = ", ".join(handoff.agent for handoff in request.handoffs)
    hands_over = f"hand over to an agent that it names: {agents}" if agents else ""
    offer = ", or ".join(filter(None, (calls, hands_over))) or "repeat what I am told"
    return (
        f"{LABEL} {said} I am the built-in demo model and think nothing; I only {offer}. "
        "With OPENAI_API_KEY set, the server asks a real model."
    )


def _is_handoff(call: Made) -> bool:
    """Tell a handoff by its output, the one thing that an agent sees of those before it."""
    value = _loaded(call.output or "")
    return isinstance(value, dict) and value.keys() == {"assistant"}


def _forgetful() -> ModelError:
    message = (
        "The built-in demo model keeps no conversations and no replies to go on from. "
        "Leave run_config.history to the session, or name a model that keeps them."
    )
    facts = {"provider": DEMO, "param": "conversation"}
    return ModelError(Failure(reason=Reason.MODEL_REQUEST_INVALID, message=message, metadata=facts))


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
    read = sum(len(item.split()) for item in request.items) + len((request.instructions or "").split())
    made = sum(len(dump(item).split()) for item in output)
    return Usage(requests=1, input_tokens=read, output_tokens=made, total_tokens=read + made)
