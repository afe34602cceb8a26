"""`baton answer`, as a person meets it who settles calls by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.commands import NOBODY, House, baton
from tests.support.scripted_model import calls, say

from baton.items.outputs import MAX_RESULT_BYTES


def told(house: House, request: int = -1) -> list[str]:
    """List the outputs of calls that a request to the model carried."""
    return [item["output"] for item in house.model.input_of(request) if item.get("type") == "function_call_output"]


async def test_a_text_settles_a_call_named_by_its_function(tmp_path: Path) -> None:
    """The turn goes on with it; the answer says which call it was, and how to watch."""
    async with House.opened(tmp_path, calls(("get_time", "{}")), say("Done.")) as house:
        waiting = await house.waiting("get_time", key="user-7")

        ran = await house.baton("answer", "user-7", "get_time", "--output", "18:00\n«é»")

        assert ran.out == f"settled {waiting.call}\n"
        assert f"baton sessions tail {waiting.session_id}" in ran.err
        await house.until(waiting.session_id, "turn_completed")
        assert told(house) == ["18:00\n«é»"]


@pytest.mark.parametrize(
    ("flag", "given", "seen"),
    [
        ("--output", b"a text\n", "a text\n"),
        ("--output-json", b'{"a": 1.0}', '{"a": 1.0}'),
        ("--output-file", b"", ""),
        ("--error", b"closed", "closed"),
    ],
)
async def test_each_result_may_come_from_standard_input(tmp_path: Path, flag: str, given: bytes, seen: str) -> None:
    """What comes is sent byte for byte."""
    async with House.opened(tmp_path, calls(("f", "{}")), say("Done.")) as house:
        waiting = await house.waiting("f")

        await house.baton("answer", waiting.session_id, waiting.call, flag, "-", given=given)

        await house.until(waiting.session_id, "turn_completed")
        assert told(house) == [seen]


@pytest.mark.slow
async def test_a_file_is_sent_as_it_is(tmp_path: Path) -> None:
    """Up to the very limit."""
    file = tmp_path / "result.txt"
    file.write_text("a" * MAX_RESULT_BYTES)
    async with House.opened(tmp_path, calls(("f", "{}")), say("Done.")) as house:
        waiting = await house.waiting("f")

        await house.baton("answer", waiting.session_id, "f", "--output-file", str(file))

        await house.until(waiting.session_id, "turn_completed")
        assert [len(text) for text in told(house)] == [MAX_RESULT_BYTES]


@pytest.mark.slow
async def test_a_result_that_is_too_large_is_refused_with_size_and_limit(tmp_path: Path) -> None:
    """Whether it comes as a file or from a pipe, whose size nobody knows; the call stays open."""
    file = tmp_path / "result.txt"
    file.write_text("a" * (MAX_RESULT_BYTES + 1))
    async with House.opened(tmp_path, calls(("f", "{}"))) as house:
        waiting = await house.waiting("f")
        here = ["answer", waiting.session_id, "f"]

        from_file = await house.baton(*here, "--output-file", str(file), code=1)
        from_pipe = await house.baton(*here, "--output", "-", given=file.read_bytes(), code=1)

        assert "result.txt has 4,194,305 bytes, at most 4,194,304 are taken" in from_file.err
        assert "more than 4,194,304 bytes, at most 4,194,304 are taken" in from_pipe.err
        assert len((await house.client.get_session(waiting.session_id)).required_actions) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "no result is given; give exactly one of --output, --output-json, --output-file, --error"),
        (["--output", "a", "--error", "b"], "2 results are given; give exactly one of"),
        (["--output-json", '{"a": }'], "no JSON (Expecting value: line 1 column 7 (char 6))"),
        (["--output-json", "NaN"], "NaN is not in JSON"),
        (["--output-file", "none.txt"], "none.txt cannot be read: No such file or directory"),
        (["--output-file", "."], ". cannot be read: Is a directory"),
        (["--output", "a\udcff"], "--output is no UTF-8 text: invalid start byte at byte 1"),
    ],
)
async def test_a_result_that_is_none_is_wrong_usage(given: list[str], said: str) -> None:
    """It is found out before a server is asked, and says where it is wrong."""
    ran = await baton("answer", "user-7", "f", *given, "--address", NOBODY, code=2)

    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


async def test_the_same_result_again_is_a_duplicate_and_another_one_is_discarded(tmp_path: Path) -> None:
    """A script that is run again succeeds; who comes second learns what came first, and what else is open."""
    async with House.opened(tmp_path, calls(("f", "{}"), ("g", '{"n":1}'))) as house:
        waiting = await house.waiting("f", "g")
        here = ["answer", waiting.session_id]
        first = await house.baton(*here, waiting.calls[0], "--output", "one")

        again = await house.baton(*here, waiting.calls[0], "--output", "one")
        other = await house.baton(*here, waiting.calls[0], "--output", "two", code=1)
        by_name = await house.baton(*here, "f", "--output", "two", code=4)
        as_json = await house.baton(*here, waiting.calls[0], "--output", "two", "--json", code=1)

        assert f'Open are: g({{"n":1}}) {waiting.calls[1]}' in first.err
        assert again.out.startswith(f"duplicate: {waiting.calls[0]}")
        assert "discarded, since CALL_SETTLED" in other.err and "by hand" in other.err
        assert f'Open are: g({{"n":1}}) {waiting.calls[1]}' in other.err
        assert f"no call of 'f' is open: the last one, {waiting.calls[0]}, was settled before" in by_name.err
        assert json.loads(as_json.out)["status"] == "INPUT_STATUS_DISCARDED"


async def test_a_name_of_two_open_calls_asks_which(tmp_path: Path) -> None:
    """Both are told, with what tells them apart; nothing is settled."""
    async with House.opened(tmp_path, calls(("f", '{"n":1}'), ("f", '{"n":2}'))) as house:
        waiting = await house.waiting("f")

        ran = await house.baton("answer", waiting.session_id, "f", "--output", "x", code=2)

        one, other = waiting.calls
        assert f'say which: f({{"n":1}}) {one}, f({{"n":2}}) {other}' in ran.err
        assert len((await house.client.get_session(waiting.session_id)).required_actions) == 2


async def test_what_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    """A session, a call; each by the name that was given."""
    async with House.opened(tmp_path, calls(("f", "{}"))) as house:
        waiting = await house.waiting("f")

        session = await house.baton("answer", "nobody", "f", "--output", "x", code=4)
        call = await house.baton("answer", waiting.session_id, "call_x", "--output", "x", code=4)
        empty = await house.baton("answer", waiting.session_id, "", "--output", "x", code=2)

        assert "no session has the id or the key 'nobody'" in session.err
        assert "has no call 'call_x'. Open are: f({})" in call.err
        assert "CALL is empty" in empty.err


async def test_a_call_over_which_its_turn_failed_is_owed_no_answer(tmp_path: Path) -> None:
    """The log has it, but it was never open."""
    async with House.opened(tmp_path, calls(("unknown", "{}"))) as house:
        session = await house.session("f")
        await house.client.submit(session.session_id, "Go.")
        events = await house.until(session.session_id, "turn_failed")
        (call_id,) = (call.call_id for event in events if (call := event.item_added.item.function_call).call_id)

        ran = await house.baton("answer", session.session_id, call_id, "--output", "x", code=4)

        assert f"has no call {call_id!r}. Nothing is open" in ran.err
