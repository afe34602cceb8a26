"""Baton does in every scenario what the reference did, by both rpcs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.__main__ import main
from tests.conformance.compare import Json
from tests.support.model_server import ModelServer, model_server

__all__ = ["model_server"]

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.json"))
DEADLINE_S = 100

NAMES = [scenario["name"] for path in SCENARIOS for scenario in json.loads(path.read_text())]


@pytest.fixture(scope="module", params=["run", "run_streamed"])
def lines(request: pytest.FixtureRequest) -> dict[str, Json]:
    """What the command says of each scenario, by name, in one rpc."""
    made = subprocess.run(
        [sys.executable, "-m", "tests.conformance", *map(str, SCENARIOS), "--rpc", request.param],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return {line["name"]: line for line in map(json.loads, made.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_scenario_goes_as_in_the_reference(lines: dict[str, Json], name: str) -> None:
    """The same requests reach the model, the same functions are called, the run ends and is streamed the same."""
    assert lines[name]["differences"] == []
    assert lines[name]["got"]["runs"]


def scenario(name: str, /, **changes: object) -> Json:
    """Take a scenario of loop.json, changed."""
    loop = next(path for path in SCENARIOS if path.name == "loop.json")
    return {**next(made for made in json.loads(loop.read_text()) if made["name"] == name), **changes}


Command = Callable[..., tuple[int, list[Json]]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command in this process; gives its exit code and the lines that it printed."""

    def run(*arguments: str) -> tuple[int, list[Json]]:
        code = main(arguments)
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test's own scenarios go."""
    return tmp_path / "scenarios.json"


def test_one_that_breaks_does_not_keep_the_others_from_running(
    file: Path, command: Command, caplog: pytest.LogCaptureFixture
) -> None:
    """What goes wrong in a scenario is its own difference and is logged; the next one passes; the exit code says 1."""
    broken = scenario("one_call", name="broken", tools=[])
    file.write_text(json.dumps([broken, scenario("plain_text")]))

    code, said = command(str(file))

    assert code == 1
    assert [line["name"] for line in said] == ["broken", "plain_text"]
    assert said[0]["differences"][0].startswith("not run to its end: KeyError")
    assert said[1]["differences"] == []
    assert "the scenario broken could not be run to its end" in caplog.text


def test_a_word_that_nobody_knows_is_a_difference(file: Path, command: Command) -> None:
    """It is named, and nothing is left out in silence."""
    asked = scenario("plain_text", agents={"a": {"name": "Assistant", "telepathy": True}})
    file.write_text(json.dumps([asked]))

    code, said = command(str(file))

    assert (code, said[0]["differences"]) == (1, ["not run to its end: ValueError: not supported: telepathy"])


def test_a_difference_is_told_with_its_place_and_ends_the_command_with_1(file: Path, command: Command) -> None:
    """A model that says something else than it said to the reference."""
    file.write_text(json.dumps([scenario("plain_text", model=[{"text": "Something else."}])]))

    code, said = command(str(file))

    assert code == 1
    assert any(line.startswith("runs[0].final_output: want 'Hello") for line in said[0]["differences"])
    assert said[0]["got"]["runs"][0]["final_output"] == "Something else."


def test_no_difference_ends_the_command_with_0_and_a_model_server_may_be_named(
    file: Path, command: Command, model_server: ModelServer
) -> None:
    """The requests are found at the server that was named."""
    file.write_text(json.dumps([scenario("one_call")]))

    code, said = command(str(file), "--rpc", "run", "--model-server", model_server.address)

    assert (code, said[0]["differences"]) == (0, [])
    assert "stream" not in said[0]["got"]["runs"][0]
    assert len(model_server.requests("one_call")) == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a usage error, not a traceback."""
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "nowhere.json")])

    assert ended.value.code == 2
    assert "nowhere.json" in capsys.readouterr().err
