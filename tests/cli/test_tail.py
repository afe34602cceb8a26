"""`baton sessions tail`: what happens in a session, as a person reads it and as a script does."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp
from tests.cli.commands import House
from tests.cli.terminals import into_closed_pipe, on_pipes, on_terminal
from tests.support.scripted_model import Gate, calls, fail, say
from tests.support.server import ServerProcess

from baton import Agent, Client, RemoteFunction, close_connections
from baton.v1 import error_pb2, event_pb2, item_pb2
from baton_server.cli.show.event_lines import event_words, known_arms
from baton_server.cli.show.tail import VOID, TailLines
from baton_server.core.errors import Reason

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)

LINE = re.compile(r" *\d+ \d\d:\d\d:\d\d .{6} \S")
"""The beginning of an event's line: sequence, time, turn."""


def event(sequence: int = 1, *, at: datetime = NOON, **arm: Any) -> event_pb2.StreamPart:
    """Make a part with an event of the turn turn_abcdef."""
    when = Timestamp()
    when.FromDatetime(at)
    made = event_pb2.Event(sequence=sequence, created_at=when, turn_id="turn_abcdef", round=1, **arm)
    return event_pb2.StreamPart(event=made)


def message(text: str, item_id: str = "item_1") -> event_pb2.ItemDone:
    """Make the item of an assistant's message."""
    said = item_pb2.Message(role=item_pb2.MESSAGE_ROLE_ASSISTANT, content=[item_pb2.ContentPart(text=text)])
    return event_pb2.ItemDone(in_history=True, item=item_pb2.Item(item_id=item_id, agent="Guide", message=said))


def delta(text: str, offset: int, *, attempt: int = 1, **changes: Any) -> event_pb2.StreamPart:
    """Make a part with a fragment of that message."""
    where = {"turn_id": "turn_abcdef", "round": 1, "item_id": "item_1", **changes}
    made = event_pb2.Delta(**where, model_attempt=attempt, offset=offset, output_text=text)
    return event_pb2.StreamPart(delta=made)


def reset(text: str, attempt: int = 1) -> event_pb2.StreamPart:
    """Make a part that says how far the message has come."""
    made = event_pb2.Reset(
        turn_id="turn_abcdef",
        round=1,
        model_attempt=attempt,
        reason=event_pb2.RESET_REASON_LOST,
        items=[message(text).item] if text else [],
    )
    return event_pb2.StreamPart(reset=made)


def written(*parts: event_pb2.StreamPart) -> str:
    """Write what a terminal would be given."""
    lines = TailLines(NOON)
    return "".join(piece for part in parts for piece in lines.feed(part))


# -- what is written, without a server -----------------------------------------------------------


def test_a_text_is_written_as_it_comes_and_not_again_as_an_event() -> None:
    """The event's line follows, with its sequence, and points to the text above."""
    shown = written(delta("Hel", 0), delta("lo,\nyou", 3), event(7, item_done=message("Hello,\nyou")))

    text, more, line = shown.splitlines()
    assert text.split() == ["abcdef", "Hello,"]
    assert more.split() == ["you"] and more.startswith(" " * 20)
    assert line.endswith("abcdef Guide: (as above, 10 characters)") and line.startswith("    7 ")


def test_a_text_that_was_not_seen_whole_is_written_whole() -> None:
    """Fragments may be missed; the item has all of it."""
    shown = written(delta("Hel", 0), delta("!", 9), event(7, item_done=message("Hello!")))

    assert shown.splitlines()[-1].endswith("Guide: Hello!")


def test_after_a_reset_the_text_begins_anew() -> None:
    """The text that counts no more is said to be void; what comes then is whole."""
    shown = written(delta("Old", 0), reset("", attempt=2), delta("New", 0, attempt=2))

    assert [line.strip().removeprefix("abcdef").strip() for line in shown.splitlines()] == ["Old", f"({VOID})", "New"]


def test_a_reset_that_says_the_same_is_not_seen() -> None:
    """Who came in the middle goes on where the text stands."""
    shown = written(reset("Hel"), delta("lo", 3))

    assert shown.split() == ["abcdef", "Hello"]


def test_each_turn_has_its_own_rounds() -> None:
    """A fragment of the first round of the next turn is not taken for an old one."""
    shown = written(delta("One", 0, round=5), delta("Two", 0, turn_id="turn_second"))

    assert [line.split()[-1] for line in shown.splitlines()] == ["One", "Two"]


def test_an_event_of_a_later_version_is_shown_by_its_number() -> None:
    """It is not dropped: its sequence counts. So is a part of the stream, and an item."""
    unknown_event = event_pb2.Event.FromString(event_pb2.Event(sequence=4).SerializeToString() + b"\x9a\x06\x00")
    unknown_part = event_pb2.StreamPart.FromString(b"\x9a\x06\x00")
    unknown_item = event(5, item_added=event_pb2.ItemAdded(in_history=True, item=item_pb2.Item(item_id="item_1")))

    shown = written(event_pb2.StreamPart(event=unknown_event), unknown_part, unknown_item)

    assert "event 99, which this version does not know" in shown
    assert "part 99 of the stream, which this version does not know" in shown
    assert "an item of a kind that this version does not know" in shown


