"""`baton sessions list`, `show` and `delete`, as a person and a script use them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.commands import House
from tests.cli.terminals import on_pipes, on_terminal
from tests.support.scripted_model import calls, fail, say

from baton import Client
from baton_server.core.errors import Reason

LONG_KEY = "a-key-that-is-far-too-long-for-a-column-of-a-table-on-a-terminal-of-eighty-columns"


# -- list ----------------------------------------------------------------------------------------


async def test_a_list_has_whole_ids_and_keys_on_a_pipe(tmp_path: Path) -> None:
    """Newest first; what is printed can be given to the next command."""
    async with House.opened(tmp_path) as house:
        old = await house.session(key=LONG_KEY)
        new = await house.session()

        ran = await house.baton("sessions", "list")

        titles, first, second = ran.lines
        assert titles.split() == ["SESSION", "KEY", "STATUS", "ACTIVE"]
        assert first.split()[:2] == [new.session_id, "idle"]
        assert second.split()[:3] == [old.session_id, LONG_KEY, "idle"]
        assert second.endswith((" ago", " now"))
        assert "\x1b" not in ran.out


async def test_a_list_fits_a_terminal_of_eighty_columns(tmp_path: Path) -> None:
    """Keys are cut, ids are not."""
    async with House.opened(tmp_path) as house:
        session = await house.session(key=LONG_KEY)
        async with on_terminal("sessions", "list", address=house.server.address) as listed:
            screen = await listed.ends()

        (line,) = [line for line in screen.splitlines() if session.session_id in line]
        assert "a-key-that" in line and "…" in line
        assert max(len(re.sub("\x1b\\[[0-9;]*m", "", line)) for line in screen.splitlines()) <= 80


async def test_filters_choose_by_status_and_label(tmp_path: Path) -> None:
    """Labels must all be there; statuses are those of the contract."""
    async with House.opened(tmp_path, calls(("f", "{}"))) as house:
        labelled = await house.session(metadata={"team": "a", "env": "prod"})
        waiting = await house.waiting("f")

        def ids(out: str) -> list[str]:
            return [json.loads(line)["session_id"] for line in out.splitlines()]

        here = ["sessions", "list", "--json"]
        by_label = await house.baton(*here, "--label", "team=a", "--label", "env=prod")
        by_status = await house.baton(*here, "--status", "requires_action")
        both = await house.baton(*here, "--status", "requires_action", "--status", "IDLE")
        limited = await house.baton(*here, "--limit", "1")
        none = await house.baton("sessions", "list", "--label", "team=b")

        assert ids(by_label.out) == [labelled.session_id]
        assert ids(by_status.out) == [waiting.session_id]
        assert ids(both.out) == [waiting.session_id, labelled.session_id]
        assert ids(limited.out) == [waiting.session_id]
        assert "there are more than these 1" in limited.err
        assert (none.out, none.err) == ("", "baton: no such session\n")


@pytest.mark.slow
async def test_what_a_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    """In words and, so that it stays JSON, in JSON."""
    async with House.opened(tmp_path) as house:
        await house.session(key="é漢")
        ascii_only = {"address": house.server.address, "PYTHONIOENCODING": "ascii"}

        async with on_pipes("sessions", "list", **ascii_only) as listed:
            assert r"\xe9\u6f22" in await listed.ends()
        async with on_pipes("sessions", "list", "--json", **ascii_only) as listed:
            assert json.loads(await listed.ends())["key"] == "é漢"


async def test_an_empty_list_is_no_failure(tmp_path: Path) -> None:
    """It is said on standard error."""
    async with House.opened(tmp_path) as house:
        ran = await house.baton("sessions", "list")

        assert (ran.out, ran.err) == ("", "baton: there is no session\n")


@pytest.mark.parametrize(
    "wrong", [["--label", "team"], ["--label", "=a"], ["--status", "done"], ["--limit", "0"], ["--label", "a=\udcff"]]
)
async def test_a_wrong_filter_is_wrong_usage(tmp_path: Path, wrong: list[str]) -> None:
    """It is never passed over."""
    async with House.opened(tmp_path) as house:
        ran = await house.baton("sessions", "list", *wrong, code=2)

        assert wrong[0] in ran.err or "UTF-8" in ran.err


# -- show ----------------------------------------------------------------------------------------


async def test_show_has_all_about_a_session(tmp_path: Path) -> None:
    """Where it stands, its turns, its history, and what is open, with what to do about it."""
    async with House.opened(tmp_path, fail(Reason.MODEL_RATE_LIMITED), calls(("f", '{"n":1}'))) as house:
        session = await house.session("f", key="user-7", metadata={"team": "a"}, scopes=["svc"])
        await house.client.submit(session.session_id, "First.")
        await house.until(session.session_id, "session_idle")
        await house.client.submit(session.session_id, "Second.")
        await house.until(session.session_id, "session_requires_action")

        ran = await house.baton("sessions", "show", "user-7")

        for line in ("key      user-7", "status   requires_action", "agent    Assistant", "label    team=a"):
            assert line in ran.lines
        turns = [line.strip() for line in ran.lines if line.strip().startswith("turn_")]
        assert "waiting, 1 round" in turns[0]
        assert turns[1].endswith("MODEL_RATE_LIMITED: as the script says")
        assert "  user: First." in ran.lines and '  → f({"n":1})' in ran.lines
        assert "UNSERVED: no worker serves it in the scope 'svc' or the empty one" in ran.out
        assert f"baton answer {session.session_id} call_" in ran.out


async def test_show_takes_an_id_as_well_as_a_key(tmp_path: Path) -> None:
    """Also a key that looks like an id."""
    async with House.opened(tmp_path) as house:
        plain = await house.session()
        odd = await house.session(key="sess_mine")

        by_id = await house.baton("sessions", "show", plain.session_id, "--json")
        by_key = await house.baton("sessions", "show", "sess_mine", "--json")
        missing = await house.baton("sessions", "show", "sess_none", code=4)
        empty = await house.baton("sessions", "show", "", code=2)

        assert json.loads(by_id.out)["session_id"] == plain.session_id
        assert json.loads(by_key.out)["session_id"] == odd.session_id
        assert "no session has the id or the key 'sess_none'" in missing.err
        assert "SESSION is empty" in empty.err


async def test_a_long_history_is_shown_from_its_end(tmp_path: Path) -> None:
    """As much of it as was asked for; texts are shortened unless they are wanted whole, large ones read besides."""
    large = "x" * 300_000
    async with House.opened(tmp_path, say("One."), say("Two.")) as house:
        session = await house.session()
        for text in (large, "Second."):
            await house.client.submit(session.session_id, text)
            await _idle(house, session.session_id)
        here = ["sessions", "show", session.session_id]

        newest = await house.baton(*here, "--items", "2")
        everything = await house.baton(*here, "--items", "0")
        full = await house.baton(*here, "--items", "0", "--full")

        assert [line for line in newest.lines if line.startswith("  ")][-2:] == ["  user: Second.", "  Assistant: Two."]
        assert "older items are left out" in newest.out
        assert "user: [300,000 bytes]" in everything.out and "Assistant: One." in everything.out
        assert f"user: {large}" in full.out


async def _idle(house: House, session_id: str) -> None:
    """Wait until a session rests."""
    async for _ in house.client.watch(session_id):
        pass


# -- delete --------------------------------------------------------------------------------------


async def test_nobody_to_ask_needs_yes(tmp_path: Path) -> None:
    """On a pipe the command says so and does nothing; with --yes it deletes."""
    async with House.opened(tmp_path) as house:
        session = await house.session(key="user-7")

        unsure = await house.baton("sessions", "delete", "user-7", given="y\n", code=2)
        sure = await house.baton("sessions", "delete", "user-7", "--yes")
        again = await house.baton("sessions", "delete", "user-7", "--yes", code=4)

        assert "say --yes" in unsure.err
        assert sure.out == f"deleted {session.session_id}\n"
        assert "'user-7'" in again.err


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("\x04", 1)])
async def test_a_terminal_is_asked(tmp_path: Path, answer: str, code: int) -> None:
    """Only yes deletes; an empty line and Ctrl-D do not."""
    async with House.opened(tmp_path) as house:
        session = await house.session(key="user-7")
        async with on_terminal("sessions", "delete", "user-7", address=house.server.address) as delete:
            await delete.sees(f"Delete the session {session.session_id} with the key 'user-7' and its 1 event? [y/N]")
            delete.types(answer)
            screen = await delete.ends(code)

        left = [one.session_id async for one in Client(house.server.address).list_sessions()]
        assert left == ([] if code == 0 else [session.session_id])
        assert ("was not deleted" in screen) == (code == 1)


@pytest.mark.slow
async def test_ctrl_c_at_the_question_deletes_nothing(tmp_path: Path) -> None:
    """It says so, and exits as shells count it."""
    async with House.opened(tmp_path) as house:
        session = await house.session()
        async with on_terminal("sessions", "delete", session.session_id, address=house.server.address) as delete:
            await delete.sees("[y/N]")
            delete.process.send_signal(2)
            delete.types("\n")  # a signal that comes just before the read begins is seen when the read ends
            screen = await delete.ends(130)

        assert f"\nbaton: {session.session_id} was not deleted" in screen.replace("\r", "")
        assert [one.session_id async for one in house.client.list_sessions()] == [session.session_id]


async def test_a_session_whose_turn_waits_is_not_deleted(tmp_path: Path) -> None:
    """The server refuses; the command says which turn is in the way."""
    async with House.opened(tmp_path, calls(("f", "{}"))) as house:
        waiting = await house.waiting("f")

        ran = await house.baton("sessions", "delete", waiting.session_id, "--yes", code=1)

        assert f"The turn {waiting.turn_id} of the session still runs or waits" in ran.err
