"""A step as the Responses API says it: output items, the response object, the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.modelserver.scripts import Json

ARGUMENT_PIECE = 24
"""Characters of arguments in one delta."""

_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
_TERMINAL = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}
_NOTHING_YET: dict[str, Json] = {"message": {"content": []}, "function_call": {"arguments": ""}}
_FAILURE = {"code": "server_error", "message": "The model failed to generate a response."}


def output_items(tag: str, step: Json) -> list[Json]:
    """Write the output items of a step, with ids where it gives none."""
    items = [dict(item) for item in step["output"]] if "output" in step else list(_short(step))
    for index, item in enumerate(items):
        item.setdefault("id", f"{_PREFIXES.get(item['type'], 'it')}_{tag}_{index}")
        if item["type"] == "message":
            item.setdefault("role", "assistant")
            item["content"] = [_part(part) for part in item["content"]]
        if item["type"] == "function_call":
            item.setdefault("call_id", f"call_{tag}_{index}")
        if item["type"] == "reasoning":
            item.setdefault("summary", [])
        elif item["type"] in ("message", "function_call"):
            item.setdefault("status", "completed")
    return items


def response_object(tag: str, step: Json, body: Json, output: list[Json]) -> Json:
    """Write the response object that ends a step."""
    usage = step.get("usage", {})
    sent, made = usage.get("input_tokens", 10), usage.get("output_tokens", 5)
    conversation = body.get("conversation")
    return {
        "id": f"resp_{tag}",
        "object": "response",
        "created_at": 1_800_000_000,
        "status": step.get("status", "completed"),
        "error": None,
        "incomplete_details": step.get("incomplete_details"),
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": body.get("model"),
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "temperature": body.get("temperature", 1.0),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "previous_response_id": body.get("previous_response_id"),
        "conversation": {"id": conversation} if isinstance(conversation, str) else conversation,
        "usage": {
            "input_tokens": sent,
            "input_tokens_details": {"cached_tokens": usage.get("cached_tokens", 0), "cache_write_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": usage.get("reasoning_tokens", 0)},
            "total_tokens": sent + made,
        },
        **step.get("response", {}),
    }


def failed(response: Json, step: Json) -> Json:
    """Write the response object of a step that fails."""
    error = {**_FAILURE, **step.get("fail_with", {})}
    return {**response, "status": "failed", "output": [], "usage": None, "error": error}


def stream_events(response: Json, step: Json, output: list[Json]) -> list[Json]:
    """Write the events of one streamed response, in the order in which the API sends them."""
    opening = {
        **response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None,
    }  # fmt: skip
    events: list[Json] = [{"type": f"response.{kind}", "response": opening} for kind in ("created", "in_progress")]
    for index, item in enumerate(output):
        events += _item_events(index, item)
    events.append({"type": _TERMINAL[step.get("status", "completed")], "response": response})
    if (count := step.get("fail_after_events")) is not None:
        events[count:] = [{"type": "response.failed", "response": failed(opening, step)}]
    if (count := step.get("error_after_events")) is not None:
        events[count:] = [{"type": "error", "param": None, **_FAILURE, **step.get("fail_with", {})}]
    if (count := step.get("end_after_events")) is not None:
        del events[count:]
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return events


def _short(step: Json) -> Iterator[Json]:
    if "text" in step:
        yield {"type": "message", "content": [{"type": "output_text", "text": step["text"]}]}
    if "refusal" in step:
        yield {"type": "message", "content": [{"type": "refusal", "refusal": step["refusal"]}]}
    for call in step.get("calls", []):
        arguments = call.get("arguments", {})
        yield {
            "type": "function_call",
            "name": call["name"],
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            **{key: call[key] for key in ("call_id", "namespace") if key in call},
        }


def _part(part: Json) -> Json:
    return {**part, **{k: part.get(k, []) for k in ("annotations", "logprobs") if part["type"] == "output_text"}}


def _item_events(index: int, item: Json) -> Iterator[Json]:
    at: Json = {"output_index": index}
    started = dict(item) if item["type"] == "reasoning" else {**item, "status": "in_progress"}
    started |= _NOTHING_YET.get(item["type"], {})
    yield {"type": "response.output_item.added", **at, "item": started}
    if item["type"] == "message":
        for number, part in enumerate(item["content"]):
            yield from _part_events({**at, "item_id": item["id"], "content_index": number}, part)
    elif item["type"] == "function_call":
        yield from _call_events({**at, "item_id": item["id"]}, item)
    yield {"type": "response.output_item.done", **at, "item": item}


def _part_events(where: Json, part: Json) -> Iterator[Json]:
    kind, key = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
    more: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
    yield {"type": "response.content_part.added", **where, "part": {**part, key: ""}}
    for delta in _words(part[key]) if kind == "output_text" else [part[key]]:
        yield {"type": f"response.{kind}.delta", **where, "delta": delta, **more}
    yield {"type": f"response.{kind}.done", **where, key: part[key], **more}
    yield {"type": "response.content_part.done", **where, "part": part}


def _call_events(where: Json, item: Json) -> Iterator[Json]:
    arguments, kind = item["arguments"], "response.function_call_arguments"
    for start in range(0, len(arguments), ARGUMENT_PIECE):
        yield {"type": f"{kind}.delta", **where, "delta": arguments[start : start + ARGUMENT_PIECE]}
    yield {"type": f"{kind}.done", **where, "arguments": arguments, "name": item["name"]}


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [f"{word} " for word in words[:-1]] + words[-1:]
