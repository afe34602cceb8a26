"""The requests of HandlerService but for the frames of Connect (`frames`)."""

from __future__ import annotations

from baton.v1 import handler_pb2
from baton_server.wire.check import frames
from baton_server.wire.check.violations import SCOPE_CHARACTERS, Violations

DURATION_S = 315_576_000_000
"""The longest that a Duration says: 10,000 years."""


def check_watch_calls(request: handler_pb2.WatchCallsRequest) -> None:
    """Check a WatchCallsRequest, but for what it serves (`handlers`).

    Raises Refused: INVALID_REQUEST, as all checks here do; PROTOCOL_VERSION.
    """
    found = Violations()
    if request.HasField("hello"):
        frames.hello(found, "hello", request.hello)
    else:
        found.add("hello", "is required")
    found.at_least("end_after", request.end_after, 0)
    if request.HasField("end_when_idle"):
        found.duration("end_when_idle", request.end_when_idle, 0, DURATION_S)
    rest = handler_pb2.WatchCallsRequest()
    rest.CopyFrom(request)
    rest.hello.ClearField("handlers")
    found.no_nul(rest)
    found.raise_if_any()


def check_settle_call(request: handler_pb2.SettleCallRequest) -> None:
    """Check a SettleCallRequest, but for what a result brings (`check_result`, for the verdict REFUSED)."""
    found = Violations()
    arm = found.arm("", request, "settlement")
    if arm == "hook_answers":
        found.id("worker_id", request.worker_id)
        _hook_answers(found, request.hook_answers)
    else:
        found.optional_id("worker_id", request.worker_id)
    match arm:
        case "result":
            frames.attempt(found, "result", request.result)
            frames.nul_in_id(found, "result.call_id", request.result.call_id)
            found.no_nul(handler_pb2.SettleCallRequest(worker_id=request.worker_id))
        case _:
            if arm == "nack":
                frames.nack(found, "nack", request.nack)
            found.no_nul(request)
    found.raise_if_any()


def _hook_answers(found: Violations, given: handler_pb2.HookAnswers) -> None:
    if given.batch_id:
        found.add("hook_answers.batch_id", f"is {given.batch_id[:80]!r}, must be empty here: answers name their hooks")
    frames.hook_answers(found, "hook_answers", given)


def check_extend_call(request: handler_pb2.ExtendCallRequest) -> None:
    """Check an ExtendCallRequest: a lease, and what is reported about the same attempt."""
    found = Violations()
    if request.HasField("extend"):
        frames.extend(found, "extend", request.extend)
    else:
        found.add("extend", "is required")
    if request.HasField("progress"):
        frames.progress(found, "progress", request.progress)
    found.no_nul(request)
    if request.HasField("progress"):
        _same_attempt(found, request)
    found.raise_if_any()


def _same_attempt(found: Violations, request: handler_pb2.ExtendCallRequest) -> None:
    """Check that the report is about the attempt whose lease is renewed; what is malformed was told before."""
    for name in () if found else ("call_id", "attempt"):
        said, meant = getattr(request.progress, name), getattr(request.extend, name)
        if said != meant:
            found.add(f"progress.{name}", f"is {said!r}, must be {meant!r} as in extend")


def check_list_workers(request: handler_pb2.ListWorkersRequest) -> None:
    """Check a ListWorkersRequest."""
    found = Violations()
    found.page_size("page_size", request.page_size)
    if request.name:
        found.function_name("name", request.name)
    found.text("scope", request.scope, SCOPE_CHARACTERS)
    found.no_nul(request)
    found.raise_if_any()


def check_explain_call(request: handler_pb2.ExplainCallRequest) -> None:
    """Check an ExplainCallRequest."""
    found = Violations()
    found.id("call_id", request.call_id)
    found.no_nul(request)
    found.raise_if_any()
