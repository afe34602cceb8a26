"""`baton explain`: why a call does not run, or what settled it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.commands import House
from tests.support.scripted_model import calls, say
from tests.support.scripted_worker import ScriptedWorker

from baton.v1 import item_pb2
from baton_server.cli.show.causes import SETTLED


async def test_a_call_that_nobody_serves_comes_with_what_to_do(tmp_path: Path) -> None:
    """The commands can be typed as they stand."""
    async with House.opened(tmp_path, calls(("get_time", '{"city":"Oslo"}')), say("Done.")) as house:
        waiting = await house.waiting("get_time", scopes=["svc-7"])

        ran = await house.baton("explain", waiting.call)

        assert ran.lines[0].startswith('get_time({"city":"Oslo"}), ')
        assert ran.lines[1:] == [
            f"  session  {waiting.session_id}",
            f"  call     {waiting.call}",
            "  NO_WORKER: No worker serves 'get_time' in the scope 'svc-7' and the empty one. Attach one that does, or "
            "settle the call by a tool_result.",
            "    serve it:   baton worker FILE.py:get_time --scope svc-7",
            f"    answer it:  baton answer {waiting.session_id} {waiting.call} --output TEXT",
        ]
        await house.baton("answer", waiting.session_id, waiting.call, "--output", "TEXT")
        settled = await house.baton("explain", waiting.call)
        assert settled.lines == [f"{waiting.call} is settled, by a result from outside (OUTSIDE_OUTPUT)"]


async def test_each_cause_has_its_line(tmp_path: Path) -> None:
    """The nearest first; there is nothing to type where a worker will see to it."""
    async with House.opened(tmp_path, calls(("f", "{}")), calls(("f", "{}"))) as house:
        limited = [{"name": "f", "max_concurrency": 1}]
        busy = await ScriptedWorker.attached(house.server.address, handlers=limited, instance_id="busy")
        poor = await ScriptedWorker.attached(house.server.address, "f", credit=0, instance_id="poor")
        try:
            first = await house.waiting("f")
            await busy.ack(await busy.expect("call"))
            await busy.nothing()
            second = await house.waiting("f")

            leased = await house.baton("explain", first.call)
            queued = await house.baton("explain", second.call)
        finally:
            await busy.close()
            await poor.close()

        assert leased.lines[3].startswith(f"  LEASED: busy ({busy.welcome.worker_id}) works on it, attempt 1.")
        assert len(leased.lines) == 4
        assert [line.partition(" (")[0] for line in queued.lines[3:]] == ["  CONCURRENCY: busy", "  NO_CREDIT: poor"]


async def test_json_is_the_answer_of_the_contract(tmp_path: Path) -> None:
    """On one line, of an open call as of a settled one."""
    async with House.opened(tmp_path, calls(("f", "{}"))) as house:
        waiting = await house.waiting("f")

        (line,) = (await house.baton("explain", waiting.call, "--json")).lines

        told = json.loads(line)
        assert told["required_action"]["call_id"] == waiting.call
        assert [cause["kind"] for cause in told["causes"]] == ["CAUSE_KIND_NO_WORKER"]


async def test_a_call_that_there_never_was_is_not_found(tmp_path: Path) -> None:
    """By an exit code of its own, and its id."""
    async with House.opened(tmp_path) as house:
        ran = await house.baton("explain", "call_gone", code=4)

        assert (ran.out, ran.err.count("\n")) == ("", 1)
        assert "call_gone" in ran.err


def test_every_settlement_is_put_into_words() -> None:
    """One that the contract gains is missed here."""
    assert set(SETTLED) == set(item_pb2.Settlement.values()) - {item_pb2.SETTLEMENT_UNSPECIFIED}
