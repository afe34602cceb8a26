"""Items: what a model sees. Immutable values; `json` is the text that goes to the model's API.

An item is kept twice over: as fields, for the log and for people, and as the JSON text that came from the
model or the caller, which goes back byte for byte. The text is authoritative towards the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from baton_server.core.errors import Failure


class ItemStatus(StrEnum):
    """Whether an item is whole: `baton.v1.ItemStatus`."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    INCOMPLETE = "INCOMPLETE"
    FAILED = "FAILED"
    REJECTED = "REJECTED"


class Role(StrEnum):
    """Who speaks: `baton.v1.MessageRole`."""

    USER = "user"
    ASSISTANT = "assistant"
    DEVELOPER = "developer"
    SYSTEM = "system"


class Settlement(StrEnum):
    """What settled a call: `baton.v1.Settlement`."""

    OUTPUT = "OUTPUT"
    FAILURE = "FAILURE"
    CRASH = "CRASH"
    OUTSIDE_OUTPUT = "OUTSIDE_OUTPUT"
    OUTSIDE_FAILURE = "OUTSIDE_FAILURE"
    REJECTED = "REJECTED"
    GUARDRAIL = "GUARDRAIL"
    TIMEOUT = "TIMEOUT"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    ARGUMENTS_INVALID = "ARGUMENTS_INVALID"
    NOT_FOUND = "NOT_FOUND"
    WORKER_LOST = "WORKER_LOST"
    NESTED_RUN = "NESTED_RUN"
    BLOCKED = "BLOCKED"


FAILED_SETTLEMENTS = frozenset(
    {
        Settlement.FAILURE,
        Settlement.CRASH,
        Settlement.OUTSIDE_FAILURE,
        Settlement.TIMEOUT,
        Settlement.EXPIRED,
        Settlement.CANCELLED,
        Settlement.ARGUMENTS_INVALID,
        Settlement.NOT_FOUND,
        Settlement.WORKER_LOST,
    }
)
"""Settlements whose output says that the function failed (`ItemStatus.FAILED`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Plain text. `annotations_json`: a JSON array of citations, empty: none. `is_json`: a value, as JSON."""

    text: str
    annotations_json: str = ""
    is_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalPart:
    """The model's words when it refuses."""

    refusal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """A picture: exactly one of `url` (https or data) and `file_id`.

    `detail` empty: the provider's default.
    """

    url: str = ""
    file_id: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A file: exactly one of `url` (https or data) and `file_id`. `filename` empty: none."""

    url: str = ""
    file_id: str = ""
    filename: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPart:
    """A part that Baton carries without reading it, as the model's API writes it."""

    json: str


ContentPart = TextPart | RefusalPart | ImagePart | FilePart | OtherPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of the conversation; `content` has at least one part, or none for an empty text."""

    role: Role
    content: tuple[ContentPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """What the model thought, as far as it shows it."""

    summary: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    encrypted_content: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A function that the model asks for. `call_id` is Baton's; `model_call_id` goes back to the model.

    `arguments` is the model's text, byte for byte, maybe no JSON. `idempotency_key`: made of the function's
    idempotency fields; empty: it has none, and the call_id is the key.
    """

    call_id: str
    name: str
    arguments: str
    model_call_id: str
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCallOutput:
    """What came of a call. The model sees `output`; the rest is for people and programs.

    `attempt` 0 and `worker_id` empty: no worker's. `settlement` None: an output that a caller brought as a
    raw item. `error`: the handler's crash or another failure; None on success and on a handler's own words.
    `joined_call_id`: the call whose result was taken, empty: none. `custom_data_json`: of the application's own, empty:
    none.
    """

    call_id: str
    name: str
    output: tuple[ContentPart, ...]
    settlement: Settlement | None = None
    attempt: int = 0
    worker_id: str = ""
    error: Failure | None = None
    joined_call_id: str = ""
    custom_data_json: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """An item that Baton carries without reading it. `type` is its type at the model's API."""

    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffCall:
    """The model hands over to another agent. `name`: of the tool that it called; `arguments`: its text."""

    call_id: str
    name: str
    to_agent: str
    arguments: str
    model_call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffOutput:
    """What the model is told of a handoff. `to_agent` empty: another one of the same round won."""

    call_id: str
    from_agent: str
    to_agent: str
    output: str


ItemBody = Message | Reasoning | FunctionCall | FunctionCallOutput | HandoffCall | HandoffOutput | Hosted


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that a model sees: `baton.v1.Item`, and in `json` the text that goes to the model's API.

    `turn_id` empty: put in by AddItems. `agent` empty: input. `output_index`: position among the outputs of
    its round, from 0; None for input and for outputs of functions. `run_path`: calls that enclose it, outermost first.
    """

    item_id: str
    turn_id: str
    body: ItemBody
    json: str = field(repr=False)
    agent: str = ""
    status: ItemStatus = ItemStatus.COMPLETED
    output_index: int | None = None
    model_item_id: str = ""
    run_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and requests, as the provider reported them: `baton.v1.Usage`. Adds up, but for `raw_json`.

    `raw_json`: the provider's own object of one round, where it is asked for; empty: not.
    """

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    total_tokens: int = 0
    raw_json: str = ""

    def __add__(self, other: Usage) -> Usage:
        """Sum two usages, field by field."""
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
        )


def text_of(parts: tuple[ContentPart, ...]) -> str:
    """Join the plain texts of some parts."""
    return "".join(part.text for part in parts if isinstance(part, TextPart))
