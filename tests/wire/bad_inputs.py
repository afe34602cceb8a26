"""Bad inputs of a session, as data: parts, raw items, results, decisions and others; and the rows of SubmitInput."""

from __future__ import annotations

import json
from typing import Any

from tests.wire.bad_pieces import LONG_WORDS
from tests.wire.bad_settings import ROUNDS
from tests.wire.good_requests import DIGEST, LONG_ID, LONG_NAME, RESULT_LIMIT, Bad, Json, at, but, said, without_ids

PARTS: list[tuple[Json, str]] = [
    ({}, "part"),
    ({"text": "a\0b"}, "text"),
    ({"text": "a", "annotations_json": "[]"}, "annotations_json"),
    ({"text": "1", "is_json": True}, "is_json"),
    ({"refusal": "no"}, "refusal"),
    ({"omitted_text": {"omitted_bytes": 1, "sha256": DIGEST}}, "omitted_text"),
    ({"image": {}}, "image.source"),
    ({"image": {"url": "ftp://example.com/a.png"}}, "image.url"),
    ({"image": {"url": ""}}, "image.url"),
    ({"image": {"file_id": ""}}, "image.file_id"),
    ({"image": {"file_id": "f", "detail": "some"}}, "image.detail"),
    ({"image": {"omitted_url": {"omitted_bytes": 1, "sha256": DIGEST}}}, "image.omitted_url"),
    ({"file": {}}, "file.source"),
    ({"file": {"url": "/etc/hosts"}}, "file.url"),
    ({"file": {"file_id": ""}}, "file.file_id"),
    ({"file": {"file_id": "f", "filename": "a\0b"}}, "file.filename"),
    ({"file": {"omitted_url": {"omitted_bytes": 1, "sha256": DIGEST}}}, "file.omitted_url"),
    ({"other_json": "{"}, "other_json"),
    ({"other_json": "[]"}, "other_json"),
    ({"other_json": '{"text":"no type"}'}, "other_json"),
    ({"other_json": '{"type":3}'}, "other_json"),
]

ITEMS: list[tuple[str, str]] = [
    ("", ""),
    ("[", ""),
    ("{}", ""),
    ("[]", ""),
    ('[NaN]', ""),
    ("[" * 200 + "]" * 200, ""),
    (json.dumps([{"role": "user", "content": "hi"}] * 1001), ""),
    ("[3]", "[0]"),
    ("[{}]", "[0].type"),
    ('[{"role":"user","content":"a"},{"role":"nobody","content":"a"}]', "[1].role"),
    ('[{"role":"user","content":3}]', "[0].content"),
    ('[{"role":"user","content":[{"text":"a"}]}]', "[0].content[0].type"),
    ('[{"type":"function_call","call_id":"c"}]', "[0].name"),
    ('[{"type":"function_call_output","output":"a"}]', "[0].call_id"),
]  # fmt: skip

RESULTS: list[tuple[Json, str]] = [
    ({"turn_id": ""}, "turn_id"),
    ({"turn_id": LONG_ID}, "turn_id"),
    ({"call_id": ""}, "call_id"),
    ({"call_id": LONG_ID}, "call_id"),
    ({"output": None}, "outcome"),
    ({"output": "a\0b"}, "output"),
    ({"output": "a", "success": False}, "success"),
    ({"output": None, "error": "e", "success": True}, "success"),
    ({"output": None, "error": "a\0b"}, "error"),
    ({"output": None, "output_json": "{"}, "output_json"),
    ({"output": None, "output_json": "1 2"}, "output_json"),
    ({"output": None, "output_json": "NaN"}, "output_json"),
    ({"output": None, "output_parts": {}}, "output_parts.parts"),
    *(({"output": None, "output_parts": {"parts": [bad]}}, f"output_parts.parts[0].{path}")
      for bad, path in PARTS),
]  # fmt: skip

REDELIVERIES: list[tuple[Json, str]] = [
    ({"turn_id": ""}, "turn_id"),
    ({"turn_id": LONG_ID}, "turn_id"),
    ({"call_id": ""}, "call_id"),
    ({"call_id": LONG_ID}, "call_id"),
    ({"decided_by": LONG_NAME}, "decided_by"),
    ({"decided_by": "a\0b"}, "decided_by"),
]

