"""An application by hand: its functions and hooks, each a Python function of its JSON, served on one stream."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.api.calling import WEATHER, Client, frame, soon

from baton.v1 import event_pb2, handler_pb2

Program = Callable[[Any], Any]
"""A function takes its arguments and gives a text; a hook takes its payload and gives its answer."""


class Programs:
    """What was asked of an application, by the name of its function or hook."""

    def __init__(self, stream: Any, functions: Mapping[str, Program], hooks: Mapping[str, Program]) -> None:
        self.asked: dict[str, list[Any]] = defaultdict(list)
        self._stream, self._functions = stream, functions
        self._hooks = {one.partition(":")[2]: program for one, program in hooks.items()}

    async def serve(self) -> None:
        """Answer what comes until the stream ends."""
        while isinstance(message := await self._stream.read(), handler_pb2.ConnectResponse):
            if message.HasField("call"):
                await self._call(message.call)
            elif message.HasField("hook_batch"):
                await self._batch(message.hook_batch)

    async def _call(self, call: handler_pb2.Call) -> None:
        attempt = {"call_id": call.call_id, "attempt": call.attempt}
        self.asked[call.name].append(json.loads(call.arguments_json))
        await self._stream.write(frame(call_ack=attempt))
        try:
            outcome = {"output": self._functions[call.name](json.loads(call.arguments_json))}
        except ZeroDivisionError as error:
            outcome = {"crash": {"type": type(error).__name__, "text": str(error)}}
        await self._stream.write(frame(result={**attempt, **outcome}))

    async def _batch(self, batch: handler_pb2.HookBatch) -> None:
        shared = json.loads(batch.shared_payload_json or "{}")
        answers = []
        for hook in batch.hooks:
            payload = {**shared, **json.loads(hook.payload_json)}
            self.asked[hook.name].append(payload)
            if not hook.notification:
                answer = json.dumps(self._hooks[hook.name](payload))
                answers.append({"hook_id": hook.hook_id, "attempt": hook.attempt, "answer_json": answer})
        if answers:
            await self._stream.write(frame(hook_answers={"batch_id": batch.batch_id, "answers": answers}))


@asynccontextmanager
async def programs(
    client: Client, *, functions: Mapping[str, Program] | None = None, hooks: Mapping[str, Program] | None = None
) -> AsyncIterator[Programs]:
    """Serve an application for a while. `hooks`: by `KIND:name`. A function that divides by zero has crashed."""
    functions, hooks = functions or {}, hooks or {}
    kinds = (one.partition(":") for one in hooks)
    handlers: list[dict[str, Any]] = [{"name": name, "parameters_json": WEATHER} for name in functions]
    handlers += [{"kind": event_pb2.HandlerKind.Value(f"HANDLER_KIND_{kind}"), "name": name} for kind, _, name in kinds]
    stream = client.handlers.Connect()
    await stream.write(frame(hello={"handlers": handlers, "credit": {"messages": 100}}))
    welcome = (await soon(stream.read())).welcome
    assert not [one for one in welcome.handlers if one.HasField("error")], welcome
    served = Programs(stream, functions, hooks)
    serving = asyncio.create_task(served.serve())
    try:
        yield served
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        stream.cancel()
