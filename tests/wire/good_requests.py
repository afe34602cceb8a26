"""Good requests, one per rpc, and what a row of the table of bad ones is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from tests.wire.good_agents import AGENT, RUN_CONFIG, Json

from baton.v1 import agent_pb2, handler_pb2, runner_pb2, session_pb2

RESULT_LIMIT = 4_194_304
LONG_ID = "i" * 129
LONG_NAME = "n" * 257
LONG_LABELS = {f"k{n}": "v" for n in range(17)}
DIGEST = "0" * 64

REQUESTS: Mapping[str, type[Message]] = {
    "AgentService/CreateAgent": agent_pb2.CreateAgentRequest,
    "AgentService/GetAgent": agent_pb2.GetAgentRequest,
    "AgentService/ListAgents": agent_pb2.ListAgentsRequest,
    "AgentService/ListAgentRevisions": agent_pb2.ListAgentRevisionsRequest,
    "AgentService/UpdateAgent": agent_pb2.UpdateAgentRequest,
    "AgentService/DeleteAgent": agent_pb2.DeleteAgentRequest,
    "SessionService/CreateSession": session_pb2.CreateSessionRequest,
    "SessionService/GetSession": session_pb2.GetSessionRequest,
    "SessionService/ListSessions": session_pb2.ListSessionsRequest,
    "SessionService/UpdateSession": session_pb2.UpdateSessionRequest,
    "SessionService/DeleteSession": session_pb2.DeleteSessionRequest,
    "SessionService/SubmitInput": session_pb2.SubmitInputRequest,
    "SessionService/Watch": session_pb2.WatchRequest,
    "SessionService/Converse": session_pb2.ConverseRequest,
    "SessionService/ListItems": session_pb2.ListItemsRequest,
    "SessionService/AddItems": session_pb2.AddItemsRequest,
    "SessionService/RemoveItems": session_pb2.RemoveItemsRequest,
    "SessionService/ListTurns": session_pb2.ListTurnsRequest,
    "SessionService/GetTurn": session_pb2.GetTurnRequest,
    "SessionService/ListEvents": session_pb2.ListEventsRequest,
    "SessionService/ReadContent": session_pb2.ReadContentRequest,
    "SessionService/ListRequiredActions": session_pb2.ListRequiredActionsRequest,
    "RunnerService/Run": runner_pb2.RunRequest,
    "RunnerService/RunStreamed": runner_pb2.RunStreamedRequest,
    "HandlerService/Connect": handler_pb2.ConnectRequest,
    "HandlerService/WatchCalls": handler_pb2.WatchCallsRequest,
    "HandlerService/SettleCall": handler_pb2.SettleCallRequest,
    "HandlerService/ExtendCall": handler_pb2.ExtendCallRequest,
    "HandlerService/ListWorkers": handler_pb2.ListWorkersRequest,
    "HandlerService/ExplainCall": handler_pb2.ExplainCallRequest,
}

_ANY_START = {name: value for name, value in RUN_CONFIG.items() if name != "start_agent"}
"""Options that go with any agent."""

_RUN: Json = {
    "request_id": "r-1", "session_key": "user-7", "agent": AGENT, "text": "hello", "run_config": _ANY_START,
    "if_busy": "IF_BUSY_QUEUE", "expires_after": "60s", "metadata": {"k": "v"}, "max_message_bytes": 65536,
}  # fmt: skip

GOOD: Mapping[str, Json] = {
    "AgentService/CreateAgent": {"request_id": "r-1", "agent": AGENT, "metadata": {"k": "v"}},
    "AgentService/GetAgent": {"agent_id": "agent_1", "revision": 1},
    "AgentService/ListAgents": {"page_size": 100},
    "AgentService/ListAgentRevisions": {"agent_id": "agent_1"},
    "AgentService/UpdateAgent": {
        "request_id": "r-1", "agent_id": "agent_1", "agent": {"name": "Helper"}, "expected_revision": 1,
    },
    "AgentService/DeleteAgent": {"request_id": "r-1", "agent_id": "agent_1"},
    "SessionService/CreateSession": {
        "request_id": "r-1", "key": "user-7", "get_or_create": True, "agent": AGENT, "run_config": RUN_CONFIG,
        "scopes": ["svc-7", ""], "metadata": {"k": "v"}, "expires_after": "60s",
    },
    "SessionService/GetSession": {"session_id": "sess_1"},
    "SessionService/ListSessions": {
        "page_size": 0, "statuses": ["SESSION_STATUS_IDLE"], "metadata": {"k": "v"},
    },
    "SessionService/UpdateSession": {"request_id": "r-1", "session_id": "sess_1", "update_mask": "metadata"},
    "SessionService/DeleteSession": {"request_id": "r-1", "session_id": "sess_1"},
    "SessionService/SubmitInput": {
        "request_id": "r-1", "session_id": "sess_1", "if_busy": "IF_BUSY_STEER", "inputs": [
            {"text": "hello"},
            {"decision": {
                "turn_id": "turn_1", "call_id": "call_1", "verdict": "VERDICT_REJECT", "always": True,
                "always_in_session": True, "arguments_digest": DIGEST, "definition_digest": DIGEST,
                "decided_by": "d" * 256, "message": "m" * 4096,
            }},
            {"decision": {"turn_id": "turn_1", "call_id": "call_2", "verdict": "VERDICT_APPROVE"}},
            {"continues": {"turn_id": "turn_1", "max_turns": 1000000}},
            {"continues": {"turn_id": "turn_1", "unlimited_turns": True}},
        ],
    },
    "SessionService/Watch": {
        "session_id": "sess_1", "after_sequence": 0, "follow": "FOLLOW_NONE", "deltas": "DELTA_LEVEL_NONE",
        "turn_id": "turn_1", "root_only": True, "max_message_bytes": 65536,
    },
    "SessionService/Converse": {"watch": {"session_id": "sess_1"}},
    "SessionService/ListItems": {"session_id": "sess_1", "page_size": 1, "turn_id": "turn_1"},
    "SessionService/AddItems": {
        "request_id": "r-1", "session_id": "sess_1", "items_json": '[{"role":"user","content":"hi"}]',
    },
    "SessionService/RemoveItems": {"request_id": "r-1", "session_id": "sess_1", "last": 1},
    "SessionService/ListTurns": {"session_id": "sess_1"},
    "SessionService/GetTurn": {"session_id": "sess_1", "turn_id": "turn_1"},
    "SessionService/ListEvents": {"session_id": "sess_1", "page_size": 1000},
    "SessionService/ReadContent": {"session_id": "sess_1", "sha256": DIGEST, "max_message_bytes": 65536},
    "SessionService/ListRequiredActions": {
        "states": ["REQUIRED_ACTION_STATE_UNSERVED"], "names": ["get_weather"], "scopes": ["svc-7", ""],
    },
    "RunnerService/Run": _RUN,
    "RunnerService/RunStreamed": {**_RUN, "deltas": "DELTA_LEVEL_NONE", "after_sequence": 3, "root_only": True},
    "HandlerService/Connect": {
        "hello": {
            "protocol_version": 1, "instance_id": "pod-7", "scopes": ["svc-7"],
            "handlers": [{"name": "get_weather"}], "max_message_bytes": 65536, "resume_token": "secret",
            "held": [{"call_id": "call_1", "attempt": 1}], "credit": {"messages": 10000, "bytes": 2**40},
            "metadata": {"k": "v"}, "max_hook_batches": 1000,
        }
    },
    "HandlerService/WatchCalls": {
        "hello": {"handlers": [{"name": "get weather"}]}, "end_after": 1, "end_when_idle": "0s",
    },
    "HandlerService/SettleCall": {
        "worker_id": "worker_1", "result": {"call_id": "call_1", "attempt": 1, "output_json": "judged by the ack"},
    },
    "HandlerService/ExtendCall": {
        "extend": {"call_id": "call_1", "attempt": 1, "lease": "3600s"},
        "progress": {"call_id": "call_1", "attempt": 1, "number": 1, "progress_json": '"half"'},
    },
    "HandlerService/ListWorkers": {"page_size": 100, "name": "get_weather", "scope": ""},
    "HandlerService/ExplainCall": {"call_id": "call_1"},
}  # fmt: skip
"""One request per rpc with which nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A request that must be refused.

    `paths`: exactly the fields that must be named, in any order. `reason`: INVALID_REQUEST, or what else is
    told; then `paths` may be empty.
    """

    rpc: str
    request: Json = field(repr=False)  # some are megabytes
    paths: tuple[str, ...]
    reason: str = "INVALID_REQUEST"

    @property
    def message(self) -> Message:
        """The request as its message."""
        return json_format.ParseDict(self.request, REQUESTS[self.rpc]())

    def __str__(self) -> str:
        """Name the row: rpc and what is wrong."""
        return f"{self.rpc.partition('/')[2]}:{','.join(self.paths) or self.reason}"


def rows(table: Iterable[Bad]) -> list[Any]:
    """Make parameters of a test, each with an id of its own."""
    return [pytest.param(bad, id=f"{number:03}-{bad}") for number, bad in enumerate(table)]


def but(rpc: str, *paths: str, reason: str = "INVALID_REQUEST", **changes: Any) -> Bad:
    """Change a good request; a field that becomes None is left out."""
    request = {key: value for key, value in {**GOOD[rpc], **changes}.items() if value is not None}
    return Bad(rpc=rpc, request=request, paths=paths, reason=reason)


def without_ids(rpc: str, *names: str) -> list[Bad]:
    """Leave out each of some required ids, then make it too long."""
    changes: list[Json] = [{name: value} for name in names for value in (None, "", LONG_ID)]
    return [but(rpc, *change, **change) for change in changes]


def pages(rpc: str, most: int = 100) -> list[Bad]:
    """Ask for too few and for too many."""
    return [but(rpc, "page_size", page_size=value) for value in (-1, most + 1)]


def labels(rpc: str) -> list[Bad]:
    """Give metadata that breaks each of its bounds."""
    return [
        but(rpc, "metadata", metadata=LONG_LABELS),
        but(rpc, f"metadata[{'k' * 64!r}]", metadata={"k" * 65: "v"}),
        but(rpc, "metadata['']", metadata={"": "v"}),
        but(rpc, "metadata['k']", metadata={"k": "v" * 513}),
        but(rpc, "metadata", metadata={"k": "a\0b"}),
    ]


def message_bytes(rpc: str) -> list[Bad]:
    """Take messages that are too small."""
    return [but(rpc, "max_message_bytes", max_message_bytes=value) for value in (-1, 1, 65_535)]


def expires(rpc: str) -> list[Bad]:
    """Expire too early and too late."""
    return [but(rpc, "expires_after", expires_after=value) for value in ("59s", "-1s", "315600000s")]


def at(base: str, path: str) -> str:
    """Put a path behind another; empty: the other one."""
    return f"{base}.{path}" if path else base


def said(**fields: Any) -> Json:
    """Leave out the fields that are None."""
    return {key: value for key, value in fields.items() if value is not None}
