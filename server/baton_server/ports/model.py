"""The model: one request, streamed text, one terminal reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from baton_server.core.agents import Agent, ModelSettings
from baton_server.core.errors import BatonError
from baton_server.core.inputs import ModelReplied


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked. `items`: JSON texts of Responses API items, in order, to be sent as they are.

    `model` empty: the server's default. `settings` are resolved: what is None is left to the model.
    `agent_digest` identifies what does not change over the rounds of a turn: an adapter may key a cache of the
    encoded head of the request on (agent_digest, model, settings).
    """

    turn_id: str
    round: int
    model: str
    agent: Agent
    agent_digest: str
    settings: ModelSettings
    items: Sequence[str]


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

    Its message tells what to do. It never holds a key or a header.
    """


class Model(Protocol):
    """Asks a model."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReplied]:
        """Stream the reply: any number of deltas, then exactly one ModelReplied.

        Raises ModelError. Closing the generator ends the request.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
