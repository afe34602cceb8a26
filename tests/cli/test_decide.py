"""`baton approve` and `baton reject`, and what else the commands say of a call that somebody must allow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import NOBODY, House, Waiting, baton
from tests.support.scripted_model import Reply, calls, say

from baton.v1 import agent_pb2, event_pb2

ASK = ("refund", '{"cents":100}')
OBJECT = '{"type":"object"}'


def guarded(*names: str, **approval: Any) -> agent_pb2.Agent:
    """Make an agent whose functions must be allowed."""
    rule = {"always": True, **approval}
    tools = [{"function": {"name": name, "parameters_json": OBJECT, "needs_approval": rule}} for name in names]
    return agent_pb2.Agent(name="Billing", tools=tools)


async def waiting(house: House, agent: agent_pb2.Agent | None = None, key: str = "") -> Waiting:
    """Start a turn, and wait until calls of it wait for decisions."""
    session = await house.client.create_session(agent=agent or guarded("refund"), key=key)
    turn_id = (await house.client.submit(session.session_id, "Go.")).turn_id
    await house.until(session.session_id, "session_requires_action")
    opened = (await house.client.get_session(session.session_id)).required_actions
    return Waiting(session_id=session.session_id, turn_id=turn_id, calls=tuple(action.call_id for action in opened))


async def decided(house: House, session_id: str, arm: str = "approval_decided") -> event_pb2.Decision:
    """Wait for the decision in the log."""
    return (await house.until(session_id, arm))[-1].approval_decided.decision


# -- deciding ------------------------------------------------------------------------------------


async def test_an_approved_call_goes_on(tmp_path: Path) -> None:
    """Named by its id; it says what was allowed, and how to watch."""
    async with House.opened(tmp_path, calls(ASK)) as house:
        open_ = await waiting(house)

        ran = await house.baton("approve", open_.call, "--by", "ops")

        assert ran.out == f"approved {open_.call}\n"
        assert 'it was refund({"cents":100}). Watch the turn: baton sessions tail' in ran.err
        decision = await decided(house, open_.session_id)
        assert (decision.verdict, decision.decided_by) == (event_pb2.VERDICT_APPROVE, "ops")
        (action,) = (await house.client.get_session(open_.session_id)).required_actions
        assert decision.arguments_digest and decision.definition_digest
        assert action.state != event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION


async def test_a_rejected_call_is_told_to_the_model(tmp_path: Path) -> None:
    """Named by its function, since only one call of it waits; the log has the name of the user."""
    async with House.opened(tmp_path, calls(ASK), say("Then not.")) as house:
        open_ = await waiting(house)

        ran = await house.baton("reject", "refund", "--message", "Not on a Sunday.")

        assert ran.out == f"rejected {open_.call}\n"
        assert (await decided(house, open_.session_id)).decided_by
        await house.until(open_.session_id, "turn_completed")
        (output,) = [item for item in house.model.input_of(1) if item.get("type") == "function_call_output"]
        assert output["output"] == "Not on a Sunday."


@pytest.mark.parametrize(
    ("flags", "always", "in_session", "words"),
    [
        ([], False, False, ""),
        (["--always"], True, False, "later calls of refund by Billing in this turn are approved as well"),
        (["--session"], True, True, "later calls of refund by Billing in this session are approved as well"),
    ],
)
async def test_a_decision_may_hold_for_later_calls(
    tmp_path: Path, flags: Sequence[str], always: bool, in_session: bool, words: str
) -> None:
    """For the rest of the turn, or of the session; it says for which."""
    async with House.opened(tmp_path, calls(ASK)) as house:
        open_ = await waiting(house)

        ran = await house.baton("approve", open_.call, *flags)

        decision = await decided(house, open_.session_id)
        assert (decision.always, decision.always_in_session) == (always, in_session)
        assert words in ran.err


async def test_the_first_decision_holds(tmp_path: Path) -> None:
    """The same again is no failure; the other one is, and says which holds."""
    async with House.opened(tmp_path, calls(ASK)) as house:
        open_ = await waiting(house)
        await house.baton("approve", open_.call)

        again = await house.baton("approve", open_.call)
        against = await house.baton("reject", open_.call, code=1)

        assert again.out == f"duplicate: {open_.call} was approved before; nothing changed\n"
        assert "not taken, since DECISION_CONFLICT: " in against.err


async def test_json_gives_the_outcome(tmp_path: Path) -> None:
    """One message of the contract; the exit code is the same."""
    async with House.opened(tmp_path, calls(ASK)) as house:
        open_ = await waiting(house)

        first = await house.baton("approve", open_.call, "--json")
        against = await house.baton("reject", open_.call, "--json", code=1)

        assert json.loads(first.out) == {"status": "INPUT_STATUS_SETTLED", "turn_id": open_.turn_id}
        assert json.loads(against.out)["error"]["reason"] == "ERROR_REASON_DECISION_CONFLICT"


async def test_what_cannot_be_decided_says_why(tmp_path: Path) -> None:
    """A name of several calls, of none, a call that is settled, one that never waited, and no server."""
    async with House.opened(tmp_path, calls(ASK, ASK), calls(("free", "{}"))) as house:
        both = await waiting(house)
        free = await house.waiting("free")

        several = await house.baton("approve", "refund", code=2)
        none = await house.baton("approve", "nothing", code=4)
        unknown = await house.baton("reject", "call_x", code=4)
        never = await house.baton("approve", free.call, code=1)
        empty = await house.baton("approve", "", code=2)
        await house.baton("answer", free.session_id, "free", "--output", "x")
        settled = await house.baton("approve", free.call, code=4)

        assert all(call in several.err for call in both.calls)
        assert "no call of 'nothing' waits for a decision; baton actions lists what is open" in none.err
        assert "call_x" in unknown.err and "never waited for a decision" in never.err
        assert "CALL is empty" in empty.err
        assert f"nothing is to be decided: {free.call} is settled, by a result from outside" in settled.err
    await baton("approve", "refund", "--address", NOBODY, code=3)


# -- what else is said of such a call ------------------------------------------------------------


async def test_the_list_says_what_is_asked_and_how_to_decide(tmp_path: Path) -> None:
    """The commands can be typed as they stand; JSON has what a decision is bound to."""
    async with House.opened(tmp_path, calls(ASK)) as house:
        open_ = await waiting(house, guarded("refund", expires={"seconds": 3600}))

        ran = await house.baton("actions", "--state", "awaiting_decision")
        as_json = await house.baton("actions", "--json")
        others = await house.baton("actions", "--state", "unserved")

        assert ran.lines[0].startswith('refund({"cents":100}), ')
        assert "AWAITING_DECISION: somebody must allow Billing to call it like this; it is rejected by itself in" in (
            ran.out
        )
        assert f"allow it:   baton approve {open_.call}" in ran.out
        assert f"refuse it:  baton reject {open_.call}" in ran.out
        assert "answer it" not in ran.out
        assert len(json.loads(as_json.out)["approval"]["arguments_digest"]) == 64
        assert others.out == ""


async def test_a_result_by_hand_is_no_decision(tmp_path: Path) -> None:
    """Nobody has allowed the call; it says how to, and changes nothing."""
    async with House.opened(tmp_path, calls(ASK)) as house:
        open_ = await waiting(house, key="user-7")

        ran = await house.baton("answer", "user-7", "refund", "--output", "done", code=2)

        assert f"waits for a decision. Allow it: baton approve {open_.call}. Refuse it: baton reject" in ran.err
        assert (await house.client.get_session(open_.session_id)).required_actions


async def test_a_call_is_explained_by_what_is_waited_for(tmp_path: Path) -> None:
    """The cause, and the commands."""
    async with House.opened(tmp_path, calls(ASK)) as house:
        open_ = await waiting(house)

        ran = await house.baton("explain", open_.call)

        assert "AWAITING_DECISION: Somebody must allow 'refund' to be called like this" in ran.out
        assert f"baton approve {open_.call}" in ran.out


async def test_a_run_that_waits_for_a_decision_says_how_to_decide(tmp_path: Path) -> None:
    """It ends as one that waits for an answer does, though this process would serve the function."""
    file = tmp_path / "refund.py"
    file.write_text(
        "from baton import function_tool\n\n\n@function_tool\ndef refund(cents: int) -> str:\n"
        '    """Refund."""\n    return "refunded"\n'
    )
    agent = tmp_path / "agent.yaml"
    agent.write_text("name: Billing\ntools:\n  - function: {name: refund, needs_approval: {always: true}}\n")
    async with House.opened(tmp_path, calls(ASK), say("Refunded.")) as house:
        options = ("--host", str(file), "--session", "user-7")

        ran = await house.baton("run", str(agent), "Go.", *options, code=5)

        assert "the turn waits for an answer" in ran.err and "baton approve call_" in ran.err
        await house.baton("approve", "refund")
        session = await house.client.get_session(key="user-7")
        talked = await house.baton("chat", *options, given="")
        assert "Refunded." in talked.out
        assert (await house.client.get_session(session.session_id)).active_turn_id == ""


REFUND = """
from baton import function_tool


