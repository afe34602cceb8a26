"""The checkers: every good request passes, every bad one is refused with exactly the fields that are bad."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from google.protobuf import json_format
from tests.wire.bad_agents import GRAPHS
from tests.wire.bad_calls import BAD_CALLS
from tests.wire.bad_frames import BAD_FRAMES, BAD_HANDLERS, BAD_RESULTS
from tests.wire.bad_requests import BAD
from tests.wire.good_agents import HISTORIES
from tests.wire.good_requests import GOOD, REQUESTS, RESULT_LIMIT, Bad, Json, rows

from baton.v1 import handler_pb2, session_pb2
from baton_server.core.errors import Reason, Refused
from baton_server.wire import check

CHECKS: Mapping[str, Callable[[Any], None]] = {
    "AgentService/CreateAgent": check.check_create_agent,
    "AgentService/GetAgent": check.check_get_agent,
    "AgentService/ListAgents": check.check_list_agents,
    "AgentService/ListAgentRevisions": check.check_list_agent_revisions,
    "AgentService/UpdateAgent": check.check_update_agent,
    "AgentService/DeleteAgent": check.check_delete_agent,
    "SessionService/CreateSession": check.check_create_session,
    "SessionService/GetSession": check.check_get_session,
    "SessionService/ListSessions": check.check_list_sessions,
    "SessionService/UpdateSession": check.check_update_session,
    "SessionService/DeleteSession": check.check_delete_session,
    "SessionService/SubmitInput": check.check_submit_input,
    "SessionService/Watch": check.check_watch,
    "SessionService/Converse": check.check_converse_first,
    "SessionService/ListItems": check.check_list_items,
    "SessionService/AddItems": check.check_add_items,
    "SessionService/RemoveItems": check.check_remove_items,
    "SessionService/ListTurns": check.check_list_turns,
    "SessionService/GetTurn": check.check_get_turn,
    "SessionService/ListEvents": check.check_list_events,
    "SessionService/ReadContent": check.check_read_content,
    "SessionService/ListRequiredActions": check.check_list_required_actions,
    "RunnerService/Run": check.check_run,
    "RunnerService/RunStreamed": check.check_run_streamed,
    "HandlerService/Connect": lambda frame: check.check_frame(frame, 1),
    "HandlerService/WatchCalls": check.check_watch_calls,
    "HandlerService/SettleCall": check.check_settle_call,
    "HandlerService/ExtendCall": check.check_extend_call,
    "HandlerService/ListWorkers": check.check_list_workers,
    "HandlerService/ExplainCall": check.check_explain_call,
}

CANNOT_BE_BAD = {
    # Any value means something.
    "History.caller", "Tracing.disabled", "Tracing.include_sensitive_data",
    "Tracing.include_turn_spans", "RunConfig.nest_handoff_history", "ToolExecution.guardrails_before_approval",
    "RunRequest.cancel_on_disconnect", "RunRequest.with_next_items", "RunStreamedRequest.cancel_on_disconnect",
    "RunStreamedRequest.with_next_items", "RunStreamedRequest.root_only", "WatchRequest.root_only",
    "ModelSettings.parallel_tool_calls", "ModelSettings.store", "ModelSettings.include_usage",
    "ModelSettings.preserve_raw_usage", "RetrySettings.jitter", "Agent.keep_tool_choice", "Handoff.nest_history",
    "InputFilter.remove_all_tools", "LifecycleHook.awaited", "Terms.case_sensitive", "Approval.always",
    "Enabled.always", "Decision.always", "Decision.always_in_session",
    "ListItemsRequest.history_only", "ListItemsRequest.newest_first", "GetTurnRequest.with_pinned",
    "HeldAttempt.begun", "HeldAttempt.finished", "WorkerHeartbeat.now", "Drain.deadline", "Nack.not_begun",
    # Texts like others, refused for nothing but a NUL, which the walk finds in any.
    "Sdk.version", "Sdk.language",
    # Judged elsewhere: a submit by `check_submit_input`, declarations by `handler_failures`, slices by the
    # assembler, a version by a reason of its own; and what the server alone may send is refused whole.
    "ConverseRequest.submit", "ConnectRequest.chunk", "Hello.protocol_version",
    "Hello.handlers",
    "Chunk.chunk_id", "Chunk.index", "Chunk.data", "Chunk.total_bytes", "Chunk.sha256", "Chunk.last",
    "Chunk.call_id", "Chunk.attempt", "Omitted.omitted_bytes", "Omitted.sha256",
}  # fmt: skip


@pytest.mark.parametrize("rpc", GOOD)
def test_a_good_request_passes(rpc: str) -> None:
    """What a client may send is not refused."""
    CHECKS[rpc](Bad(rpc=rpc, request=GOOD[rpc], paths=()).message)


@pytest.mark.parametrize("bad", rows((*BAD, *BAD_CALLS)))
def test_a_bad_request_names_every_bad_field(bad: Bad) -> None:
    """The caller is told all that is wrong at once, and nothing that is not."""
    with pytest.raises(Refused) as refused:
        CHECKS[bad.rpc](bad.message)

    assert refused.value.failure.reason == bad.reason
    assert sorted(v.path for v in refused.value.violations) == sorted(bad.paths)
    assert all(v.problem for v in refused.value.violations)


@pytest.mark.parametrize("bad", rows(BAD_FRAMES))
def test_a_bad_frame_is_refused_alone(bad: Bad) -> None:
    """The frame's number and its bad fields are told, so that a worker's author finds them."""
    with pytest.raises(Refused) as refused:
        CHECKS[bad.rpc](bad.message)

    failure = refused.value.failure
    assert failure.reason == bad.reason
    assert {v.path for v in refused.value.violations} == set(bad.paths)
    if bad.reason == "FRAME_INVALID":
        assert failure.metadata == {"frame_number": "1", "field": refused.value.violations[0].path}


@pytest.mark.parametrize("bad", rows(BAD_RESULTS))
def test_a_bad_result_is_refused_by_its_ack(bad: Bad) -> None:
    """A result that cannot be taken says why, and its frame as such is in order."""
    frame = bad.message
    assert isinstance(frame, handler_pb2.ConnectRequest)

    with pytest.raises(Refused) as refused:
        check.check_result(frame.result, 1)

    assert refused.value.failure.reason == bad.reason
    assert tuple(v.path for v in refused.value.violations) == bad.paths


def test_a_result_at_the_limit_passes() -> None:
    """The limit itself is allowed, and one byte more is told with both figures."""
    result = handler_pb2.Result(call_id="call_1", attempt=1, output="x" * RESULT_LIMIT)
    check.check_result(result, 1)

    result.output += "x"
    with pytest.raises(Refused) as refused:
        check.check_result(result, 1)

    assert refused.value.failure.metadata == {"size": str(RESULT_LIMIT + 1), "limit": str(RESULT_LIMIT)}


@pytest.mark.parametrize(("spec", "problem"), BAD_HANDLERS)
def test_a_bad_declaration_refuses_that_handler_alone(spec: Json, problem: str) -> None:
    """The others of the same frame are registered."""
    good = handler_pb2.HandlerSpec(name="good", parameters_json='{"type":"object"}')

    failures = check.handler_failures([good, json_format.ParseDict(spec, handler_pb2.HandlerSpec())])

    assert failures[0] is None
    assert failures[1] is not None
    assert failures[1].reason is Reason.HANDLER_INVALID
    assert failures[1].metadata == {"name": spec["name"], "problem": problem}


@pytest.mark.parametrize("session_id", ["", "sess_1"])
def test_a_submit_on_a_stream_needs_no_session(session_id: str) -> None:
    """On Converse the stream's session is meant, and may be said."""
    request = session_pb2.SubmitInputRequest(request_id="r-1", session_id=session_id)
    request.inputs.add(text="hello")

    check.check_submit_input(request, "sess_1")


