"""The requests of SessionService but for SubmitInput (`inputs`), and the first frame of Converse."""

from __future__ import annotations

from baton.v1 import event_pb2, session_pb2
from baton_server.wire.check import agents
from baton_server.wire.check.inputs import items_json
from baton_server.wire.check.run_config import run_config
from baton_server.wire.check.violations import SCOPE_CHARACTERS, Violations, join

KEY_CHARACTERS = 256
EXPIRES_S = (60.0, 10 * 365.25 * 24 * 3600.0)
"""1 min to 10 years."""

MASK_PATHS = ("agent", "run_config", "scopes", "metadata", "expires_after")
"""What UpdateSession can change."""

AgentSource = session_pb2.CreateSessionRequest | session_pb2.UpdateSessionRequest


def check_create_session(request: session_pb2.CreateSessionRequest) -> None:
    """Check a CreateSessionRequest. Raises Refused with INVALID_REQUEST, as all checks here do."""
    found = Violations()
    _create(found, "", request)
    found.no_nul(request)
    found.raise_if_any()


def _create(found: Violations, path: str, request: session_pb2.CreateSessionRequest) -> None:
    found.id(join(path, "request_id"), request.request_id)
    found.text(join(path, "key"), request.key, KEY_CHARACTERS)
    if request.get_or_create and not request.key:
        found.add(join(path, "get_or_create"), "needs a key")
    _defaults(found, path, request)


def _defaults(found: Violations, path: str, request: AgentSource) -> None:
    """Check what a session gives to its turns."""
    if request.HasField("agent"):
        agents.agent(found, join(path, "agent"), request.agent)
    if request.HasField("agent_ref"):
        agents.agent_ref(found, join(path, "agent_ref"), request.agent_ref)
    if request.HasField("run_config"):
        run_config(found, join(path, "run_config"), request.run_config)
    found.scopes(join(path, "scopes"), request.scopes)
    found.labels(join(path, "metadata"), request.metadata)
    if request.HasField("expires_after"):
        found.duration(join(path, "expires_after"), request.expires_after, *EXPIRES_S)


def check_get_session(request: session_pb2.GetSessionRequest) -> None:
    """Check a GetSessionRequest."""
    found = Violations()
    match found.arm("", request, "which"):
        case "session_id":
            found.id("session_id", request.session_id)
        case "key":
            found.text("key", request.key, KEY_CHARACTERS, required=True)
        case _:
            pass
    found.no_nul(request)
    found.raise_if_any()


def check_list_sessions(request: session_pb2.ListSessionsRequest) -> None:
    """Check a ListSessionsRequest."""
    found = Violations()
    found.page_size("page_size", request.page_size)
    for index, status in enumerate(request.statuses):
        found.enum(f"statuses[{index}]", status, session_pb2.SessionStatus, required=True)
    found.labels("metadata", request.metadata)
    found.no_nul(request)
    found.raise_if_any()


def check_update_session(request: session_pb2.UpdateSessionRequest) -> None:
    """Check an UpdateSessionRequest. A field that is set must be in its mask, or nothing would come of it."""
    found = Violations()
    found.id("request_id", request.request_id)
    found.id("session_id", request.session_id)
    paths = request.update_mask.paths
    if not paths:
        found.add("update_mask", f"is required, some of {', '.join(MASK_PATHS)}")
    for index, path in enumerate(paths):
        if path not in MASK_PATHS:
            words = f"is {path[:80]!r}, must be one of {', '.join(MASK_PATHS)}"
            found.add(f"update_mask.paths[{index}]", words)
    for name in (*MASK_PATHS, "agent_ref"):
        if _is_set(request, name) and name.removesuffix("_ref") not in paths:
            found.add(name, f"is set, but update_mask does not name {name.removesuffix('_ref')}")
    _defaults(found, "", request)
    found.no_nul(request)
    found.raise_if_any()


def _is_set(request: session_pb2.UpdateSessionRequest, name: str) -> bool:
    return any(field.name == name for field, _ in request.ListFields())


def check_delete_session(request: session_pb2.DeleteSessionRequest) -> None:
    """Check a DeleteSessionRequest."""
    found = Violations()
    found.id("request_id", request.request_id)
    found.id("session_id", request.session_id)
    found.no_nul(request)
    found.raise_if_any()


# -- watching ------------------------------------------------------------------------------------


def check_watch(request: session_pb2.WatchRequest) -> None:
    """Check a WatchRequest."""
    found = Violations()
    _watch(found, "", request)
    found.no_nul(request)
    found.raise_if_any()