@function_tool(needs_approval=True)
def refund(cents: int) -> str:
    \"\"\"Refund.\"\"\"
    return f"refunded {cents}"
"""


async def test_a_function_may_say_that_it_must_be_allowed(tmp_path: Path) -> None:
    """Then the agent that it is given to has it so."""
    (tmp_path / "refund.py").write_text(REFUND)
    (tmp_path / "agent.yaml").write_text("name: Billing\n")
    options = ("--host", str(tmp_path / "refund.py"), "--session", "user-7")
    async with House.opened(tmp_path, calls(ASK), say("Refunded.")) as house:
        ran = await house.baton("run", str(tmp_path / "agent.yaml"), "Go.", *options, code=5)

        assert "baton approve call_" in ran.err
        await house.baton("chat", *options, given="y\n")
        (output,) = [item for item in house.model.input_of(1) if item.get("type") == "function_call_output"]
        assert output["output"] == "refunded 100"


async def test_a_function_that_must_be_allowed_is_not_had_otherwise(tmp_path: Path) -> None:
    """Where an agent of the graph has it already, what it says of that would be lost; so that is refused."""
    (tmp_path / "refund.py").write_text(REFUND)
    agent = tmp_path / "agent.yaml"
    agent.write_text("name: Triage\nagents:\n  - name: Billing\n    tools: [{function: {name: refund}}]\n")
    async with House.opened(tmp_path) as house:
        ran = await house.baton("run", str(agent), "Go.", "--host", str(tmp_path / "refund.py"), code=2)

        assert "refund says needs_approval, but Triage has a function refund of its own" in ran.err


# -- at the prompt -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "replies", "outputs"),
    [
        (["y", "done"], [say("Refunded.")], ["done"]),
        (["maybe", "n Not on a Sunday."], [say("Then not.")], ["Not on a Sunday."]),
        (["a", "done", "done again"], [calls(ASK), say("Twice.")], ["done", "done again"]),
    ],
)
async def test_a_conversation_asks_whether_a_call_is_allowed(
    tmp_path: Path, lines: Sequence[str], replies: Sequence[Reply], outputs: Sequence[str]
) -> None:
    """Yes, then its result, since nobody serves it; no, with words for the model; always, for the rest of the turn."""
    async with House.opened(tmp_path, calls(ASK), *replies) as house:
        await house.client.create_session(agent=guarded("refund"), key="user-7")

        given = "".join(f"{line}\n" for line in ("Go.", *lines))
        ran = await house.baton("chat", "--session", "user-7", given=given)

        assert "Billing may call refund only if you allow it" in ran.err
        told = [item for item in house.model.input_of(-1) if item.get("type") == "function_call_output"]
        assert [item["output"] for item in told] == list(outputs)
        if "maybe" in lines:
            assert "type y, n, n TEXT or a" in ran.err
