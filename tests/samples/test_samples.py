"""Programs written for the Agents SDK run against a Baton server: what they print, and what the model was asked."""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import baton
from tests.support.model_server import ModelServer, model_server
from tests.support.server import server

__all__ = ["model_server"]

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith(("_", "test_")))
DEADLINE_S = 30
RIVER, SEA = "Which river flows through Basel?", "Into which sea?"


class Ran:
    """What came of a sample: `printed`, line by line, and the bodies of its `requests` to the model."""

    def __init__(self, printed: str, requests: list[Any]) -> None:
        self.printed, self.requests = printed.splitlines(), requests

    def input_of(self, request: int) -> list[str]:
        """Say the items that a request carried, in a word each."""
        return [_word(item) for item in self.requests[request]["input"]]


async def run_sample(name: str, folder: Path, model: ModelServer, *steps: Any, typed: str = "") -> Ran:
    """Run a sample in a process of its own. `steps`: the model's; a text is a message. `typed`: the sample's input."""
    script = f"sample_{name}"
    written = [{"text": step} if isinstance(step, str) else step for step in steps]
    settings = {
        "openai_base_url": model.base_url,
        "openai_api_key": "test",
        "default_model": model.load(script, *written),
    }
    async with server(folder, **settings) as baton_server:
        environment = {
            "BATON_ADDRESS": baton_server.address,
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "test",
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.samples", name),
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(DEADLINE_S):
                printed, errors = await process.communicate(typed.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert (process.returncode, errors.decode()) == (0, "")
    return Ran(printed.decode(), [request.body for request in model.requests(script)])


def test_samples_import_only_what_the_package_exports() -> None:
    """So another program is carried over by its imports alone: no sample needs a module of Baton's by its path."""
    imported = {
        (path.name, node.module, name.name)
        for path in SAMPLES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    ours = {one for one in imported if (one[1] or "").startswith("baton")}

    assert {module for _, module, _ in ours} == {"baton"}
    assert [one for one in sorted(ours) if one[2] not in baton.__all__] == []
    assert len(SAMPLES) == 12


@pytest.mark.slow
async def test_a_run_prints_the_models_answer(tmp_path: Path, model_server: ModelServer) -> None:
    """One question, one answer, every line of it."""
    verse = "A lamp that turns,\na rock that waits,\na ship that learns\nto love straight."

    ran = await run_sample("plain_run", tmp_path, model_server, verse)

    assert ran.printed == verse.splitlines()
    (request,) = ran.requests
    assert request["instructions"] == "You write short verse"
    assert request["input"] == [{"role": "user", "content": "Four lines about a lighthouse, please."}]


@pytest.mark.slow
async def test_functions_run_two_at_a_time_and_are_judged_before_they_are_allowed(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """Four functions that wait for each other in pairs; a rejected call pauses nothing."""
    asked = [{"name": "measure", "arguments": {"place": place}} for place in ("A", "B", "C", "D")]
    asked.append({"name": "drain", "arguments": {"place": "harbour"}})

    ran = await run_sample("limited_functions", tmp_path, model_server, {"calls": asked}, "All is measured.")

    assert ran.printed == ['looked at {"place": "harbour"}', "All is measured. [] at most 2"]
    assert ran.input_of(1)[-5:] == ["A: 3 m", "B: 3 m", "C: 3 m", "D: 3 m", "The harbour stays as it is."]


@pytest.mark.slow
async def test_the_model_is_told_of_a_function_that_there_is_not(tmp_path: Path, model_server: ModelServer) -> None:
    """It is asked again, with an output for the call that nobody could execute, and chooses one that there is."""
    wrong = {"calls": [{"name": "tides", "arguments": {"port": "Brest"}}]}
    right = {"calls": [{"name": "tide", "arguments": {"port": "Brest"}}]}

    ran = await run_sample("unknown_function", tmp_path, model_server, wrong, right, "At noon.")

    assert ran.printed == ["At noon."]
    (told,) = ran.input_of(1)[2:]
    assert "tides" in told
    assert ran.input_of(2)[-1] == "high tide in Brest at noon"


@pytest.mark.slow
async def test_a_run_with_words_for_failures_runs(tmp_path: Path, model_server: ModelServer) -> None:
    """The formatter is asked of failures alone: where the model just answers, its answer is the output."""
    ran = await run_sample("error_words", tmp_path, model_server, "I shall not.")

    assert ran.printed == ["I shall not."]


@pytest.mark.slow
async def test_a_list_of_inputs_carries_a_conversation_on(tmp_path: Path, model_server: ModelServer) -> None:
    """The second request holds the first question, its answer and the second question."""
    ran = await run_sample("carried_list", tmp_path, model_server, "The Rhine", "The North Sea")

    assert ran.printed == ["The Rhine", "The North Sea"]
    assert [ran.input_of(0), ran.input_of(1)] == [[RIVER], [RIVER, "The Rhine", SEA]]


@pytest.mark.slow
async def test_the_second_run_of_a_session_remembers_the_first(tmp_path: Path, model_server: ModelServer) -> None:
    """The second request to the model holds the first question and its answer, which nobody passed on."""
    ran = await run_sample("kept_session", tmp_path, model_server, "The Rhine", "The North Sea")

    assert ran.printed == ["The Rhine", "The North Sea"]
    assert [ran.input_of(0), ran.input_of(1)] == [[RIVER], [RIVER, "The Rhine", SEA]]


@pytest.mark.slow
async def test_a_conversation_that_the_model_keeps_is_sent_what_is_new(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """Each request names the conversation, and carries one message."""
    answers = ("The Rhine", "The North Sea")

    ran = await run_sample("named_conversation", tmp_path, model_server, *answers, typed=f"{RIVER}\n{SEA}\n")

    assert ran.printed == ["> Guide: The Rhine", "> Guide: The North Sea", "> "]
    assert [ran.input_of(0), ran.input_of(1)] == [[RIVER], [SEA]]
    first, second = (request["conversation"] for request in ran.requests)
    assert first == second and str(first).startswith("conv_")


@pytest.mark.slow
async def test_replies_are_chained_by_their_ids(tmp_path: Path, model_server: ModelServer) -> None:
    """The second request names the first reply, and carries one message."""
    answers = ("The Rhine", "The North Sea")

    ran = await run_sample("chained_replies", tmp_path, model_server, *answers, typed=f"{RIVER}\n{SEA}\n")

    assert ran.printed == ["> Guide: The Rhine", "> Guide: The North Sea", "> "]
    assert [ran.input_of(0), ran.input_of(1)] == [[RIVER], [SEA]]
    assert "previous_response_id" not in ran.requests[0]
    assert ran.requests[1]["previous_response_id"] == "resp_sample_chained_replies_1"


@pytest.mark.slow
async def test_a_filter_sees_what_the_model_is_sent(tmp_path: Path, model_server: ModelServer) -> None:
    """It keeps the instructions, and the one item that there is."""
    ran = await run_sample("model_filter", tmp_path, model_server, "The same from both ends.")

    assert ran.printed == ["The same from both ends."]
    assert ran.requests[0]["instructions"] == "Be short."
    assert ran.input_of(0) == ["What is a palindrome?"]


@pytest.mark.slow
async def test_a_handler_ends_a_run_that_has_no_rounds_left(tmp_path: Path, model_server: ModelServer) -> None:
    """Three rounds with a call, then the handler's words; the model is not asked a fourth time."""
    pages = [{"calls": [{"name": "next_page", "arguments": {"number": number}}]} for number in (1, 2, 3)]

    ran = await run_sample("out_of_rounds", tmp_path, model_server, *pages)

    assert ran.printed == ["That book is too long for me. Which chapter do you want?"]
    assert len(ran.requests) == 3


@pytest.mark.slow
async def test_a_handler_mends_an_output_of_the_wrong_shape(tmp_path: Path, model_server: ModelServer) -> None:
    """A value of the type, made by the program; the model is asked once, for that very shape."""
    ran = await run_sample("unfit_output", tmp_path, model_server, '{"stops": "the lake"}')

    assert ran.printed == ["stops=['home'] made_up=True"]
    (request,) = ran.requests
    assert list(request["text"]["format"]["schema"]["properties"]) == ["stops", "made_up"]


@pytest.mark.slow
async def test_a_handler_answers_for_a_model_that_refuses(tmp_path: Path, model_server: ModelServer) -> None:
    """It knows the model's own words."""
    ran = await run_sample("refused_output", tmp_path, model_server, {"refusal": "That vault is not yours."})

    assert ran.printed == ["stops=[] refusal_reason='That vault is not yours.'"]
    assert len(ran.requests) == 1


def _word(item: Any) -> str:
    said = item.get("output", item.get("content", item.get("arguments")))
    return said if isinstance(said, str) else "".join(part["text"] for part in said)