DECISIONS: list[tuple[Json, str]] = [
    ({"turn_id": ""}, "turn_id"),
    ({"turn_id": LONG_ID}, "turn_id"),
    ({"call_id": ""}, "call_id"),
    ({"call_id": LONG_ID}, "call_id"),
    *(({"verdict": bad}, "verdict") for bad in (0, 9)),
    *(({"arguments_digest": bad}, "arguments_digest") for bad in ("0" * 63, "A" * 64)),
    *(({"definition_digest": bad}, "definition_digest") for bad in ("0" * 65, "g" * 64)),
    ({"decided_by": LONG_NAME}, "decided_by"),
    ({"decided_by": "a\0b"}, "decided_by"),
    ({"verdict": "VERDICT_REJECT", "message": LONG_WORDS}, "message"),
    ({"verdict": "VERDICT_REJECT", "message": "a\0b"}, "message"),
    ({"message": "why not"}, "message"),
]
"""Beside an approval."""

CONTINUES: list[tuple[Json, str]] = [({"turn_id": ""}, "turn_id"), ({"turn_id": LONG_ID}, "turn_id"), *ROUNDS]

CANCELS: list[tuple[Json, str]] = [
    ({"turn_id": ""}, "turn_id"),
    ({"turn_id": LONG_ID}, "turn_id"),
    ({"mode": 9}, "mode"),
    ({"reason": LONG_NAME}, "reason"),
    ({"grace": "-1s"}, "grace"),
    ({"grace": "61s"}, "grace"),
    ({"mode": "CANCEL_MODE_AFTER_ROUND", "grace": "1s"}, "grace"),
]

TOO_LARGE: list[Json] = [
    {"output": "x" * (RESULT_LIMIT + 1)},
    {"output": "é" * (RESULT_LIMIT // 2 + 1)},
    {"output_json": '"' + "x" * RESULT_LIMIT + '"'},
    {"output_parts": {"parts": [{"text": "x" * RESULT_LIMIT}, {"image": {"url": "https://x"}}]}},
    {"output_parts": {"parts": [{"file": {"url": "data:," + "x" * RESULT_LIMIT}}]}},
]


def _submit(given: Json, *paths: str, reason: str = "INVALID_REQUEST") -> Bad:
    """Put a bad input behind a good one."""
    rpc = "SessionService/SubmitInput"
    return but(rpc, *(at("inputs[1]", path) for path in paths), reason=reason, inputs=[{"text": "hello"}, given])


def _result(**fields: Any) -> Json:
    return {"tool_result": said(**{"turn_id": "turn_1", "call_id": "call_1", "output": "18 °C", **fields})}


SUBMIT: list[Bad] = [
    *without_ids("SessionService/SubmitInput", "request_id", "session_id"),
    but("SessionService/SubmitInput", "inputs", inputs=[]),
    but("SessionService/SubmitInput", "inputs", inputs=[{"text": "a"}] * 65),
    but("SessionService/SubmitInput", "if_busy", if_busy=9),
    _submit({}, "input"),
    _submit({"text": "a\0b"}, "text"),
    _submit({"message": {}}, "message.content"),
    *(_submit({"message": {"content": [bad]}}, f"message.content[0].{path}") for bad, path in PARTS),
    *(_submit({"items_json": bad}, f"items_json{path}") for bad, path in ITEMS),
    *(_submit(_result(**bad), f"tool_result.{path}") for bad, path in RESULTS),
    *(
        _submit({"redelivery": {"turn_id": "turn_1", "call_id": "call_1", **bad}}, f"redelivery.{path}")
        for bad, path in REDELIVERIES
    ),
    *(
        _submit(
            {"decision": {"turn_id": "turn_1", "call_id": "call_1", "verdict": "VERDICT_APPROVE", **bad}},
            f"decision.{path}",
        )
        for bad, path in DECISIONS
    ),
    *(_submit({"continues": {"turn_id": "turn_1", **bad}}, f"continues.{path}") for bad, path in CONTINUES),
    *(_submit({"cancel": {"turn_id": "turn_1", **bad}}, f"cancel.{path}") for bad, path in CANCELS),
    *(_submit(_result(**{"output": None, **big}), reason="RESULT_TOO_LARGE") for big in TOO_LARGE),
    _submit(_result(call_id="", output=None, error="x" * (RESULT_LIMIT + 1)), "tool_result.call_id"),
]
