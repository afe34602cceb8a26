"""The body of a request to the Responses API: bytes joined by hand.

    {"model":…,"instructions":…,"tools":[…],…,"stream":true,"conversation":…,"input":[  item  ,  item  ]}
    └────────── head: the same in every round, encoded once ─────────┘      └──── this request's own ────┘

The items' texts, schemas and whatever else came as JSON go out as they are, so that neither a big integer nor a
float nor the order of keys changes, and nothing is parsed to be written again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from baton_server.core.agents import OutputSchema
from baton_server.core.jsontext import dump
from baton_server.core.settings import ModelSettings
from baton_server.core.structured import asked_schema
from baton_server.model.definitions import tool_choice, write_tools
from baton_server.model.extras import RequestError, extra_members
from baton_server.ports.model import ModelRequest

MAX_HEADS = 256
"""Heads that are kept: about the turns that run at a time in one process."""

MAX_HEAD_BYTES = 128 * 1024
"""A larger head is encoded anew each time, so that all together stay under 32 MiB."""

LOGPROBS = "message.output_text.logprobs"
"""What is to be included in a reply, so that log probabilities are in it."""

_BESIDE = frozenset({"extra_query", "extra_headers", "retry", "timeout_s"})
"""Settings that no body holds."""

_in_body = attrgetter(*(field.name for field in fields(ModelSettings) if field.name not in _BESIDE | {"metadata"}))


class BodyWriter:
    """Writes bodies and remembers their heads, the most recently used ones."""

    def __init__(self) -> None:
        self._heads: OrderedDict[Hashable, bytes] = OrderedDict()

    def write(self, request: ModelRequest, model: str) -> bytes:
        """Write the body that asks `model`, the provider's own name of it. Raises RequestError."""
        kept = ""
        if request.conversation_id:
            kept += f',"conversation":{dump(request.conversation_id)}'
        if request.previous_response_id:
            kept += f',"previous_response_id":{dump(request.previous_response_id)}'
        return self._head(request, model) + _encode(f'{kept},"input":[{",".join(request.items)}]}}')

    def _head(self, request: ModelRequest, model: str) -> bytes:
        if not request.head:  # nothing says what the rest is
            return write_head(request, model)
        key = (request.head, model, _key(request.settings))
        head = self._heads.get(key)
        if head is not None:
            self._heads.move_to_end(key)
            return head
        head = write_head(request, model)
        if len(head) <= MAX_HEAD_BYTES:
            self._heads[key] = head
            if len(self._heads) > MAX_HEADS:
                self._heads.popitem(last=False)
        return head


def write_head(request: ModelRequest, model: str) -> bytes:
    """Write a body up to what is this request's own. Raises RequestError.

    What is None or empty is left out: the model's API decides. `extra_body_json` replaces what it names;
    `extra_args_json` may name only what nothing else has set, as the arguments of a call.
    """
    settings = request.settings
    texts = {"model": dump(model)}
    if request.instructions is not None:
        texts["instructions"] = dump(request.instructions)
    if request.tools or request.handoffs:
        texts["tools"] = f"[{write_tools(request.tools, request.handoffs)}]"
    texts |= {name: dump(value) for name, value in _said(_settings(request)).items()}
    if text := _text(request.output_schema, settings.verbosity):
        texts["text"] = text
    if settings.context_management_json:
        texts["context_management"] = settings.context_management_json
    if settings.prompt_cache_options_json:
        texts["prompt_cache_options"] = settings.prompt_cache_options_json
    texts |= extra_members("extra_body_json", settings.extra_body_json)
    arguments = extra_members("extra_args_json", settings.extra_args_json)
    for name in arguments:
        if name in texts:
            raise RequestError(f"extra_args_json.{name}", "is set already: say it in one place")
    body = ",".join(_members(texts | arguments))
    return _encode(f'{{{body},"stream":true')


def _settings(request: ModelRequest) -> Mapping[str, Any]:  # Any: JSON
    settings = request.settings
    parallel = settings.parallel_tool_calls
    has_tools = bool(request.tools or request.handoffs)
    include = [*settings.response_include, *([LOGPROBS] if settings.top_logprobs is not None else [])]
    return {
        "tool_choice": tool_choice(settings.tool_choice, request.tools, request.handoffs),
        # The API refuses a word about calls where there is nothing to call.
        "parallel_tool_calls": parallel if has_tools else None,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "truncation": settings.truncation,
        "max_output_tokens": settings.max_tokens,
        "reasoning": _said({"effort": settings.reasoning_effort, "summary": settings.reasoning_summary}),
        "metadata": dict(settings.metadata or {}),
        "store": settings.store,
        "include": list(dict.fromkeys(include)),
        "top_logprobs": settings.top_logprobs,
        "prompt_cache_retention": settings.prompt_cache_retention,
    }


def _text(schema: OutputSchema | None, verbosity: str | None) -> str:
    parts = []
    if schema is not None:
        parts.append(
            f'"format":{{"type":"json_schema","name":{dump(schema.name)},'
            f'"schema":{asked_schema(schema.schema_json)},"strict":{dump(schema.strict)}}}'
        )
    if verbosity:
        parts.append(f'"verbosity":{dump(verbosity)}')
    return f"{{{','.join(parts)}}}" if parts else ""


def _members(texts: Mapping[str, str]) -> Iterator[str]:
    for name, text in texts.items():
        yield f"{dump(name)}:{text}"


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value not in ("", {}, [])}


def _key(settings: ModelSettings) -> Hashable:
    return _in_body(settings), tuple((settings.metadata or {}).items())


def _encode(text: str) -> bytes:
    # A lone surrogate can stand only in a JSON string, where its backslash form means the same.
    return text.encode("utf-8", "backslashreplace")