def test_every_arm_of_the_contract_has_words() -> None:
    """A new event is not shown as a dump of its fields."""
    arms = {field.name for field in event_pb2.Event.DESCRIPTOR.oneofs_by_name["event"].fields}

    assert set(known_arms()) == arms
    for arm in arms:
        empty = event_pb2.Event(sequence=1)
        getattr(empty, arm).SetInParent()
        assert event_words(empty)


def test_a_decision_says_who_made_it_and_for_how_long() -> None:
    """And that nobody made one in time."""
    yes = event_pb2.Decision(call_id="call_1", verdict=event_pb2.VERDICT_APPROVE, always=True, decided_by="ops")
    no = event_pb2.Decision(
        call_id="call_1", verdict=event_pb2.VERDICT_REJECT, always_in_session=True, message="Not on a Sunday."
    )
    late = error_pb2.Error(reason=error_pb2.ERROR_REASON_APPROVAL_EXPIRED, message="Nobody decided.")

    def words(**fields: Any) -> str:
        return event_words(event_pb2.Event(approval_decided=event_pb2.ApprovalDecided(**fields)))

    assert words(decision=yes) == "ops approved call_1, and later ones in the turn"
    assert words(decision=no) == "somebody rejected call_1, and later ones in the session: Not on a Sunday."
    assert words(decision=no, error=late) == "call_1 is rejected: APPROVAL_EXPIRED: Nobody decided."


def test_what_happens_in_a_nested_run_stands_further_to_the_right() -> None:
    """Its fragments are left out: runs that go on beside one another would write into each other's lines."""
    inner = event(3, item_done=message("Found:\nit."))
    inner.event.run_path.append("call_1")
    fragment = delta("Fou", 0, run_path=["call_1"])

    outer, first, second = written(event(2, item_added=_call("{}")), fragment, inner).splitlines()

    assert outer[22:] == "→ f({})"
    assert (first[22:], second[22:]) == ("  Guide: Found:", "  it.")


def test_nothing_that_is_told_drives_the_terminal() -> None:
    """Escapes are shown; a line end in a text never begins what could pass for an event."""
    evil = "\x1b[2J\x07\x9b31m\u202e\r\n    9 12:00:00 abcdef turn completed"
    shown = written(
        delta(evil, 0),
        event(1, item_done=message(evil, "item_2")),
        event(2, agent_changed=event_pb2.AgentChanged(agent=evil)),
        event(3, session_created=event_pb2.SessionCreated(key=evil, metadata={evil: evil})),
        event(4, cancel_requested=event_pb2.CancelRequested(reason=evil)),
        event(5, item_added=_call(evil)),
        event(6, item_added=_output(evil)),
    )

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)
    assert r"\x1b[2J\x07\x9b31m\u202e" in shown
    assert [line for line in shown.splitlines() if LINE.match(line)][-1].startswith("    6 ")
    assert not any(line.startswith("    9 ") for line in shown.splitlines())


def _call(text: str) -> event_pb2.ItemAdded:
    call = item_pb2.FunctionCall(call_id="call_1", name="f", arguments_json=text)
    return event_pb2.ItemAdded(in_history=True, item=item_pb2.Item(function_call=call))


def _output(text: str) -> event_pb2.ItemAdded:
    parts = [item_pb2.ContentPart(text=text)]
    output = item_pb2.FunctionCallOutput(name="f", output=parts, settlement=item_pb2.SETTLEMENT_OUTPUT)
    return event_pb2.ItemAdded(in_history=True, item=item_pb2.Item(function_call_output=output))


def test_another_day_has_a_line_of_its_own() -> None:
    """Times of day alone would mislead; today's need no date."""
    long_ago = datetime(2026, 9, 1, 12, tzinfo=UTC)
    shown = written(event(1, at=long_ago), event(2, at=long_ago), event(3))

    assert [line for line in shown.splitlines() if not LINE.match(line)] == ["2026-09-01", "2026-11-30"]


# -- against a server ----------------------------------------------------------------------------


async def test_each_event_is_a_line_in_words(tmp_path: Path) -> None:
    """Calls with arguments, results, texts and what was used."""
    async with House.opened(tmp_path, calls(("get_time", '{"city":"Oslo"}')), say("It is 18:00.")) as house:
        waiting = await house.waiting("get_time", text="What time is it?", key="user-7")
        await house.baton("answer", "user-7", "get_time", "--output", "18:00")
        await house.until(waiting.session_id, "session_idle")

        ran = await house.baton("sessions", "tail", "user-7")

        assert all(LINE.match(line) for line in ran.lines)
        assert [int(line.split()[0]) for line in ran.lines] == list(range(1, len(ran.lines) + 1))
        for words in (
            f"session {waiting.session_id} made with the key 'user-7'",
            f"turn {waiting.turn_id} of Assistant made",
            "user: What time is it?",
            '→ get_time({"city":"Oslo"})',
            f'waits for get_time({{"city":"Oslo"}}) {waiting.call}',
            "← get_time: answered by hand: 18:00",
            "Assistant: It is 18:00.",
            "turn completed: 2 rounds, 2 requests, 20 tokens (14 in, 6 out)",
            "session idle",
        ):
            assert any(line[22:] == words for line in ran.lines), (words, ran.out)


