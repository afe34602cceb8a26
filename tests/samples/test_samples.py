"""Programs written for the Agents SDK run against a Baton server."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import ModelServer, model_server
from tests.support.server import server

__all__ = ["model_server"]

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30

HAIKU = "The function looks back,\nfinds itself one step smaller,\nand rests at the base."


async def run_sample(name: str, folder: Path, model: ModelServer, *replies: str) -> tuple[str, list[Any]]:
    """Run a sample's `main` in a process of its own; return what it printed, and the inputs that the model got."""
    script = f"sample_{name}"
    model_name = model.load(script, *({"text": reply} for reply in replies))
    async with server(folder, openai_base_url=model.base_url, openai_api_key="test", default_model=model_name) as baton:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            f"import asyncio; from tests.samples.{name} import main; asyncio.run(main())",
            cwd=ROOT,
            env={**os.environ, "BATON_ADDRESS": baton.address},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(DEADLINE_S):
            printed, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    return printed.decode(), [request.body["input"] for request in model.requests(script)]


@pytest.mark.slow
async def test_a_run_prints_the_models_answer(tmp_path: Path, model_server: ModelServer) -> None:
    """The first sample of the page: one question, one answer, every line of it."""
    printed, inputs = await run_sample("haiku", tmp_path, model_server, HAIKU)

    assert printed == f"{HAIKU}\n"
    assert inputs == [[{"role": "user", "content": "Write a haiku about recursion in programming."}]]


@pytest.mark.slow
async def test_the_second_run_of_a_session_remembers_the_first(tmp_path: Path, model_server: ModelServer) -> None:
    """The second request to the model holds the first question and its answer."""
    printed, inputs = await run_sample("conversation", tmp_path, model_server, "San Francisco", "California")

    assert printed == "San Francisco\nCalifornia\n"
    first, second = inputs
    question, answer, next_question = second
    assert first == [question] == [{"role": "user", "content": "What city is the Golden Gate Bridge in?"}]
    assert (answer["role"], answer["content"][0]["text"]) == ("assistant", "San Francisco")
    assert next_question == {"role": "user", "content": "What state is it in?"}
