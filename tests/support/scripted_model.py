"""A model whose replies a test writes, and releases piece by piece: no test of a running turn has to sleep.

gate = Gate()
model = ScriptedModel([say("Hello, ", gate, "world"), calls(("get_weather", '{"city":"Kyoto"}')), say("Done.")])
…
await gate.reached()  # the turn is in the middle of its first reply
gate.open()
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from baton_server.core.errors import Failure, Reason
from baton_server.core.inputs import ModelReplied
from baton_server.core.items import Usage
from baton_server.core.responses import read_item
from baton_server.ports.model import ModelError, ModelRequest, TextDelta

PATIENCE_S = 10.0
"""How long a test waits for what must come."""


class Gate:
    """A place in a reply where the model waits until the test lets it go on."""

    def __init__(self) -> None:
        self._reached, self._opened = asyncio.Event(), asyncio.Event()

    async def reached(self) -> None:
        """Wait until the model stands here."""
        async with asyncio.timeout(PATIENCE_S):
            await self._reached.wait()

    def open(self) -> None:
        """Let the model go on."""
        self._opened.set()

    async def pass_through(self) -> None:
        """Stand here until the test opens it; for the model."""
        self._reached.set()
        await self._opened.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model answers to one request.

    `pieces`: gates, and fragments of text as they are streamed; the gates behind the last text stand before
    the reply itself. `items`: the outputs, as the Responses API writes them. `failure`: in place of a reply.
    """

    pieces: tuple[Gate | str, ...] = ()
    items: tuple[dict[str, Any], ...] = ()
    failure: Failure | None = None
    incomplete: str = ""
    usage: Usage = field(default_factory=lambda: Usage(requests=1, input_tokens=7, output_tokens=3, total_tokens=10))


def say(*pieces: Gate | str) -> Reply:
    """Answer with a message, streamed in these pieces."""
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    return Reply(pieces=pieces, items=(message(text),))


def calls(*given: tuple[str, str], before: Gate | None = None) -> Reply:
    """Answer with calls of functions: (name, arguments as JSON text). `before`: stands before the reply."""
    items = tuple(
        {"type": "function_call", "call_id": f"model_call_{index}", "name": name, "arguments": arguments}
        for index, (name, arguments) in enumerate(given)
    )
    return Reply(pieces=() if before is None else (before,), items=items)


def fail(reason: Reason, *pieces: Gate | str) -> Reply:
    """Fail after these pieces."""
    return Reply(pieces=pieces, failure=Failure(reason=reason, message="as the script says"))


def message(text: str) -> dict[str, Any]:
    """Make an assistant's message as the Responses API writes it."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


class ScriptedModel:
    """Answers each request with the next reply; a function in its place is asked for one.

    `requests`: what was asked, in order. `closed`: streams that were left before their reply.
    """

    def __init__(self, script: Iterable[Reply] | Callable[[ModelRequest], Reply]) -> None:
        self._script = script if callable(script) else _in_order(script)
        self.requests: list[ModelRequest] = []
        self.closed = 0
        self._asked = asyncio.Condition()

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReplied]:
        """Implement `ports.model.Model`."""
        self.requests.append(request)
        async with self._asked:
            self._asked.notify_all()
        reply = self._script(request)
        try:
            for piece in reply.pieces:
                if isinstance(piece, Gate):
                    await piece.pass_through()
                else:
                    yield TextDelta(output_index=0, part_index=0, text=piece)
        except (asyncio.CancelledError, GeneratorExit):
            self.closed += 1
            raise
        if reply.failure is not None:
            raise ModelError(reply.failure)
        yield self._replied(request, reply)

    async def asked(self, times: int) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(PATIENCE_S), self._asked:
            await self._asked.wait_for(lambda: len(self.requests) >= times)

    async def close(self) -> None:
        """Implement `ports.model.Model`."""

    def input_of(self, index: int) -> list[Any]:
        """Read the items that a request carried."""
        return [json.loads(item) for item in self.requests[index].items]

    def _replied(self, request: ModelRequest, reply: Reply) -> ModelReplied:
        number = len(self.requests)
        unique = [
            {**item, "call_id": f"{item['call_id']}_{number}"} if item["type"] == "function_call" else item
            for item in reply.items
        ]
        return ModelReplied(
            round=request.round,
            items=tuple(read_item(item) for item in unique),
            response_id=f"resp_{number}",
            model="scripted",
            usage=reply.usage,
            incomplete_reason=reply.incomplete,
        )


def _in_order(script: Iterable[Reply]) -> Callable[[ModelRequest], Reply]:
    replies = iter(script)

    def following(request: ModelRequest) -> Reply:
        for reply in replies:
            return reply
        raise AssertionError(f"the script has no reply for round {request.round} of {request.turn_id}")

    return following