async def test_a_failed_turn_says_why(tmp_path: Path) -> None:
    """Reason and message."""
    async with House.opened(tmp_path, fail(Reason.MODEL_RATE_LIMITED)) as house:
        session = await house.session()
        await house.client.submit(session.session_id, "Go.")
        await house.until(session.session_id, "turn_failed")

        ran = await house.baton("sessions", "tail", session.session_id)

        assert "turn failed: MODEL_RATE_LIMITED: as the script says" in ran.out


async def test_a_script_gets_the_parts_of_the_stream(tmp_path: Path) -> None:
    """One line each, as the contract writes them; `--after`, `--turn` and `--follow` choose."""
    async with House.opened(tmp_path, say("One."), say("Two.")) as house:
        session = await house.session()
        first = (await house.client.submit(session.session_id, "Go.")).turn_id
        await house.until(session.session_id, "session_idle")
        here = ["sessions", "tail", session.session_id, "--json"]

        all_of_it = await house.baton(*here, "--follow", "none")
        later = await house.baton(*here, "--after", "3")
        of_turn = await house.baton(*here, "--turn", first)

        assert [ParseDict(json.loads(line), event_pb2.StreamPart()) for line in all_of_it.lines]
        sequences = [int(part["event"]["sequence"]) for part in map(json.loads, later.lines) if "event" in part]
        assert sequences[0] == 4
        turns = {part["event"]["turn_id"] for part in map(json.loads, of_turn.lines) if "event" in part}
        assert turns == {first}
        assert "heartbeat" in json.loads(all_of_it.lines[-1])


async def test_what_cannot_be_watched_is_told(tmp_path: Path) -> None:
    """A session or a turn that is not there, a sequence that is not there yet."""
    async with House.opened(tmp_path) as house:
        session = await house.session()
        here = ["sessions", "tail"]

        missing = await house.baton(*here, "nobody", code=4)
        turn = await house.baton(*here, session.session_id, "--turn", "turn_x", code=4)
        ahead = await house.baton(*here, session.session_id, "--after", "99", code=1)
        wrong = await house.baton(*here, session.session_id, "--after", "-1", code=2)

        assert "'nobody'" in missing.err and "'turn_x'" in turn.err
        assert "after_sequence 99 is above the session's last sequence 1" in ahead.err
        assert "--after" in wrong.err


@pytest.mark.slow
async def test_a_terminal_sees_text_while_it_is_written(tmp_path: Path) -> None:
    """Before the model has ended; Ctrl-C ends the watch with its exit code and changes nothing."""
    gate = Gate()
    async with House.opened(tmp_path, say("Once upon ", gate, "a time.")) as house:
        session = await house.session()
        watch = ["sessions", "tail", session.session_id, "--follow", "forever"]
        async with on_terminal(*watch, address=house.server.address) as tail:
            await tail.sees("made")
            await house.client.submit(session.session_id, "Tell.")
            await tail.sees("Once upon ")
            assert "a time" not in tail.screen
            gate.open()
            await tail.sees("Once upon a time.", "Assistant: (as above, 17 characters)", "session idle")
            tail.process.send_signal(2)
            await tail.ends(130)


@pytest.mark.slow
async def test_a_watch_goes_on_over_a_restart_of_the_server(tmp_path: Path) -> None:
    """It says that the server is lost and back; no event is missing or told twice."""
    async with ServerProcess(tmp_path / "baton.db") as server:
        client = Client(server.address)
        tool = RemoteFunction("get_time", params_json_schema={"type": "object"})
        session = await client.create_session(key="user-7", agent=Agent(name="Assistant", tools=[tool]))
        async with on_pipes("sessions", "tail", "user-7", "--follow", "forever", address=server.address) as tail:
            await tail.sees("made with the key 'user-7'")
            await server.kill()
            await tail.sees("baton: the server does not answer any more; waiting for it")
            await server.start()
            await client.submit(session.session_id, "Hello")
            await tail.sees("baton: the server is back", "session idle")
        await close_connections()

    events = [int(line.split()[0]) for line in tail.screen.splitlines() if LINE.match(line)]
    assert events == list(range(1, len(events) + 1))


@pytest.mark.slow
async def test_who_reads_no_further_ends_the_watch(tmp_path: Path) -> None:
    """`… | head -1` leaves no traceback."""
    async with House.opened(tmp_path, say("Done.")) as house:
        session = await house.session()
        await house.client.submit(session.session_id, "Go.")
        await house.until(session.session_id, "session_idle")

        ran = await into_closed_pipe("sessions", "tail", session.session_id, address=house.server.address)

        assert ran == ""
