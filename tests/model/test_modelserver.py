"""The scripted model server, as another program uses it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.support.model_server import ModelServer

ROOT = Path(__file__).parents[2]


def call(method: str, url: str, body: Any = None) -> Any:
    """Send JSON and read JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_it_runs_by_itself_and_says_where() -> None:
    """Its first line is its address; scripts go in and requests come out over HTTP."""
    command = [sys.executable, "-m", "tests.modelserver", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        try:
            call("PUT", f"{address}/_scripts/s", {"responses": [{"text": "Hi"}, {"text": "Ho"}]})
            body = {"model": "script:s", "input": "Hello"}
            reply = call("POST", f"{address}/v1/responses", body)
            asked = call("GET", f"{address}/_requests/s")
        finally:
            process.terminate()

    assert reply["output"][0]["content"][0]["text"] == "Hi"
    assert ([request["body"] for request in asked["requests"]], asked["left"]) == ([body], 1)


def test_a_rule_calls_until_the_turn_has_its_outputs(model_server: ModelServer) -> None:
    """Outputs of an older turn do not count."""
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    user = {"role": "user", "content": "Hello"}

    def kinds(items: list[Any]) -> list[str]:
        body = {"model": "rule:calls=2,words=3", "input": items}
        return [item["type"] for item in call("POST", f"{model_server.base_url}/responses", body)["output"]]

    assert kinds([user, output, output, user, output]) == ["function_call"]
    assert kinds([user, output, output]) == ["message"]


def test_chat_completions_play_the_same_steps(model_server: ModelServer) -> None:
    """A script does not know which API asks."""
    step = {"text": "Wait.", "calls": [{"name": "f", "arguments": {"n": 1}, "call_id": "c1"}]}
    model = model_server.load("chat", step)
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}

    (choice,) = call("POST", f"{model_server.base_url}/chat/completions", body)["choices"]

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Wait."
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}}
    ]
    assert model_server.requests("chat")[0].body == body
