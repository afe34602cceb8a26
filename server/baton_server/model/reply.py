"""What a stream of the Responses API says: deltas of text, then the reply.

Of the stream only text deltas and the terminal event are parsed; all other events are told by their bytes
and passed over. The terminal response is what counts: what was streamed before it is a preview. JSON is read
by the standard library, since the faster readers round big integers and refuse lone surrogates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from baton_server.core.inputs import ModelReplied, NewItem
from baton_server.core.items import Usage
from baton_server.core.responses import ItemError, dump, read_item, unicode
from baton_server.model.failures import Provider
from baton_server.ports.model import TextDelta

# A cheap sieve: what passes it is parsed and looked at again, so that a text which only quotes a name is
# taken for what it is.
_OF_INTEREST = re.compile(
    rb'"type"\s*:\s*"'
    rb'(?:(response\.output_item\.done)|response\.(?:output_text\.delta|completed|incomplete|failed)|error)"'
)

_OPENING = re.compile(rb'"type"\s*:\s*"response\.(?:created|in_progress|queued)"')
"""Events that say no more than that the request has arrived."""


class ReplyReader:
    """Reads the events of one request's stream.

    `reply` is None until the terminal event has been fed. `begun`: an event of the reply came, one that neither opens
    the stream nor says how it fails. `raw_usage`: the reply carries the provider's own usage.
    """

    def __init__(self, provider: Provider, model: str, round_: int, *, raw_usage: bool = False) -> None:
        self._provider, self._model, self._round, self._raw_usage = provider, model, round_, raw_usage
        self._done_items: list[bytes] = []  # events, parsed only if the terminal one brings no items
        self.reply: ModelReplied | None = None
        self.begun = False

    def feed(self, data: bytes) -> TextDelta | None:
        """Take the data of one event and return its text, if it has any. Raises ModelError."""
        delta = self._read(data)
        self.begun = self.begun or _OPENING.search(data) is None
        return delta

    def _read(self, data: bytes) -> TextDelta | None:
        found = _OF_INTEREST.search(data)
        if found is None:
            return None
        if found[1]:
            self._done_items.append(data)
            return None
        event = self._parse(data)
        match event.get("type"):
            case "response.output_text.delta":
                return _delta(event)
            case "response.completed" | "response.incomplete" as kind:
                self._end(self._response(event), is_incomplete=kind == "response.incomplete")
            case "response.failed":
                raise self._provider.failed_event(self._model, self._response(event).get("error"))
            case "error":
                raise self._provider.failed_event(self._model, event.get("error") or event)
            case _:
                pass  # an event that only quotes one of these names
        return None

    def _end(self, response: Mapping[str, Any], *, is_incomplete: bool) -> None:
        if response.get("status") == "failed":
            raise self._provider.failed_event(self._model, response.get("error"))
        output = response.get("output") or [self._parse(data).get("item") for data in self._done_items]
        if not isinstance(output, list):
            self._malformed(f"its output is no list but {type(output).__name__}")
        self.reply = ModelReplied(
            round=self._round,
            items=tuple(self._item(raw, index) for index, raw in enumerate(output)),
            response_id=_text(response.get("id")),
            model=_text(response.get("model")),
            usage=self._usage(_mapping(response.get("usage"))),
            incomplete_reason=_incomplete_reason(response, is_incomplete),
        )

    def _usage(self, usage: Mapping[str, Any]) -> Usage:
        read = _usage(usage)
        if not (self._raw_usage and usage):
            return read
        try:
            return replace(read, raw_json=dump(usage, "usage"))
        except ItemError as error:
            self._malformed(str(error), error)

    def _item(self, raw: Any, index: int) -> NewItem:
        try:
            return read_item(raw, f"output[{index}]", of_model=True)
        except ItemError as error:
            self._malformed(str(error), error)

    def _response(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        response = event.get("response")
        if not isinstance(response, dict):
            self._malformed(f"{event['type']} holds no response")
        return response

    def _parse(self, data: bytes) -> Mapping[str, Any]:
        try:
            event = _DECODER.decode(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            self._malformed(f"an event of {len(data)} bytes is no JSON ({error})", error)
        return _mapping(event)

    def _malformed(self, problem: str, cause: Exception | None = None) -> NoReturn:
        raise self._provider.malformed(self._model, problem) from cause


def _delta(event: Mapping[str, Any]) -> TextDelta | None:
    text = event.get("delta")
    if not isinstance(text, str) or not text:
        return None
    return TextDelta(
        output_index=_count(event.get("output_index")),
        part_index=_count(event.get("content_index")),
        text=unicode(text),
    )


def _incomplete_reason(response: Mapping[str, Any], is_incomplete: bool) -> str:
    reason = _text(_mapping(response.get("incomplete_details")).get("reason"))
    if reason or not (is_incomplete or response.get("status") == "incomplete"):
        return reason
    return "unknown"


def _usage(usage: Mapping[str, Any]) -> Usage:
    sent, made = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))
    return Usage(
        requests=1,
        input_tokens=sent,
        cached_input_tokens=_count(_mapping(usage.get("input_tokens_details")).get("cached_tokens")),
        output_tokens=made,
        reasoning_tokens=_count(_mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
        total_tokens=_count(usage.get("total_tokens")) or sent + made,
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= _MAX_COUNT else 0


def _text(value: Any) -> str:
    return unicode(value) if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large for a number")  # it could not be written as JSON again
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


_MAX_COUNT = 2**31 - 1  # above it a count is none, and would not fit where it goes

_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
