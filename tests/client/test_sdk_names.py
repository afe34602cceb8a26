"""The Agents SDK's public names: each is here, or says what to do in its place."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.client.end_to_end import Serve, ended, program, serve
from tests.support.scripted_model import calls, say

import baton
from baton import Agent, Runner, Session, SessionABC, gen_trace_id, get_current_trace, set_tracing_disabled, trace
from baton.absent import INSTEAD

__all__ = ["serve"]

THEIRS = (Path(__file__).parent / "sdk_names.txt").read_text().split()
"""What the Agents SDK 0.24.0 exports."""


def test_every_name_is_here_or_says_what_to_do() -> None:
    """None of them is told that it cannot be imported, and that is all."""
    assert [name for name in THEIRS if name not in {*baton.__all__, *INSTEAD}] == []
    assert [name for name in INSTEAD if name in baton.__all__ or name not in THEIRS] == []
    assert len(THEIRS) == 253


def test_what_is_not_here_says_what_to_do_instead() -> None:
    """Where it is imported; a word that is nobody's is told in Python's own words."""
    with pytest.raises(ImportError, match=r"Baton has no WebSearchTool: .*HostedTool"):
        exec("from baton import WebSearchTool")
    with pytest.raises(ImportError, match="cannot import name 'Rnner' from 'baton'"):
        exec("from baton import Rnner")
    assert not hasattr(baton, "Rnner")


def test_everything_that_is_exported_is_there() -> None:
    """Names of types among it, which are listed elsewhere."""
    assert [name for name in baton.__all__ if not hasattr(baton, name)] == []
    assert len(set(baton.__all__)) == len(baton.__all__)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("exceptions", "AgentsException MaxTurnsExceeded RunErrorDetails"),
        ("run", "CallModelData ModelInputData Runner RunConfig DEFAULT_MAX_TURNS"),
        ("extensions.handoff_filters", "remove_all_tools"),
        ("extensions.handoff_prompt", "RECOMMENDED_PROMPT_PREFIX prompt_with_handoff_instructions"),
        ("extensions.tool_output_trimmer", "ToolOutputTrimmer"),
    ],
)
def test_modules_of_the_agents_sdk_are_where_programs_look_for_them(module: str, names: str) -> None:
    """They hold the very same things."""
    found = importlib.import_module(f"baton.{module}")

    assert set(names.split()) <= set(found.__all__)
    assert all(getattr(baton, name, None) in (getattr(found, name), None) for name in found.__all__)


def test_a_name_that_is_not_here_is_told_apart_from_one_that_nobody_knows() -> None:
    """In the modules as in the package itself."""
    with pytest.raises(ImportError, match=r"Baton has no add_trace_processor: .*OpenTelemetry"):
        exec("from baton.run import add_trace_processor")
    with pytest.raises(ImportError, match="cannot import name 'trase'"):
        exec("from baton.run import trase")


def test_instructions_may_begin_with_what_is_to_be_known_of_handoffs() -> None:
    """The agent's own words come last."""
    from baton.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX, prompt_with_handoff_instructions

    assert prompt_with_handoff_instructions("Be brief.") == f"{RECOMMENDED_PROMPT_PREFIX}\nBe brief."


def test_a_trace_is_found_inside_its_block() -> None:
    """With the id that it was given."""
    trace_id = gen_trace_id()
    with trace("Work", trace_id=trace_id) as made:
        assert get_current_trace() is made
        assert made.trace_id == trace_id
    assert get_current_trace() is None


async def test_tracing_is_disabled_for_a_whole_process(serve: Serve) -> None:
    """Whatever a run says; the server has it in the run's configuration."""
    async with serve(say("One."), say("Two.")):
        set_tracing_disabled(True)
        try:
            first = await Runner.run(Agent(name="A"), "Hi")
        finally:
            set_tracing_disabled(False)
        second = await Runner.run(Agent(name="A"), "Hi")

        turns = [
            await baton.Client().get_turn(one.session_id, one.turn_id, with_pinned=True) for one in (first, second)
        ]
    assert [turn.run_config.tracing.disabled for turn in turns] == [True, False]


@pytest.mark.parametrize("base", [SessionABC, Session])
async def test_a_session_may_be_derived_from_the_sdks_bases(serve: Serve, base: Any) -> None:
    """What it keeps itself is asked of it, not of the server."""

    class Mine(base):  # type: ignore[misc]  # a class of either kind
        def __init__(self) -> None:
            self.session_id, self.kept = "mine", list[Any]()

        async def get_items(self, limit: int | None = None) -> list[Any]:
            return self.kept

        async def add_items(self, items: list[Any]) -> None:
            self.kept += items

        async def pop_item(self) -> Any:
            return self.kept.pop()

        async def clear_session(self) -> None:
            self.kept.clear()

    session = Mine()
    async with serve(say("Hello."), say("Yes.")) as served:
        await Runner.run(Agent(name="A"), "Hi", session=session)
        await Runner.run(Agent(name="A"), "Sure?", session=session)

        assert [item["role"] for item in session.kept] == ["user", "assistant"] * 2
        assert len(served.model.input_of(1)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
async def test_a_demo_loop_talks_until_it_is_told_to_stop(serve: Serve, stream: bool) -> None:
    """It remembers what was said, and shows what functions gave."""
    text = f"""
        import asyncio
        from baton import Agent, function_tool, run_demo_loop

        @function_tool
        def work() -> str:
            return "worked"

        asyncio.run(run_demo_loop(Agent(name="A", tools=[work]), stream={stream}))
    """
    async with serve(calls(("work", "{}")), say("Done."), say("Again.")) as served:
        async with program(served.baton.address, text) as process:
            assert process.stdin is not None
            process.stdin.write(b"Work.\n\nAnd again?\nquit\n")
            code, printed, errors = await ended(process)

        assert (code, errors) == (0, "")
        words = "> [Agent updated: A] [tool called] [tool output: worked] Done. > > [Agent updated: A] Again. >"
        assert " ".join(printed.split()) == (words if stream else "> Done. > > Again. >")
        assert len(served.model.input_of(2)) == 5


def test_verbose_logging_goes_to_standard_output() -> None:
    """In a program that has set up none of its own."""
    text = "import baton, logging; baton.enable_verbose_stdout_logging(); logging.getLogger('baton').debug('seen')"
    printed = asyncio.run(_printed(text))

    assert printed == "seen\n"


async def _printed(text: str) -> str:
    async with program("", text) as process:
        return (await ended(process))[1]