def _watch(found: Violations, path: str, request: session_pb2.WatchRequest) -> None:
    found.id(join(path, "session_id"), request.session_id)
    found.at_least(join(path, "after_sequence"), request.after_sequence, 0)
    found.enum(join(path, "follow"), request.follow, session_pb2.Follow)
    found.enum(join(path, "deltas"), request.deltas, event_pb2.DeltaLevel)
    found.optional_id(join(path, "turn_id"), request.turn_id)
    found.message_bytes(join(path, "max_message_bytes"), request.max_message_bytes)


def check_converse_first(request: session_pb2.ConverseRequest) -> None:
    """Check the first frame of Converse: `watch` or `create`."""
    found = Violations()
    match request.WhichOneof("frame"):
        case "watch":
            _watch(found, "watch", request.watch)
        case "create":
            _create(found, "create", request.create)
        case other:
            found.add("frame", f"is {other or 'unset'}, the first one must be watch or create")
    found.no_nul(request)
    found.raise_if_any()


def check_converse_later(request: session_pb2.ConverseRequest) -> None:
    """Check that a later frame of Converse is a `submit`; what it submits is `check_submit_input`'s matter."""
    found = Violations()
    arm = request.WhichOneof("frame")
    if arm != "submit":
        found.add("frame", f"is {arm or 'unset'}, every frame after the first must be submit")
    found.raise_if_any()


# -- lists and reads -----------------------------------------------------------------------------


def check_list_items(request: session_pb2.ListItemsRequest) -> None:
    """Check a ListItemsRequest."""
    found = Violations()
    found.id("session_id", request.session_id)
    found.page_size("page_size", request.page_size)
    found.optional_id("turn_id", request.turn_id)
    found.no_nul(request)
    found.raise_if_any()


def check_add_items(request: session_pb2.AddItemsRequest) -> None:
    """Check an AddItemsRequest."""
    found = Violations()
    found.id("request_id", request.request_id)
    found.id("session_id", request.session_id)
    items_json(found, "items_json", request.items_json)
    found.no_nul(request)
    found.raise_if_any()


def check_remove_items(request: session_pb2.RemoveItemsRequest) -> None:
    """Check a RemoveItemsRequest."""
    found = Violations()
    found.id("request_id", request.request_id)
    found.id("session_id", request.session_id)
    match found.arm("", request, "selection"):
        case "last":
            found.at_least("last", request.last, 1)
        case "all":
            if not request.all:
                found.add("all", "is false, must be true; or use last")
        case _:
            pass
    found.no_nul(request)
    found.raise_if_any()


def check_list_turns(request: session_pb2.ListTurnsRequest) -> None:
    """Check a ListTurnsRequest."""
    found = Violations()
    found.id("session_id", request.session_id)
    found.page_size("page_size", request.page_size)
    found.no_nul(request)
    found.raise_if_any()


def check_get_turn(request: session_pb2.GetTurnRequest) -> None:
    """Check a GetTurnRequest."""
    found = Violations()
    found.id("session_id", request.session_id)
    found.id("turn_id", request.turn_id)
    found.no_nul(request)
    found.raise_if_any()


def check_list_events(request: session_pb2.ListEventsRequest) -> None:
    """Check a ListEventsRequest."""
    found = Violations()
    found.id("session_id", request.session_id)
    found.at_least("after_sequence", request.after_sequence, 0)
    found.page_size("page_size", request.page_size, 1000)
    found.optional_id("turn_id", request.turn_id)
    found.no_nul(request)
    found.raise_if_any()


def check_read_content(request: session_pb2.ReadContentRequest) -> None:
    """Check a ReadContentRequest; an offset behind the content's end is seen when it is read."""
    found = Violations()
    found.id("session_id", request.session_id)
    found.digest("sha256", request.sha256)
    found.at_least("offset", request.offset, 0)
    found.message_bytes("max_message_bytes", request.max_message_bytes)
    found.no_nul(request)
    found.raise_if_any()


def check_list_required_actions(request: session_pb2.ListRequiredActionsRequest) -> None:
    """Check a ListRequiredActionsRequest."""
    found = Violations()
    found.page_size("page_size", request.page_size)
    for index, state in enumerate(request.states):
        found.enum(f"states[{index}]", state, event_pb2.RequiredActionState, required=True)
    for index, name in enumerate(request.names):
        found.function_name(f"names[{index}]", name)
    for index, scope in enumerate(request.scopes):
        found.text(f"scopes[{index}]", scope, SCOPE_CHARACTERS)
    found.no_nul(request)
    found.raise_if_any()
