"""Deciding about calls without a run: by the required action that a session or the inbox shows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.scripted import ScriptedServer, soon
from tests.client.turns import undecided

import baton
from baton import Client
from baton.v1 import event_pb2, session_pb2


def submits(server: ScriptedServer) -> list[session_pb2.SubmitInputRequest]:
    """Take whatever is put in; return where it is remembered."""
    outcome = session_pb2.InputOutcome(status=session_pb2.INPUT_STATUS_SETTLED, turn_id="turn_1")
    server.sessions.answers["SubmitInput"] = lambda _request: session_pb2.SubmitInputResponse(
        turn_id="turn_2", outcomes=[outcome]
    )
    found: list[Any] = server.sessions.requests
    return found


async def test_a_decision_is_bound_to_what_was_seen(server: ScriptedServer) -> None:
    """Both digests travel, so that a call that changed in between is not decided about."""
    taken = submits(server)

    outcome = await soon(Client().approve(undecided(), always=True, decided_by="Ann"))
    await soon(Client().reject(undecided("send", 2), message="No.", always_in_session=True))

    assert outcome.status == session_pb2.INPUT_STATUS_SETTLED
    assert [request.session_id for request in taken] == ["sess_1", "sess_1"]
    assert [request.inputs[0].decision for request in taken] == [
        event_pb2.Decision(
            turn_id="turn_1",
            call_id="call_1",
            verdict=event_pb2.VERDICT_APPROVE,
            always=True,
            decided_by="Ann",
            arguments_digest="args_1",
            definition_digest="def",
        ),
        event_pb2.Decision(
            turn_id="turn_1",
            call_id="call_2",
            verdict=event_pb2.VERDICT_REJECT,
            always_in_session=True,
            message="No.",
            arguments_digest="args_2",
            definition_digest="def",
        ),
    ]


async def test_what_cannot_be_decided_is_refused_here(server: ScriptedServer) -> None:
    """An action that does not say whose it is; words for the model beside a yes."""
    taken = submits(server)

    with pytest.raises(ValueError, match=r"call_1 comes out of an event"):
        await Client().approve(undecided(session_id=""))
    with pytest.raises(baton.UserError, match="only a rejection has a message"):
        await Client().decide(undecided(), True, message="Yes!")
    with pytest.raises(baton.UserError, match="decided_by has at most 256 characters, not 300"):
        await Client().reject(undecided(), decided_by="A" * 300)
    assert taken == []


async def test_an_ended_turn_is_gone_on_with(server: ScriptedServer) -> None:
    """With another limit, and with what is new."""
    taken = submits(server)

    answer = await soon(Client().continue_turn("sess_1", "turn_1", "Go on.", max_turns=3))
    await soon(Client().continue_turn("sess_1", "turn_1", unlimited_turns=True))

    assert answer.turn_id == "turn_2"
    assert [one.WhichOneof("input") for one in taken[0].inputs] == ["continues", "text"]
    assert taken[0].inputs[0].continues == session_pb2.ContinueInput(turn_id="turn_1", max_turns=3)
    assert taken[1].inputs[0].continues == session_pb2.ContinueInput(turn_id="turn_1", unlimited_turns=True)
