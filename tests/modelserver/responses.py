"""The Responses API: plain, as server-sent events, over WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from aiohttp import WSMsgType, web

from tests.modelserver.replies import failed, output_items, response_object, stream_events
from tests.modelserver.scripts import ApiError, Json, Scripts, Taken, compact


class ResponsesApi:
    """Serves /responses."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Answer a request with one object or with a stream."""
        raw = await request.read()
        body = json.loads(raw)
        try:
            taken = self._scripts.take(request, body, raw)
        except ApiError as error:
            return error_answer(error)
        try:
            await delay(taken)
            if "answer" in taken.step:
                answer = taken.step["answer"]
                return web.Response(
                    status=answer.get("status", 200), content_type=answer["content_type"], text=answer["text"]
                )
            if taken.step.get("hang_up"):
                cut(request)
                return web.Response()
            return await self._answer(request, body, taken)
        except (asyncio.CancelledError, ConnectionError):
            self._scripts.left(taken)
            raise

    async def websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Answer the requests of one connection, each with the events of a stream."""
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            if message.type != WSMsgType.TEXT:
                continue
            body = json.loads(message.data)
            body.pop("type", None)
            body = body.get("response", body) if "model" not in body else body
            try:
                taken = self._scripts.take(request, body, message.data.encode())
            except ApiError as error:
                await socket.send_json({"type": "error", "status": error.status, **error.body()})
                continue
            await delay(taken)
            output = output_items(taken.tag, taken.step)
            response = response_object(taken.tag, taken.step, body, output)
            events = stream_events(response, taken.step, output)
            await _send(taken, events, socket.send_json, request)
        return socket

    async def _answer(self, request: web.Request, body: Json, taken: Taken) -> web.StreamResponse:
        output = output_items(taken.tag, taken.step)
        response = response_object(taken.tag, taken.step, body, output)
        if not body.get("stream"):
            if "drop_after_events" in taken.step:
                cut(request)
            return web.json_response(failed(response, taken.step) if "fail_after_events" in taken.step else response)
        headers = {"Content-Type": "text/event-stream", "x-request-id": f"req_{taken.tag}"}
        answer = web.StreamResponse(headers=headers)
        await answer.prepare(request)
        end, size = taken.step.get("line_end", "\n"), taken.step.get("chunk_bytes")

        async def write(event: Json) -> None:
            data = f"event: {event['type']}{end}data: {compact(event)}{end}{end}".encode()
            for start in range(0, len(data), size or len(data)):
                await answer.write(data[start : start + (size or len(data))])

        await _send(taken, stream_events(response, taken.step, output), write, request)
        while taken.step.get("flood_after_events") is not None:
            await answer.write(b":" + b"x" * 16_384 + b"\n\n")
        if milliseconds := taken.step.get("end_delay_ms"):
            await asyncio.sleep(milliseconds / 1000)
        return answer


async def delay(taken: Taken) -> None:
    """Wait as the step wants before its first byte."""
    if milliseconds := taken.step.get("delay_ms"):
        await asyncio.sleep(milliseconds / 1000)


def cut(request: web.Request) -> None:
    """Cut the connection without a word."""
    if request.transport is not None:
        request.transport.abort()


def error_answer(error: ApiError) -> web.Response:
    """Write an error as HTTP."""
    return web.json_response(error.body(), status=error.status, headers=error.headers)


async def _send(
    taken: Taken, events: list[Json], write: Callable[[Json], Awaitable[None]], request: web.Request
) -> None:
    step = taken.step
    for number in range(len(events) + 1):
        if number == step.get("drop_after_events"):
            cut(request)
            return
        if number == step.get("pause_after_events") and taken.script is not None:
            await taken.script.resumed.wait()
        if number == step.get("flood_after_events") or number == len(events):
            return
        if step.get("delta_delay_ms") and events[number]["type"].endswith(".delta"):
            await asyncio.sleep(step["delta_delay_ms"] / 1000)
        await write(events[number])
