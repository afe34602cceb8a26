"""Rows of the store as answers: with times, sequences, and where a call is at the moment."""

from dataclasses import replace

import pytest

from baton.v1 import event_pb2, session_pb2
from baton_server.core.agents import Agent
from baton_server.core.events import SessionStatus, TurnSnapshot, TurnStatus
from baton_server.core.items import Item, Message, Role, TextPart, Usage
from baton_server.core.run_config import RunConfig
from baton_server.core.state import RoundUsage
from baton_server.ports.store import AgentRow, CallRow, ItemRow, SessionRow, TurnRow
from baton_server.wire import views
from baton_server.wire.codec import ProtoCodec

AT = 1_796_000_000.5

CALL = CallRow(
    call_id="call_1", session_id="sess_1", turn_id="turn_1", name="f", agent="A", arguments='{"a":1}',
    scopes=(), attempt=2, opened_at=AT,
)  # fmt: skip


def test_a_session_says_how_it_stands() -> None:
    """Defaults, what is open, usage, and when it will be gone."""
    row = SessionRow(
        session_id="sess_1", key="user-7", status=SessionStatus.REQUIRES_ACTION, agent_digest="d" * 64,
        scopes=("svc-7",), metadata={"k": "v"}, active_turn_id="turn_1", last_sequence=41,
        usage=Usage(requests=2), created_at=AT, last_active_at=AT + 10, expires_after_s=60,
    )  # fmt: skip

    session = views.write_session(
        row,
        agent=Agent(name="A"),
        config=RunConfig(max_turns=3),
        required_actions=[views.write_required_action(CALL, "UNSERVED")],
        queued_turn_ids=["turn_2"],
    )

    assert (session.session_id, session.key, session.active_turn_id) == ("sess_1", "user-7", "turn_1")
    assert session.status == session_pb2.SESSION_STATUS_REQUIRES_ACTION
    assert (session.agent.agent.name, session.agent.digest, session.agent.revision) == ("A", "d" * 64, 0)
    assert session.run_config.max_turns == 3
    assert [action.call_id for action in session.required_actions] == ["call_1"]
    assert list(session.queued_turn_ids) == ["turn_2"]
    assert (session.last_sequence, session.usage.requests) == (41, 2)
    assert session.created_at.ToMilliseconds() == 1_796_000_000_500
    assert session.expires_at.ToMilliseconds() == 1_796_000_070_500


def test_a_session_in_a_list_leaves_out_its_defaults() -> None:
    """Without an agent it has none to show, and without an expiry it stays."""
    session = views.write_session(SessionRow(session_id="sess_1"))

    assert not session.HasField("agent")
    assert not session.HasField("run_config")
    assert not session.HasField("expires_at")


def test_a_turn_has_its_times() -> None:
    """What its events do not carry is added, and an omitted output stays omitted."""
    snapshot = TurnSnapshot(
        turn_id="turn_1", session_id="sess_1", status=TurnStatus.IN_PROGRESS, agent="A", last_agent="A",
        agent_digest="", run_config_digest="", request_id="r-1", output="x" * 300_000,
    )  # fmt: skip
    row = TurnRow(
        turn_id="turn_1", session_id="sess_1", status=TurnStatus.COMPLETED,
        snapshot=ProtoCodec().turn(snapshot), agent_digest="", config_digest="", request_id="r-1",
        first_sequence=2, last_sequence=9, created_at=AT, started_at=AT + 1, ended_at=AT + 2,
    )  # fmt: skip

    turn = views.write_turn(row)

    assert turn.status == event_pb2.TURN_STATUS_COMPLETED
    assert (turn.first_sequence, turn.last_sequence, turn.request_id) == (2, 9, "r-1")
    assert (turn.created_at.seconds, turn.started_at.seconds) == (1_796_000_000, 1_796_000_001)
    assert turn.ended_at.seconds == 1_796_000_002
    assert turn.output_omitted.omitted_bytes == 300_000


