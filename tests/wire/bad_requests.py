"""Requests that must be refused, as data: rpc, request as JSON, and the paths or the reason that must be told.

A row differs from a good request of its rpc (`GOOD`) by what is in it. The table is driven through the checkers
here, and can be driven through a server: nothing in it needs a session to exist.
"""

from __future__ import annotations

from tests.wire.bad_agents import agents, configs, refs, session_defaults
from tests.wire.bad_inputs import CONTINUES, ITEMS, PARTS, SUBMIT
from tests.wire.good_requests import (
    GOOD,
    LONG_ID,
    LONG_NAME,
    Bad,
    but,
    expires,
    labels,
    message_bytes,
    pages,
    without_ids,
)

_AGENT_SERVICE: list[Bad] = [
    *without_ids("AgentService/CreateAgent", "request_id"),
    but("AgentService/CreateAgent", "agent", agent=None),
    but("AgentService/CreateAgent", "request_id", request_id="a\0b"),
    *agents("AgentService/CreateAgent"),
    *labels("AgentService/CreateAgent"),
    but("AgentService/CreateAgent", "request_id", "agent.name", request_id="", agent={}),
    *without_ids("AgentService/GetAgent", "agent_id"),
    but("AgentService/GetAgent", "revision", revision=0),
    *pages("AgentService/ListAgents"),
    but("AgentService/ListAgents", "page_token", page_token="a\0b"),
    *without_ids("AgentService/ListAgentRevisions", "agent_id"),
    *pages("AgentService/ListAgentRevisions"),
    but("AgentService/ListAgentRevisions", "page_token", page_token="a\0b"),
    *without_ids("AgentService/UpdateAgent", "request_id", "agent_id"),
    but("AgentService/UpdateAgent", "agent", agent=None),
    but("AgentService/UpdateAgent", "expected_revision", expected_revision=0),
    *agents("AgentService/UpdateAgent"),
    *labels("AgentService/UpdateAgent"),
    *without_ids("AgentService/DeleteAgent", "request_id", "agent_id"),
]

# -- sessions ------------------------------------------------------------------------------------

_SESSION_SERVICE: list[Bad] = [
    *without_ids("SessionService/CreateSession", "request_id"),
    but("SessionService/CreateSession", "key", key=LONG_NAME),
    but("SessionService/CreateSession", "get_or_create", key=None),
    *session_defaults("SessionService/CreateSession"),
    but("SessionService/GetSession", "which", session_id=None),
    *(but("SessionService/GetSession", "session_id", session_id=value) for value in ("", LONG_ID)),
    *(but("SessionService/GetSession", "key", session_id=None, key=value) for value in ("", LONG_NAME)),
    *pages("SessionService/ListSessions"),
    but("SessionService/ListSessions", "page_token", page_token="a\0b"),
    but("SessionService/ListSessions", "statuses[1]", statuses=["SESSION_STATUS_IDLE", 9]),
    but("SessionService/ListSessions", "statuses[0]", statuses=["SESSION_STATUS_UNSPECIFIED"]),
    *labels("SessionService/ListSessions"),
    *without_ids("SessionService/UpdateSession", "request_id", "session_id"),
    but("SessionService/UpdateSession", "update_mask", update_mask=None),
    but("SessionService/UpdateSession", "update_mask", update_mask=""),
    but("SessionService/UpdateSession", "update_mask.paths[1]", update_mask="metadata,key"),
    but("SessionService/UpdateSession", "agent", agent={"name": "Helper"}),
    but("SessionService/UpdateSession", "agent_ref", agent_ref={"agent_id": "agent_1"}),
    but("SessionService/UpdateSession", "scopes", scopes=["svc-7"]),
    *session_defaults("SessionService/UpdateSession"),
    *without_ids("SessionService/DeleteSession", "request_id", "session_id"),
    *without_ids("SessionService/Watch", "session_id"),
    but("SessionService/Watch", "after_sequence", after_sequence=-1),
    but("SessionService/Watch", "follow", follow=9),
    but("SessionService/Watch", "deltas", deltas=9),
    but("SessionService/Watch", "turn_id", turn_id=LONG_ID),
    *message_bytes("SessionService/Watch"),
    Bad(rpc="SessionService/Converse", request={}, paths=("frame",)),
    Bad(rpc="SessionService/Converse", request={"submit": GOOD["SessionService/SubmitInput"]}, paths=("frame",)),
    Bad(rpc="SessionService/Converse", request={"watch": {}}, paths=("watch.session_id",)),
    Bad(
        rpc="SessionService/Converse",
        request={"watch": {"session_id": "sess_1", "max_message_bytes": 1}},
        paths=("watch.max_message_bytes",),
    ),
    Bad(
        rpc="SessionService/Converse",
        request={"create": {"scopes": [LONG_NAME]}},
        paths=("create.request_id", "create.scopes[0]"),
    ),
    *without_ids("SessionService/ListItems", "session_id"),
    *pages("SessionService/ListItems"),
    but("SessionService/ListItems", "page_token", page_token="a\0b"),
    but("SessionService/ListItems", "turn_id", turn_id=LONG_ID),
    *without_ids("SessionService/AddItems", "request_id", "session_id"),
    *(but("SessionService/AddItems", f"items_json{path}", items_json=bad) for bad, path in ITEMS),
    *without_ids("SessionService/RemoveItems", "request_id", "session_id"),
    but("SessionService/RemoveItems", "selection", last=None),
    but("SessionService/RemoveItems", "last", last=0),
    but("SessionService/RemoveItems", "all", last=None, all=False),
    *without_ids("SessionService/ListTurns", "session_id"),
    *pages("SessionService/ListTurns"),
    but("SessionService/ListTurns", "page_token", page_token="a\0b"),
    *without_ids("SessionService/GetTurn", "session_id", "turn_id"),
    *without_ids("SessionService/ListEvents", "session_id"),
    but("SessionService/ListEvents", "after_sequence", after_sequence=-1),
    *pages("SessionService/ListEvents", 1000),
    but("SessionService/ListEvents", "turn_id", turn_id=LONG_ID),
    *without_ids("SessionService/ReadContent", "session_id"),
    *(but("SessionService/ReadContent", "sha256", sha256=bad) for bad in (None, "0" * 63, "A" * 64)),
    but("SessionService/ReadContent", "offset", offset=-1),
    *message_bytes("SessionService/ReadContent"),
    *pages("SessionService/ListRequiredActions"),
    but("SessionService/ListRequiredActions", "page_token", page_token="a\0b"),
    but("SessionService/ListRequiredActions", "states[0]", states=[9]),
    but("SessionService/ListRequiredActions", "states[0]", states=["REQUIRED_ACTION_STATE_UNSPECIFIED"]),
    but("SessionService/ListRequiredActions", "names[1]", names=["f", "get weather"]),
    but("SessionService/ListRequiredActions", "scopes[0]", scopes=[LONG_NAME]),
]

