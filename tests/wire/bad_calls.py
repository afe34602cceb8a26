"""Requests of HandlerService that must be refused, as data: the half-duplex twin, and the two lists of why."""

from __future__ import annotations

from tests.wire.bad_frames import ANSWERS, EXTENSIONS, HELLOS, NACKS, REPORTS
from tests.wire.good_requests import LONG_ID, LONG_NAME, Bad, Json, but, pages, said, without_ids

_CALL: Json = {"call_id": "call_1", "attempt": 1}
_ANSWERS: Json = {"answers": [{"hook_id": "hook_1", "attempt": 1, "answer_json": "{}"}]}
_REPORT: Json = {**_CALL, "number": 1, "text": "half"}

_WATCH, _SETTLE, _EXTEND = "HandlerService/WatchCalls", "HandlerService/SettleCall", "HandlerService/ExtendCall"
_LIST = "HandlerService/ListWorkers"


def _of_attempt(rpc: str, arm: str, rest: Json) -> list[Bad]:
    """Name an attempt wrongly in one of the messages of a request."""
    changes: list[tuple[Json, str]] = [
        ({"attempt": 1}, "call_id"),
        ({"call_id": LONG_ID, "attempt": 1}, "call_id"),
        ({"call_id": "a\0b", "attempt": 1}, "call_id"),
        ({"call_id": "call_1"}, "attempt"),
        ({"call_id": "call_1", "attempt": -1}, "attempt"),
    ]
    return [but(rpc, f"{arm}.{path}", **{"result": None, arm: {**rest, **bad}}) for bad, path in changes]


BAD_CALLS: tuple[Bad, ...] = (
    but(_WATCH, "hello", hello=None),
    *(but(_WATCH, f"hello.{path}", hello=bad) for bad, path in HELLOS),
    but(_WATCH, "end_after", end_after=-1),
    but(_WATCH, "end_when_idle", end_when_idle="-1s"),
    but(_WATCH, "hello.instance_id", "end_after", hello={"instance_id": LONG_NAME}, end_after=-1),
    but(_SETTLE, "settlement", result=None),
    *(but(_SETTLE, "worker_id", worker_id=bad) for bad in (LONG_ID, "a\0b")),
    *_of_attempt(_SETTLE, "result", {"output": "18 °C"}),
    *(but(_SETTLE, f"hook_answers.{path}", result=None, hook_answers={"answers": bad}) for bad, path in ANSWERS),
    but(_SETTLE, "hook_answers.batch_id", result=None, hook_answers={"batch_id": "batch_1", **_ANSWERS}),
    but(_SETTLE, "worker_id", worker_id=None, result=None, hook_answers=_ANSWERS),
    *_of_attempt(_SETTLE, "nack", {}),
    *(but(_SETTLE, f"nack.{path}", result=None, nack={**_CALL, **bad}) for bad, path in NACKS),
    but(_EXTEND, "extend", extend=None),
    *_of_attempt(_EXTEND, "extend", {"lease": "1s"}),
    *(but(_EXTEND, f"extend.{path}", extend={**_CALL, **said(**bad)}) for bad, path in EXTENSIONS),
    *(but(_EXTEND, f"progress.{path}", progress=said(**{**_REPORT, **bad})) for bad, path in REPORTS),
    *(
        but(_EXTEND, f"progress.{path}", progress={**_REPORT, path: bad})
        for path, bad in (("call_id", ""), ("call_id", "call_2"), ("attempt", 0), ("attempt", 2))
    ),
    *pages(_LIST),
    but(_LIST, "page_token", page_token="a\0b"),
    but(_LIST, "name", name="get weather"),
    but(_LIST, "scope", scope=LONG_NAME),
    but(_LIST, "scope", scope="a\0b"),
    *without_ids("HandlerService/ExplainCall", "call_id"),
)
"""Every row ends its rpc."""