@pytest.mark.parametrize(
    ("keeper", "shown"),
    [("", session_pb2.HISTORY_KEEPER_UNSPECIFIED), ("SESSION", session_pb2.HISTORY_KEEPER_SESSION),
     ("MODEL", session_pb2.HISTORY_KEEPER_MODEL)],
)  # fmt: skip
def test_a_session_says_who_keeps_its_history(keeper: str, shown: int) -> None:
    """Until its first turn nobody does."""
    assert views.write_session(SessionRow(session_id="sess_1", history_keeper=keeper)).history_keeper == shown


@pytest.mark.parametrize("state", ["QUEUED", "LEASED", "UNSERVED"])
def test_a_required_action_says_what_is_waited_for(state: str) -> None:
    """With the address of a tool_result, and the arguments byte for byte."""
    action = views.write_required_action(CALL, state)

    assert (action.session_id, action.turn_id, action.call_id) == ("sess_1", "turn_1", "call_1")
    assert event_pb2.RequiredActionState.Name(action.state) == f"REQUIRED_ACTION_STATE_{state}"
    assert (action.arguments_json, action.attempt) == ('{"a":1}', 2)
    assert action.kind == event_pb2.REQUIRED_ACTION_KIND_FUNCTION_CALL
    assert action.created_at.seconds == 1_796_000_000
    assert not action.HasField("lease")
    assert not action.HasField("approval")


def test_an_action_that_awaits_a_decision_says_what_it_is_bound_to_and_until_when() -> None:
    """The sooner of two ends is the one that counts; once it is decided only the call's own is left."""
    row = replace(
        CALL, run_path=("call_0",), arguments_digest="a" * 64, definition_digest="d" * 64, decide_by=AT + 5,
        expires_at=AT + 9,
    )  # fmt: skip

    awaiting = views.write_required_action(row, "AWAITING_DECISION")
    decided = views.write_required_action(row, "QUEUED")

    assert (awaiting.approval.arguments_digest, awaiting.approval.definition_digest) == ("a" * 64, "d" * 64)
    assert awaiting.expires_at.seconds == 1_796_000_005
    assert list(awaiting.run_path) == ["call_0"]
    assert not decided.HasField("approval")
    assert decided.expires_at.seconds == 1_796_000_009


def test_a_leased_action_says_who_has_it() -> None:
    """The worker, until when, and whether it has said so."""
    action = views.write_required_action(CALL, "LEASED", views.write_lease("worker_1", AT, acked=True))

    assert (action.lease.worker_id, action.lease.until.seconds, action.lease.acked) == (
        "worker_1",
        1_796_000_000,
        True,
    )


def test_an_agent_revision_has_its_labels_and_time() -> None:
    """As CreateAgent and UpdateAgent made it."""
    row = AgentRow(agent_id="agent_1", revision=3, digest="d" * 64, metadata={"k": "v"}, created_at=AT)

    revision = views.write_agent_revision(row, Agent(name="A"))

    assert (revision.agent_id, revision.revision, revision.digest) == ("agent_1", 3, "d" * 64)
    assert (revision.agent.name, dict(revision.metadata)) == ("A", {"k": "v"})
    assert revision.created_at.seconds == 1_796_000_000


def test_an_item_has_the_time_of_its_event() -> None:
    """Outside an event the item says it itself."""
    body = Message(role=Role.USER, content=(TextPart(text="hello"),))
    item = Item(item_id="item_1", turn_id="turn_1", body=body, json="{}")
    row = ItemRow(
        item_id="item_1", turn_id="turn_1", rank=0, data=ProtoCodec().item(item), json="{}",
        in_history=True, created_at=AT,
    )  # fmt: skip

    message = views.write_item_row(row)

    assert message.message.content[0].text == "hello"
    assert message.created_at.ToMilliseconds() == 1_796_000_000_500


def test_rounds_are_told_one_by_one() -> None:
    """In order, each with its model and its tokens."""
    rounds = [RoundUsage(1, "gpt", "resp_1", Usage(requests=1)), RoundUsage(2, "gpt", "", Usage())]

    written = views.write_round_usage(rounds)

    assert [(one.round, one.response_id, one.usage.requests) for one in written] == [(1, "resp_1", 1), (2, "", 0)]