# -- runs ----------------------------------------------------------------------------------------


def _runs(rpc: str) -> list[Bad]:
    return [
        *without_ids(rpc, "request_id"),
        *(but(rpc, "session_id", session_key=None, session_id=value, expires_after=None, metadata=None)
          for value in ("", LONG_ID)),
        but(rpc, "expires_after", session_key=None, session_id="sess_1", metadata=None),
        but(rpc, "metadata", session_key=None, session_id="sess_1", expires_after=None),
        *(but(rpc, "session_key", session_key=value) for value in ("", LONG_NAME)),
        *agents(rpc), *refs(rpc), *configs(rpc), *labels(rpc), *expires(rpc), *message_bytes(rpc),
        but(rpc, "run_config.start_agent", run_config={"start_agent": "Translatr"}),
        *(but(rpc, f"continues.{path}", agent=None, run_config=None, continues={"turn_id": "turn_1", **bad})
          for bad, path in CONTINUES),
        but(rpc, "agent", run_config=None, continues={"turn_id": "turn_1"}),
        but(rpc, "agent_ref", agent=None, run_config=None, agent_ref={"agent_id": "agent_1"},
            continues={"turn_id": "turn_1"}),
        but(rpc, "run_config", agent=None, run_config={}, continues={"turn_id": "turn_1"}),
        but(rpc, "session_source", agent=None, run_config=None, session_key=None, continues={"turn_id": "turn_1"}),
        but(rpc, "new_input", text=None),
        but(rpc, "text", text="a\0b"),
        but(rpc, "message.content", text=None, message={}),
        *(but(rpc, f"message.content[0].{path}", text=None, message={"content": [bad]})
          for bad, path in PARTS),
        *(but(rpc, f"items_json{path}", text=None, items_json=bad) for bad, path in ITEMS if bad != "[]"),
        but(rpc, "if_busy", if_busy=9),
        but(rpc, "if_busy", if_busy="IF_BUSY_STEER"),
        but(rpc, "request_id", "if_busy", "max_message_bytes", request_id="", if_busy=9, max_message_bytes=1),
    ]  # fmt: skip


_RUNNER_SERVICE: list[Bad] = [
    *_runs("RunnerService/Run"),
    *_runs("RunnerService/RunStreamed"),
    but("RunnerService/RunStreamed", "deltas", deltas=9),
    but("RunnerService/RunStreamed", "after_sequence", after_sequence=-1),
]

BAD: tuple[Bad, ...] = (*_AGENT_SERVICE, *_SESSION_SERVICE, *SUBMIT, *_RUNNER_SERVICE)
"""Every row ends its rpc."""
