"""`baton worker` with more than plain functions: hooks, checks, versions of a name."""

from __future__ import annotations

import textwrap
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.cli.terminals import Running, on_pipes
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import calls, say

from baton import (
    Agent,
    InputGuardrailTripwireTriggered,
    RemoteFunction,
    RemoteHook,
    Runner,
    ToolCallOutputItem,
)

__all__ = ["serve"]

pytestmark = pytest.mark.slow

HOOKS = """
    from baton import Worker

    worker = Worker()

    @worker.hook("input_guardrail")
    def polite(data):
        return "Damn" in str(data.input)

    @worker.check("pay")
    def paid(data):
        return "unknown"
"""

VERSIONS = """
    from baton import Worker

    worker = Worker()

    @worker.function(version="1", name_override="greet")
    def first() -> str:
        return "Hello"

    @worker.function(version="2", name_override="greet")
    def second() -> str:
        return "Hi"
"""


def worker(folder: Path, file: str, address: str) -> AbstractAsyncContextManager[Running]:
    """Run the command with a file of a folder."""
    return on_pipes("worker", file, address=address, folder=folder)


async def test_a_worker_that_has_only_hooks_is_hosted_and_says_so(serve: Serve, tmp_path: Path) -> None:
    """Each with its kind; the server asks it, and takes its word."""
    (tmp_path / "hooks.py").write_text(textwrap.dedent(HOOKS))
    async with (
        serve(say("Hi."), say("Void.")) as served,
        worker(tmp_path, "hooks.py", address=served.baton.address) as running,
    ):
        await running.sees(
            f"baton: attached to {served.baton.address}, serving polite (input_guardrail), pay (effect_check)\n"
        )
        agent: Agent[None] = Agent(name="Assistant", input_guardrails=[RemoteHook("polite")])

        assert (await Runner.run(agent, "Hello.")).final_output == "Hi."
        with pytest.raises(InputGuardrailTripwireTriggered):
            await Runner.run(agent, "Damn.")


async def test_versions_of_a_name_are_hosted_and_named(serve: Serve, tmp_path: Path) -> None:
    """An agent that asks for one of them gets that one."""
    (tmp_path / "versions.py").write_text(textwrap.dedent(VERSIONS))
    async with (
        serve(calls(("greet", "{}")), say("So.")) as served,
        worker(tmp_path, "versions.py", address=served.baton.address) as running,
    ):
        await running.sees("serving greet (version 1), greet (version 2)\n")
        agent: Agent[None] = Agent(name="Assistant", tools=[RemoteFunction("greet", version="1")])

        result = await Runner.run(agent, "Go.")

        given = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        assert given == ["Hello"]


async def test_a_journal_that_another_process_has_is_told(serve: Serve, tmp_path: Path) -> None:
    """One line says which file it is and who has it; the first one goes on."""
    (tmp_path / "kept.py").write_text(
        textwrap.dedent("""
            from baton import Worker

            worker = Worker(journal="results.journal")

            @worker.function
            def greet() -> str:
                return "Hello"
        """)
    )
    async with serve() as served, worker(tmp_path, "kept.py", served.baton.address) as first:
        await first.sees("serving greet")

        async with worker(tmp_path, "kept.py", served.baton.address) as second:
            said = await second.ends(1)

        assert "results.journal" in said
        assert str(first.process.pid) in said