def test_a_submit_on_a_stream_cannot_name_another_session() -> None:
    """A frame for another session would land in the wrong one."""
    request = session_pb2.SubmitInputRequest(request_id="r-1", session_id="sess_2")
    request.inputs.add(text="hello")

    with pytest.raises(Refused, match="1 field"):
        check.check_submit_input(request, "sess_1")


@pytest.mark.parametrize("arm", ["watch", "create", None])
def test_only_submit_follows_the_first_frame(arm: str | None) -> None:
    """A second watch on the same stream is refused by name."""
    frame = session_pb2.ConverseRequest()
    if arm:
        getattr(frame, arm).SetInParent()

    with pytest.raises(Refused) as refused:
        check.check_converse_later(frame)

    assert [v.path for v in refused.value.violations] == ["frame"]
    check.check_converse_later(session_pb2.ConverseRequest(submit=session_pb2.SubmitInputRequest()))


@pytest.mark.parametrize(("seconds", "nanos"), [(1, -1), (-1, 1), (0, 1_000_000_000)])
def test_a_malformed_duration_is_refused(seconds: int, nanos: int) -> None:
    """JSON cannot say such a one, a client's own code can."""
    request = session_pb2.CreateSessionRequest(request_id="r-1")
    request.expires_after.seconds, request.expires_after.nanos = seconds, nanos

    with pytest.raises(Refused) as refused:
        check.check_create_session(request)

    assert [v.path for v in refused.value.violations] == ["expires_after"]


