"""What proto comments demand of requests and frames, checked before anything else reads them.

One function per request. All bad fields are told at once, by path. What only the store knows, such as whether
a session exists, is not looked at here.
"""

from baton_server.wire.check.agents import (
    check_create_agent,
    check_delete_agent,
    check_get_agent,
    check_list_agent_revisions,
    check_list_agents,
    check_update_agent,
)
from baton_server.wire.check.calls import (
    check_explain_call,
    check_extend_call,
    check_list_workers,
    check_settle_call,
    check_watch_calls,
)
from baton_server.wire.check.frames import check_frame, check_result
from baton_server.wire.check.handlers import handler_failures
from baton_server.wire.check.inputs import check_submit_input
from baton_server.wire.check.runs import check_run, check_run_streamed
from baton_server.wire.check.sessions import (
    check_add_items,
    check_converse_first,
    check_converse_later,
    check_create_session,
    check_delete_session,
    check_get_session,
    check_get_turn,
    check_list_events,
    check_list_items,
    check_list_required_actions,
    check_list_sessions,
    check_list_turns,
    check_read_content,
    check_remove_items,
    check_update_session,
    check_watch,
)

__all__ = [
    "check_add_items",
    "check_converse_first",
    "check_converse_later",
    "check_create_agent",
    "check_create_session",
    "check_delete_agent",
    "check_delete_session",
    "check_explain_call",
    "check_extend_call",
    "check_frame",
    "check_get_agent",
    "check_get_session",
    "check_get_turn",
    "check_list_agent_revisions",
    "check_list_agents",
    "check_list_events",
    "check_list_items",
    "check_list_required_actions",
    "check_list_sessions",
    "check_list_turns",
    "check_list_workers",
    "check_read_content",
    "check_remove_items",
    "check_result",
    "check_run",
    "check_run_streamed",
    "check_settle_call",
    "check_submit_input",
    "check_update_agent",
    "check_update_session",
    "check_watch",
    "check_watch_calls",
    "handler_failures",
]
