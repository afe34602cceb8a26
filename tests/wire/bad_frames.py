"""Worker frames that must be refused, as data: each by ProtocolError, by its ack, or by a verdict."""

from __future__ import annotations

from typing import Any

from tests.wire.bad_inputs import RESULTS, TOO_LARGE
from tests.wire.good_requests import GOOD, LONG_ID, LONG_NAME, Bad, Json, at, said


def frame(arm: str, body: Json, *paths: str, reason: str = "FRAME_INVALID") -> Bad:
    return Bad(
        rpc="HandlerService/Connect",
        request={arm: body},
        paths=tuple(at(arm, path) for path in paths),
        reason=reason,
    )


_HELLO: Json = GOOD["HandlerService/Connect"]["hello"]
_CALL: Json = {"call_id": "call_1", "attempt": 1}


def _about_attempts(arm: str, **rest: Any) -> list[Bad]:
    return [
        frame(arm, {"attempt": 1, **rest}, "call_id"),
        frame(arm, {"call_id": LONG_ID, "attempt": 1, **rest}, "call_id"),
        frame(arm, {"call_id": "a\0b", "attempt": 1, **rest}, "call_id"),
        frame(arm, {"call_id": "call_1", **rest}, "attempt"),
        frame(arm, {"call_id": "call_1", "attempt": -1, **rest}, "attempt"),
    ]


BAD_FRAMES: tuple[Bad, ...] = (
    Bad(rpc="HandlerService/Connect", request={}, paths=(), reason="FRAME_UNKNOWN"),
    frame("hello", {**_HELLO, "protocol_version": 9}, reason="PROTOCOL_VERSION"),
    frame("hello", {**_HELLO, "instance_id": LONG_ID}, "instance_id"),
    frame("hello", {**_HELLO, "sdk": {"name": "a\0b"}}, "sdk.name"),
    frame("hello", {**_HELLO, "scopes": ["s"] * 9}, "scopes"),
    frame("hello", {**_HELLO, "scopes": [LONG_NAME]}, "scopes[0]"),
    frame("hello", {**_HELLO, "max_message_bytes": 1}, "max_message_bytes"),
    frame("hello", {**_HELLO, "held": [_CALL] * 10_001}, "held"),
    frame("hello", {**_HELLO, "held": [_CALL, {}]}, "held[1].call_id", "held[1].attempt"),
    frame("hello", {**_HELLO, "credit": {"messages": -1}}, "credit.messages"),
    frame("register", {}, "handlers"),
    frame("unregister", {}, "handlers"),
    frame("credit", {"messages": -1}, "messages"),
    frame("credit", {"messages": 10_001}, "messages"),
    *_about_attempts("call_ack"),
    *_about_attempts("result", output="18 °C"),
    *_about_attempts("nack"),
    frame("nack", {**_CALL, "delay": "-1s"}, "delay"),
    frame("nack", {**_CALL, "delay": "3601s"}, "delay"),
    frame("nack", {**_CALL, "reason": LONG_NAME}, "reason"),
    *_about_attempts("cancel_ack", outcome="CANCEL_OUTCOME_STOPPED"),
    frame("cancel_ack", _CALL, "outcome"),
    frame("cancel_ack", {**_CALL, "outcome": 9}, "outcome"),
    frame("heartbeat", {"held": -1}, "held"),
    frame("drain", {"reason": "a\0b"}, "reason"),
)
"""Every row is answered by ProtocolError (PROTOCOL_VERSION by a status); the stream lives."""

BAD_RESULTS: tuple[Bad, ...] = (
    *(
        frame("result", {**_CALL, **said(**{"output": "18 °C", **bad})}, path)
        for bad, path in RESULTS
        if not {"turn_id", "call_id", "success", "error"} & bad.keys()
    ),
    frame("result", {**_CALL, "failure": "a\0b"}, "failure"),
    frame("result", {**_CALL, "crash": {"type": LONG_NAME}}, "crash.type"),
    frame("result", {**_CALL, "crash": {"text": "a\0b"}}, "crash.text"),
    *(frame("result", {**_CALL, **big}, reason="RESULT_TOO_LARGE") for big in TOO_LARGE),
)
"""Every row is answered by a ResultAck with the verdict REFUSED; the call stays the worker's."""

BAD_HANDLERS: tuple[tuple[Json, str], ...] = (
    ({"name": ""}, "name"),
    ({"name": "get weather"}, "name"),
    ({"name": "good"}, "name"),
    ({"name": "f", "parameters_json": "{"}, "parameters_json"),
    ({"name": "f", "parameters_json": '{"type":"array"}'}, "parameters_json"),
    ({"name": "f", "description": "a\0b"}, "description"),
)
"""Declarations behind one of the name `good`, each refused alone with HANDLER_INVALID and this `problem`."""