@pytest.mark.parametrize(("graph", "facts"), GRAPHS)
def test_a_graph_that_does_not_hold_together_says_where(graph: Json, facts: dict[str, str]) -> None:
    """Agent and problem are told to programs, the place and the value to people."""
    request = Bad(
        rpc="AgentService/CreateAgent", request={"request_id": "r", "agent": {"name": "Helper", **graph}}, paths=()
    )

    with pytest.raises(Refused, match=r"agent\.") as refused:
        CHECKS[request.rpc](request.message)

    assert refused.value.failure.metadata == facts
    assert repr(facts.get("handoff", facts.get("tool", facts["agent"]))) in refused.value.failure.message


def test_all_that_is_wrong_is_told_with_a_graphs_faults_among_it() -> None:
    """Where a field is wrong as well, the faults are named as fields are."""
    agent = {"name": "Helper", "handoffs": [{"agent": "Billing"}], "model_settings": {"top_p": 2}}
    request = Bad(rpc="AgentService/CreateAgent", request={"request_id": "r", "agent": agent}, paths=())

    with pytest.raises(Refused) as refused:
        CHECKS[request.rpc](request.message)

    assert refused.value.failure.reason is Reason.INVALID_REQUEST
    assert [v.path for v in refused.value.violations] == ["agent.model_settings.top_p", "agent.handoffs[0].agent"]
    assert refused.value.failure.metadata == {"fields": "2"}


@pytest.mark.parametrize("history", HISTORIES)
def test_every_memory_can_be_asked_for(history: Json) -> None:
    """Of the session, the caller, the model's API or a store of the caller's own."""
    request = {**GOOD["RunnerService/Run"], "run_config": {"history": history}}

    CHECKS["RunnerService/Run"](Bad(rpc="RunnerService/Run", request=request, paths=()).message)


@pytest.mark.parametrize("start", ["Helper", "Billing"])
def test_a_run_may_start_with_any_agent_of_its_graph(start: str) -> None:
    """For example with the one that ended the turn before."""
    request = {**GOOD["RunnerService/Run"], "run_config": {"start_agent": start}}

    CHECKS["RunnerService/Run"](Bad(rpc="RunnerService/Run", request=request, paths=()).message)


@pytest.mark.parametrize("new", [{}, {"text": "go on"}])
def test_a_run_that_goes_on_needs_no_input(new: Json) -> None:
    """It has what the ended turn had, and perhaps a message."""
    request = {"request_id": "r-1", "session_id": "sess_1", "continues": {"turn_id": "turn_1"}, **new}

    CHECKS["RunnerService/Run"](Bad(rpc="RunnerService/Run", request=request, paths=()).message)


def test_the_table_has_every_field_that_can_be_bad() -> None:
    """A field that is added to a request gets a row, or a word why it needs none."""
    fields = {name for kind in REQUESTS.values() for name in reachable(kind.DESCRIPTOR, set())}
    table = (*BAD, *BAD_CALLS, *BAD_FRAMES, *BAD_RESULTS)
    tried = {name for row in table for path in row.paths for name in named(REQUESTS[row.rpc].DESCRIPTOR, path)}
    tried |= {name for _, problem in BAD_HANDLERS for name in named(handler_pb2.HandlerSpec.DESCRIPTOR, problem)}

    assert fields - tried - CANNOT_BE_BAD == set()
    assert CANNOT_BE_BAD & tried == set()


def reachable(message: Any, seen: set[str]) -> Iterator[str]:
    """Names the fields of a message and of the messages in it; those of Google's types not."""
    if message.full_name in seen or not message.full_name.startswith("baton.v1."):
        return
    seen.add(message.full_name)
    for field in message.fields:
        yield f"{message.name}.{field.name}"
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            yield from reachable(field.message_type, seen)


def named(message: Any, path: str) -> Iterator[str]:
    """Names the fields along a path; a oneof names all of its arms' carriers, not the arms."""
    at = message
    for step in path.split(".") if path else []:
        name = step.partition("[")[0]
        field = at.fields_by_name.get(name) if at else None
        if at is None or field is None:
            return
        yield f"{at.name}.{name}"
        at = field.message_type
