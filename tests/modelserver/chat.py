"""Chat Completions: plain and as server-sent events. The steps are the same."""

from __future__ import annotations

import json
from collections.abc import Iterator

from aiohttp import web

from tests.modelserver.replies import ARGUMENT_PIECE, output_items, response_object
from tests.modelserver.responses import delay, error_answer
from tests.modelserver.scripts import ApiError, Json, Scripts, compact


class ChatApi:
    """Serves /chat/completions."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Answer a request with one object or with a stream."""
        raw = await request.read()
        body = json.loads(raw)
        try:
            taken = self._scripts.take(request, body, raw, _as_items(body["messages"]))
        except ApiError as error:
            return error_answer(error)
        await delay(taken)
        message = _message(output_items(taken.tag, taken.step))
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        if taken.step.get("status") == "incomplete":
            reason = "length"
        base: Json = {"id": f"chatcmpl_{taken.tag}", "created": 1_800_000_000, "model": body.get("model")}
        counted = response_object(taken.tag, taken.step, body, [])["usage"]
        usage = {
            "prompt_tokens": counted["input_tokens"],
            "completion_tokens": counted["output_tokens"],
            "total_tokens": counted["total_tokens"],
        }
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
            return web.json_response({**base, "object": "chat.completion", "usage": usage, "choices": [choice]})
        choices: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in _deltas(message)]
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
        base = {**base, "object": "chat.completion.chunk"}
        chunks: list[Json] = [{**base, "choices": [choice]} for choice in choices]
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**base, "choices": [], "usage": usage})
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for text in (*map(compact, chunks), "[DONE]"):
            await answer.write(f"data: {text}\n\n".encode())
        return answer


def _as_items(messages: list[Json]) -> list[Json]:
    """Write messages as the items that a rule counts."""
    return [
        {"type": "function_call_output"} if message["role"] == "tool" else {"role": message["role"]}
        for message in messages
    ]


def _message(output: list[Json]) -> Json:
    parts = [part for item in output if item["type"] == "message" for part in item["content"]]
    texts = [part["text"] for part in parts if part["type"] == "output_text"]
    refusals = [part["refusal"] for part in parts if part["type"] == "refusal"]
    calls = [
        {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        for item in output
        if item["type"] == "function_call"
    ]
    message: Json = {
        "role": "assistant",
        "content": "".join(texts) if texts else None,
        "refusal": refusals[-1] if refusals else None,
    }
    return {**message, "tool_calls": calls} if calls else message


def _deltas(message: Json) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    if message["content"]:
        words = message["content"].split(" ")
        yield from ({"content": f"{word} "} for word in words[:-1])
        yield {"content": words[-1]}
    if message["refusal"]:
        yield {"refusal": message["refusal"]}
    for index, call in enumerate(message.get("tool_calls", [])):
        function = call["function"]
        opening = {"name": function["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": opening}]}
        for start in range(0, len(function["arguments"]), ARGUMENT_PIECE):
            piece = {"arguments": function["arguments"][start : start + ARGUMENT_PIECE]}
            yield {"tool_calls": [{"index": index, "function": piece}]}
