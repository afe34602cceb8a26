"""Explanations in words: why a call does not run, or what settled it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from baton.v1 import handler_pb2, item_pb2
from baton_server.cli.show.texts import one_line
from baton_server.cli.show.words import word

CAUSE = 2000
"""Characters of a cause; the server's are shorter."""

SETTLED: Mapping[int, str] = {
    item_pb2.SETTLEMENT_OUTPUT: "by a worker's result",
    item_pb2.SETTLEMENT_FAILURE: "by its handler, which said that it failed",
    item_pb2.SETTLEMENT_CRASH: "by its handler, which raised an exception",
    item_pb2.SETTLEMENT_OUTSIDE_OUTPUT: "by a result from outside",
    item_pb2.SETTLEMENT_OUTSIDE_FAILURE: "by a failure that was told from outside",
    item_pb2.SETTLEMENT_TIMEOUT: "by its timeout",
    item_pb2.SETTLEMENT_EXPIRED: "by its expiry",
    item_pb2.SETTLEMENT_CANCELLED: "by the end of its turn",
    item_pb2.SETTLEMENT_ARGUMENTS_INVALID: "at once, for its arguments are not what its function takes",
    item_pb2.SETTLEMENT_WORKER_LOST: "after the last attempt that lost its worker",
    item_pb2.SETTLEMENT_REJECTED: "by a decision against it, or since nobody decided in time",
    item_pb2.SETTLEMENT_GUARDRAIL: "by a guardrail, which rejected it",
    item_pb2.SETTLEMENT_NOT_FOUND: "at once, for its agent has no such function",
    item_pb2.SETTLEMENT_NESTED_RUN: "by the end of the nested run that it began",
    item_pb2.SETTLEMENT_BLOCKED: "by a guardrail, which held its output back",
}


def cause_lines(explanation: handler_pb2.ExplainCallResponse) -> Iterator[str]:
    """Write the causes, the nearest first; that there is none, where the call is on its way."""
    for cause in explanation.causes:
        yield f"{word(handler_pb2.CauseKind, cause.kind)}: {one_line(cause.text, CAUSE)}"
    if not explanation.causes:
        yield "nothing keeps it: a worker gets it any moment now"


def settled_line(call_id: str, explanation: handler_pb2.ExplainCallResponse) -> str:
    """Say what settled a call."""
    name = word(item_pb2.Settlement, explanation.settlement)
    how = SETTLED.get(explanation.settlement, "by something that this version does not know")
    return f"{one_line(call_id)} is settled, {how} ({name})"
