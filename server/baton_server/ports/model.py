"""The model: one request, streamed text, one terminal reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from baton_server.core.agents import Handoff, OutputSchema
from baton_server.core.errors import BatonError, Failure
from baton_server.core.inputs import ModelReplied
from baton_server.core.retries import Attempt
from baton_server.core.settings import ModelSettings
from baton_server.core.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked. `items`: JSON texts of Responses API items, in order, to be sent as they are.

    `model` empty: the server's default; `provider`: serves a model without a prefix, empty: the server's default.
    `instructions` None: none. `tools` and `handoffs`: what the agent has at the moment, in order, handoffs last.
    `output_schema` None: plain text. `settings` are resolved: what is None is left to the model. `conversation_id` and
    `previous_response_id`: what the model's API keeps, of which `items` are the rest; empty: nothing.
    `head`: names instructions, tools, handoffs and schema, so that an adapter may keep the encoded head of the request
    under (head, model, settings); empty: nothing says.
    """

    turn_id: str
    round: int
    model: str
    settings: ModelSettings
    items: Sequence[str]
    provider: str = ""
    instructions: str | None = None
    tools: tuple[Tool, ...] = ()
    handoffs: tuple[Handoff, ...] = ()
    output_schema: OutputSchema | None = None
    conversation_id: str = ""
    previous_response_id: str = ""
    head: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More text of the model's message.

    `output_index`: position of the message among the outputs of the round, from 0; `part_index`: part of it.
    """

    output_index: int
    part_index: int
    text: str


class ModelError(BatonError):
    """The model request failed; the failure's reason is one of the 600s of ErrorReason, or MODEL_TIMEOUT.

    Its message tells what to do. It never holds a key or a header. `attempt`: what retries go by.
    """

    def __init__(self, failure: Failure, attempt: Attempt | None = None) -> None:
        super().__init__(failure)
        self.attempt = attempt or Attempt()


class Model(Protocol):
    """Asks a model."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReplied]:
        """Stream the reply: any number of deltas, then exactly one ModelReplied.

        Raises ModelError. Closing the generator ends the request. Nothing is retried here.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
