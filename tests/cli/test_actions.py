"""`baton actions`: what is open over all sessions, and what each call waits for."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.commands import House
from tests.support.scripted_model import calls, say
from tests.support.scripted_worker import ScriptedWorker

from baton.v1 import handler_pb2


async def test_a_call_that_nobody_serves_comes_with_what_to_do(tmp_path: Path) -> None:
    """Its ids are whole and the commands can be typed as they stand: the answer works."""
    async with House.opened(tmp_path, calls(("get_time", '{"city":"Oslo"}')), say("Done.")) as house:
        waiting = await house.waiting("get_time", scopes=["svc-7", "it's"])

        ran = await house.baton("actions")

        assert ran.lines[0].startswith('get_time({"city":"Oslo"}), ')
        assert f"  session  {waiting.session_id}" in ran.lines
        assert f"  call     {waiting.call}" in ran.lines
        assert "UNSERVED: no worker serves it in the scopes 'svc-7', \"it's\" or the empty one" in ran.out
        assert "baton worker FILE.py:get_time --scope svc-7" in ran.out
        assert f"baton answer {waiting.session_id} {waiting.call} --output TEXT" in ran.out
        await house.baton("answer", waiting.session_id, waiting.call, "--output", "TEXT")
        assert (await house.baton("actions")).out == ""


async def test_the_commands_repeat_an_address_that_was_given(tmp_path: Path) -> None:
    """Else they would go to another server; where the environment says it, they need not."""
    async with House.opened(tmp_path, calls(("f", "{}"))) as house:
        await house.waiting("f")

        given = await house.baton("actions", "--address", f"localhost:{house.server.address.rpartition(':')[2]}")
        known = await house.baton("actions", "--address", house.server.address)

        assert "--output TEXT --address localhost:" in given.out
        assert "no worker serves it in the empty scope" in given.out
        assert "--address" not in known.out


async def test_a_call_is_queued_then_leased_then_acked(tmp_path: Path) -> None:
    """Each state says in words who is waited for; there is nothing to do about it."""
    async with House.opened(tmp_path, calls(("f", "{}"))) as house:
        worker = await ScriptedWorker.attached(house.server.address, "f", credit=0)
        try:
            await house.waiting("f")

            queued = await house.baton("actions")
            await worker.send(credit={"messages": 1})
            call = await worker.expect("call")
            leased = await house.baton("actions")
            await worker.ack(call)
            await worker.nothing()
            acked = await house.baton("actions")
        finally:
            await worker.close()

        assert "QUEUED: a worker serves it, but has no room for it at the moment" in queued.out
        assert f"LEASED: {worker.welcome.worker_id} has not acked it yet; its lease ends in " in leased.out
        assert f"LEASED: {worker.welcome.worker_id} has acked it; its lease ends in " in acked.out
        assert "attempt 1" in acked.out
        assert "baton answer" not in queued.out + leased.out + acked.out


async def test_a_call_of_unknown_effect_says_what_somebody_must_find_out(tmp_path: Path) -> None:
    """And how to answer it then."""
    once = [{"name": "f", "execution": {"side_effects": handler_pb2.SIDE_EFFECTS_ONCE}}]
    async with House.opened(tmp_path, calls(("f", "{}"))) as house:
        worker = await ScriptedWorker.attached(house.server.address, handlers=once)
        try:
            waiting = await house.waiting("f")
            call = await worker.expect("call")
            await worker.send(nack={"call_id": call.call_id, "attempt": 1})
            await house.until(waiting.session_id, "effect_unknown")

            ran = await house.baton("actions", "--state", "effect_unknown")
        finally:
            await worker.close()

        assert "EFFECT_UNKNOWN: attempt 1 may have run, and it must not run twice; look whether it did, by" in ran.out
        assert f"answer it:  baton answer {waiting.session_id} {call.call_id} --output TEXT" in ran.out


async def test_filters_choose_by_state_name_and_scope(tmp_path: Path) -> None:
    """What is left out is not counted; nothing left is said on standard error, and is no failure."""
    replies = [calls(("f", "{}")), calls(("g", "{}"))]
    async with House.opened(tmp_path, *replies) as house:
        first = await house.waiting("f", scopes=["a"])
        second = await house.waiting("g")

        both = await house.baton("actions", "--state", "UNSERVED", "--json")
        by_name = await house.baton("actions", "--name", "g", "--json")
        by_scope = await house.baton("actions", "--scope", "a", "--json")
        none = await house.baton("actions", "--state", "leased", "--state", "queued")
        limited = await house.baton("actions", "--limit", "1")

        def ids(out: str) -> list[str]:
            return [json.loads(line)["call_id"] for line in out.splitlines()]

        assert ids(both.out) == [first.call, second.call]
        assert (ids(by_name.out), ids(by_scope.out)) == ([second.call], [first.call])
        assert (none.out, none.err) == ("", "baton: no such call is open\n")
        assert second.call not in limited.out and "there are more than these 1" in limited.err


async def test_nothing_open_is_no_failure(tmp_path: Path) -> None:
    """It is said on standard error; standard output stays empty for a script."""
    async with House.opened(tmp_path) as house:
        ran = await house.baton("actions")

        assert (ran.out, ran.err) == ("", "baton: no call is open\n")


async def test_arguments_are_shortened_on_screen_alone(tmp_path: Path) -> None:
    """And what would drive a terminal is escaped; JSON has all of it."""
    arguments = json.dumps({"text": "a" * 5000, "bell": "\x9b2J\u202e"}, ensure_ascii=False)
    async with House.opened(tmp_path, calls(("f", arguments))) as house:
        await house.waiting("f")

        shown = await house.baton("actions")
        as_json = await house.baton("actions", "--json")

        assert "… (5,0" in shown.out and " characters)" in shown.out
        assert len(shown.lines[0]) < 300
        assert json.loads(as_json.out)["arguments_json"] == arguments
        assert not {"\x9b", "\u202e"} & set(shown.out + as_json.out)


async def test_a_state_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    """The choices are told."""
    async with House.opened(tmp_path) as house:
        ran = await house.baton("actions", "--state", "open", code=2)

        assert "unserved" in ran.err
