"""Worker frames that must be refused, as data: each by ProtocolError, by its ack, or by a verdict."""

from __future__ import annotations

from typing import Any

from tests.wire.bad_agents import POINTERS, TIMEOUTS
from tests.wire.bad_inputs import RESULTS, TOO_LARGE
from tests.wire.good_requests import GOOD, LONG_ID, LONG_LABELS, LONG_NAME, Bad, Json, at, said


def frame(arm: str, body: Json, *paths: str, reason: str = "FRAME_INVALID") -> Bad:
    return Bad(
        rpc="HandlerService/Connect",
        request={arm: body},
        paths=tuple(at(arm, path) for path in paths),
        reason=reason,
    )


_HELLO: Json = GOOD["HandlerService/Connect"]["hello"]
_CALL: Json = {"call_id": "call_1", "attempt": 1}
_HOOK: Json = {"hook_id": "hook_1", "attempt": 1}

HELLOS: list[tuple[Json, str]] = [
    ({"instance_id": LONG_NAME}, "instance_id"),
    ({"sdk": {"name": "a\0b"}}, "sdk.name"),
    ({"scopes": ["s"] * 9}, "scopes"),
    ({"scopes": [LONG_NAME]}, "scopes[0]"),
    ({"max_message_bytes": 1}, "max_message_bytes"),
    ({"resume_token": "a\0b"}, "resume_token"),
    ({"held": [_CALL] * 10_001}, "held"),
    ({"held": [_CALL, {"attempt": 1}]}, "held[1].call_id"),
    ({"held": [_CALL, {"call_id": "call_1"}]}, "held[1].attempt"),
    ({"credit": {"messages": -1}}, "credit.messages"),
    ({"credit": {"bytes": -1}}, "credit.bytes"),
    ({"metadata": LONG_LABELS}, "metadata"),
    ({"metadata": {"k": "v" * 513}}, "metadata['k']"),
    ({"max_hook_batches": -1}, "max_hook_batches"),
    ({"max_hook_batches": 1001}, "max_hook_batches"),
]
"""Of a worker, whichever way it comes."""

NACKS: list[tuple[Json, str]] = [
    ({"delay": "-1s"}, "delay"),
    ({"delay": "3601s"}, "delay"),
    ({"reason": LONG_NAME}, "reason"),
    ({"reason": "a\0b"}, "reason"),
]

EXTENSIONS: list[tuple[Json, str]] = [({"lease": bad}, "lease") for bad in (None, "0.999s", "-1s", "3600.001s")]

REPORTS: list[tuple[Json, str]] = [
    ({"number": 0}, "number"),
    ({"number": -1}, "number"),
    ({"text": None}, "progress"),
    ({"text": "x" * 65_537}, "text"),
    ({"text": "a\0b"}, "text"),
    ({"text": None, "output_so_far": "é" * 32_769}, "output_so_far"),
    ({"text": None, "progress_json": "{"}, "progress_json"),
    ({"text": None, "progress_json": '"' + "x" * 65_536 + '"'}, "progress_json"),
]
"""Beside an attempt, the number 1 and a text."""

ANSWERS: list[tuple[list[Json], str]] = [
    ([], "answers"),
    ([{**_HOOK, "answer_json": "{}"}, {"attempt": 1, "answer_json": "{}"}], "answers[1].hook_id"),
    ([{"hook_id": LONG_ID, "attempt": 1, "answer_json": "{}"}], "answers[0].hook_id"),
    ([{"hook_id": "hook_1", "answer_json": "{}"}], "answers[0].attempt"),
    ([_HOOK], "answers[0].outcome"),
    ([{**_HOOK, "answer_json": ""}], "answers[0].answer_json"),
    ([{**_HOOK, "answer_json": "{} {}"}], "answers[0].answer_json"),
    ([{**_HOOK, "answer_json": "NaN"}], "answers[0].answer_json"),
    ([{**_HOOK, "failure": "a\0b"}], "answers[0].failure"),
    ([{**_HOOK, "crash": {"type": LONG_NAME}}], "answers[0].crash.type"),
    ([{**_HOOK, "crash": {"text": "a\0b"}}], "answers[0].crash.text"),
]


FUNCTIONS_ONLY: list[Json] = [
    {"version": "1"},
    {"description": "checks"},
    {"parameters_json": '{"type":"object"}'},
    {"execution": {}},
    {"max_concurrency": 1},
]
"""What says nothing about a hook."""


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
    *(frame("hello", {**_HELLO, **bad}, path) for bad, path in HELLOS),
    frame("hello", {**_HELLO, "held": [{}]}, "held[0].call_id", "held[0].attempt"),
    frame("register", {}, "handlers"),
    frame("unregister", {}, "handlers"),
    frame("credit", {"messages": -1}, "messages"),
    frame("credit", {"messages": 10_001}, "messages"),
    frame("credit", {"bytes": -1}, "bytes"),
    frame("credit", {"bytes": 2**40 + 1}, "bytes"),
    *_about_attempts("call_ack"),
    *_about_attempts("result", output="18 °C"),
    *_about_attempts("progress", number=1, text="half"),
    *(frame("progress", {**_CALL, **said(**{"number": 1, "text": "half", **bad})}, path) for bad, path in REPORTS),
    *(frame("hook_answers", {"batch_id": "batch_1", "answers": bad}, path) for bad, path in ANSWERS),
    frame("hook_answers", {"answers": [{**_HOOK, "answer_json": "{}"}]}, "batch_id"),
    *_about_attempts("nack"),
    *(frame("nack", {**_CALL, **bad}, path) for bad, path in NACKS),
    *_about_attempts("extend", lease="1s"),
    *(frame("extend", {**_CALL, **said(**bad)}, path) for bad, path in EXTENSIONS),
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
    ({"name": "good", "kind": "HANDLER_KIND_FUNCTION"}, "name"),
    ({"name": "f", "kind": 9}, "kind"),
    ({"name": "f", "version": "v" * 65}, "version"),
    ({"name": "f", "version": "a\0b"}, "version"),
    *(({"name": "f", "execution": {"timeout": bad}}, "execution.timeout") for bad in TIMEOUTS),
    ({"name": "f", "execution": {"side_effects": 9}}, "execution.side_effects"),
    *(({"name": "f", "execution": bad}, f"execution.{path}") for bad, path in POINTERS),
    ({"name": "f", "max_concurrency": -1}, "max_concurrency"),
    ({"name": "f", "max_concurrency": 10_001}, "max_concurrency"),
    *(
        ({"name": "f", "kind": kind, **only}, next(iter(only)))
        for kind in ("HANDLER_KIND_EFFECT_CHECK", "HANDLER_KIND_INPUT_GUARDRAIL", "HANDLER_KIND_LIFECYCLE")
        for only in FUNCTIONS_ONLY
    ),
    ({"name": "f", "parameters_json": "{"}, "parameters_json"),
    ({"name": "f", "parameters_json": '{"type":"array"}'}, "parameters_json"),
    ({"name": "f", "description": "a\0b"}, "description"),
)
"""Declarations behind one of the name `good`, each refused alone with HANDLER_INVALID and this `problem`."""
