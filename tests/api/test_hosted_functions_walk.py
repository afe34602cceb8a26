"""The hosted API's way with functions, step by step, by raw rpcs and against a model's API over HTTP.

Define a function; see what is required, by the event or by reading the session; give a result or a failure, of whatever
size is allowed; come back after a break; load functions on demand.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.api.calling import AT_ONCE, Client, client_of, kinds, refused, result_for, told
from tests.support.model_server import ModelServer, model_server
from tests.support.server import server

from baton.v1 import agent_pb2, error_pb2, event_pb2, item_pb2
from baton.v1 import session_pb2 as pb

__all__ = ["model_server"]

ORDER = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}},
    "required": ["order_id"],
    "additionalProperties": False,
}
ASKS: dict[str, Any] = {"calls": [{"name": "find_order", "arguments": {"order_id": "o-17"}}]}
ASKS_TWICE = {"calls": [*ASKS["calls"], {"name": "find_order", "arguments": {"order_id": "o-18"}}]}
ANSWERS = {"text": "It is on its way."}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
LIMIT = 4_194_304


class Desk:
    """An application that talks to a server by rpcs, and the model that it works with."""

    def __init__(self, client: Client, model: ModelServer, script: str, address: str) -> None:
        self.client, self.address = client, address
        self._model, self._script = model, script

    def asked(self, request: int) -> Any:
        """Read the body of a request to the model."""
        return self._model.requests(self._script)[request].body

    async def begin(self, *more: dict[str, Any], deferred: bool = False) -> pb.Session:
        """Ask a question; return the session as it is when it waits."""
        function = {"name": "find_order", "description": "Finds an order.", "parameters_json": json.dumps(ORDER)}
        tools = [{"function": {**function, "defer_loading": deferred}}, *more]
        agent = agent_pb2.Agent(name="Desk", model=f"script:{self._script}", tools=tools)
        made = await self.client.session(agent=agent, run_config={"unserved_grace": AT_ONCE})
        await self.client.submit(made.session_id, "Where is my order?")
        await self.client.rest(made.session_id)
        return await self.client.get(made.session_id)

    async def give(self, action: event_pb2.RequiredAction, **outcome: Any) -> pb.InputOutcome:
        """Send a result; returns what became of it."""
        answer = await self.client.submit(action.session_id, result_for(action, **outcome))
        return answer.outcomes[0]

    async def output(self, session_id: str) -> str:
        """Wait until the turn has completed; returns its output."""
        events = await self.client.rest(session_id)
        (completed,) = told(events, "turn_completed")
        return str(completed.turn.output)


@asynccontextmanager
async def desk(folder: Path, model: ModelServer, script: str) -> AsyncIterator[Desk]:
    """Open the desk: a server on a folder, a script of the model that is loaded already."""
    settings = {"openai_base_url": model.base_url, "openai_api_key": "test"}
    async with server(folder, **settings) as baton, client_of(baton) as client:
        yield Desk(client, model, script, baton.address)


async def test_a_function_is_defined_on_the_agent_and_reaches_the_model_as_it_is(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """Name, description and schema; where the schema allows it, the model is held to it."""
    model_server.load("walk_defined", ASKS)
    async with desk(tmp_path, model_server, "walk_defined") as opened:
        await opened.begin()

        (tool,) = opened.asked(0)["tools"]

    fields = {"type": "function", "name": "find_order", "description": "Finds an order.", "parameters": ORDER}
    assert tool == {**fields, "strict": True}


async def test_what_is_required_is_told_by_an_event_and_by_the_session(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """Both name the turn, the call, the function and the model's own arguments."""
    model_server.load("walk_required", ASKS)
    async with desk(tmp_path, model_server, "walk_required") as opened:
        session = await opened.begin()

        events = await opened.client.rest(session.session_id)

    (required,) = told(events, "session_requires_action")
    (event,), (action,) = required.required_actions, session.required_actions
    (turn_id,) = {event.turn_id for event in events if event.turn_id}
    assert session.status == pb.SESSION_STATUS_REQUIRES_ACTION
    assert (action.turn_id, action.session_id) == (turn_id, session.session_id)
    assert (event.call_id, event.name, event.arguments_json) == (action.call_id, action.name, action.arguments_json)
    assert (action.name, json.loads(action.arguments_json)) == ("find_order", {"order_id": "o-17"})
    assert action.kind == event_pb2.REQUIRED_ACTION_KIND_FUNCTION_CALL


async def test_a_call_in_the_history_is_not_one_that_waits(tmp_path: Path, model_server: ModelServer) -> None:
    """Two calls are items; only the one without a result is required."""
    model_server.load("walk_history", ASKS_TWICE, ANSWERS)
    async with desk(tmp_path, model_server, "walk_history") as opened:
        session = await opened.begin()
        first, second = session.required_actions

        outcome = await opened.give(first, output="at sea")
        items = await opened.client.items(session.session_id)
        session = await opened.client.get(session.session_id)

        assert outcome.status == pb.INPUT_STATUS_SETTLED
        assert [item.function_call.call_id for item in items if item.HasField("function_call")] == [
            first.call_id,
            second.call_id,
        ]
        assert [action.call_id for action in session.required_actions] == [second.call_id]
        await opened.give(second, output="in port")
        assert await opened.output(session.session_id) == "It is on its way."
        session = await opened.client.get(session.session_id)
        assert (list(session.required_actions), session.status) == ([], pb.SESSION_STATUS_IDLE)


@pytest.mark.parametrize(
    ("name", "outcome", "read"),
    [
        ("text", {"success": True, "output": '{"state": "at sea"}'}, '{"state": "at sea"}'),
        (
            "parts",
            {"success": True, "output_parts": {"parts": [{"text": "the seal:"}, {"image": {"url": PIXEL}}]}},
            [{"type": "input_text", "text": "the seal:"}, {"type": "input_image", "image_url": PIXEL}],
        ),
        ("failure", {"success": False, "error": "there is no order o-17"}, "there is no order o-17"),
    ],
)
async def test_the_turn_goes_on_with_what_came_of_a_call(
    tmp_path: Path, model_server: ModelServer, name: str, outcome: dict[str, Any], read: Any
) -> None:
    """A text, parts with a picture, a failure: the model reads each, and the turn has its output."""
    script = f"walk_result_{name}"
    model_server.load(script, ASKS, ANSWERS)
    async with desk(tmp_path, model_server, script) as opened:
        session = await opened.begin()

        given = await opened.give(session.required_actions[0], **outcome)

        assert given.status == pb.INPUT_STATUS_SETTLED
        assert await opened.output(session.session_id) == "It is on its way."
        call, output = opened.asked(1)["input"][1:]
        assert (output["type"], output["call_id"]) == ("function_call_output", call["call_id"])
        assert _plain(output["output"]) == read
        (item,) = [one for one in await opened.client.items(session.session_id) if one.HasField("function_call_output")]
        assert (item.status == item_pb2.ITEM_STATUS_FAILED) == (name == "failure")


@pytest.mark.parametrize("outcome", [{"success": True, "error": "no"}, {"success": False, "output": "yes"}], ids=str)
async def test_a_result_that_contradicts_itself_is_refused(
    tmp_path: Path, model_server: ModelServer, outcome: dict[str, Any]
) -> None:
    """A success is an output, a failure an error; the call stays open."""
    model_server.load("walk_contradicts", ASKS)
    async with desk(tmp_path, model_server, "walk_contradicts") as opened:
        session = await opened.begin()
        (action,) = session.required_actions

        refusal = await refused(opened.give(action, **outcome))

        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
        assert refusal.paths == ["inputs[0].tool_result.success"]
        assert len((await opened.client.get(session.session_id)).required_actions) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")  # aiohttp's, of the model's client
async def test_a_result_that_is_too_large_is_sent_again_smaller_under_the_same_ids(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """One byte above the limit changes nothing and says how much it may be; at the limit it is taken whole."""
    model_server.load("walk_large", ASKS, ANSWERS)
    async with desk(tmp_path, model_server, "walk_large") as opened:
        session = await opened.begin()
        (action,) = session.required_actions

        refusal = await refused(opened.give(action, output="x" * (LIMIT + 1)))
        (still,) = (await opened.client.get(session.session_id)).required_actions
        outcome = await opened.give(still, output="x" * LIMIT)

        assert (refusal.reason, refusal.metadata["limit"]) == ("RESULT_TOO_LARGE", str(LIMIT))
        assert refusal.metadata["size"] == str(LIMIT + 1)
        assert (still.turn_id, still.call_id) == (action.turn_id, action.call_id)
        assert outcome.status == pb.INPUT_STATUS_SETTLED
        assert await opened.output(session.session_id) == "It is on its way."
        assert len(opened.asked(1)["input"][-1]["output"]) == LIMIT


@pytest.mark.slow
async def test_a_stored_result_is_sent_again_after_a_break(tmp_path: Path, model_server: ModelServer) -> None:
    """Over another connection, to a server that was started again: what was taken is a duplicate, nothing more."""
    model_server.load("walk_again", ASKS_TWICE, ANSWERS)
    async with desk(tmp_path, model_server, "walk_again") as opened:
        session = await opened.begin()
        first, second = session.required_actions
        await opened.give(first, success=True, output="at sea")

    async with desk(tmp_path, model_server, "walk_again") as opened:
        found = await opened.client.get(session.session_id)
        assert [action.call_id for action in found.required_actions] == [second.call_id]
        again = await opened.give(first, success=True, output="at sea")
        assert (again.status, again.error.reason) == (pb.INPUT_STATUS_DUPLICATE, error_pb2.ERROR_REASON_CALL_SETTLED)
        await opened.give(second, success=True, output="in port")
        assert await opened.output(session.session_id) == "It is on its way."
        after = await opened.give(first, success=True, output="at sea")

        assert after.status == pb.INPUT_STATUS_DUPLICATE
        assert [item["output"] for item in opened.asked(1)["input"][3:]] == ["at sea", "in port"]
        events = await opened.client.events(session.session_id)
        assert "result_discarded" not in kinds(events)


class Ledger:
    """A function with a side effect that keeps each result under its session, turn and call, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = json.loads(path.read_text()) if path.exists() else {}

    def book(self, action: event_pb2.RequiredAction) -> str:
        """Book an order, once for each call; a second time the kept result is given."""
        key = "/".join((action.session_id, action.turn_id, action.call_id))
        if key not in self._kept:
            self._kept[key] = f"booking {len(self._kept) + 1}"
            self._path.write_text(json.dumps(self._kept))
        return str(self._kept[key])

    @property
    def bookings(self) -> int:
        """How many were made."""
        return len(self._kept)


@pytest.mark.slow
async def test_side_effects_are_told_apart_by_session_turn_and_call(tmp_path: Path, model_server: ModelServer) -> None:
    """A handler that dies before it has sent its result finds it again by these ids, which outlive the server too.

    Equal arguments in another turn, and in another session, are other calls.
    """
    model_server.load("walk_effects", ASKS, ANSWERS, ASKS, ANSWERS, ASKS)
    kept = tmp_path / "ledger.json"
    async with desk(tmp_path, model_server, "walk_effects") as opened:
        session = await opened.begin()
        Ledger(kept).book(session.required_actions[0])  # it dies here

    async with desk(tmp_path, model_server, "walk_effects") as opened:
        (action,) = (await opened.client.get(session.session_id)).required_actions
        ledger = Ledger(kept)
        await opened.give(action, success=True, output=ledger.book(action))
        await opened.output(session.session_id)

        assert (ledger.bookings, opened.asked(1)["input"][-1]["output"]) == (1, "booking 1")

        await opened.client.submit(session.session_id, "And once more?")
        await opened.client.rest(session.session_id)
        (later,) = (await opened.client.get(session.session_id)).required_actions
        await opened.give(later, success=True, output=ledger.book(later))
        await opened.client.rest(session.session_id)
        other = await opened.begin()

        assert ledger.book(later) == "booking 2"
        assert ledger.book(other.required_actions[0]) == "booking 3"
        assert later.turn_id != action.turn_id and later.call_id != action.call_id


async def test_a_deferred_function_is_loaded_by_a_search_and_then_called(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """The model's API gets the definition marked as deferred, beside the search; what the search found goes back."""
    at_the_provider = {"execution": "server", "call_id": None}
    search = {"type": "tool_search_call", "arguments": {"paths": ["find_order"]}, **at_the_provider}
    loaded = {"type": "function", "name": "find_order", "description": "Finds an order.", "parameters": ORDER}
    found = {"type": "tool_search_output", "tools": [loaded], **at_the_provider}
    call = {"type": "function_call", "name": "find_order", "arguments": '{"order_id":"o-17"}', "call_id": "c1"}
    model_server.load("walk_deferred", {"output": [search, found, call]}, ANSWERS)
    async with desk(tmp_path, model_server, "walk_deferred") as opened:
        session = await opened.begin({"tool_search": {}}, deferred=True)

        function, tool_search = opened.asked(0)["tools"]
        (action,) = session.required_actions
        await opened.give(action, success=True, output="at sea")

        assert (function["name"], function["defer_loading"]) == ("find_order", True)
        assert tool_search == {"type": "tool_search"}
        assert await opened.output(session.session_id) == "It is on its way."
        kinds_ = [item.get("type") for item in opened.asked(1)["input"]]
        assert kinds_[1:] == ["tool_search_call", "tool_search_output", "function_call", "function_call_output"]


async def test_a_deferred_function_without_a_search_is_refused(tmp_path: Path, model_server: ModelServer) -> None:
    """The model could never find it: the definition is wrong, and says what it lacks."""
    function = {"name": "find_order", "parameters_json": json.dumps(ORDER), "defer_loading": True}
    async with desk(tmp_path, model_server, "walk_none") as opened:
        agent = agent_pb2.Agent(name="Desk", tools=[{"function": function}])

        refusal = await refused(opened.client.session(agent=agent))

    assert refusal.reason in ("INVALID_REQUEST", "AGENT_GRAPH_INVALID")
    assert "tool_search" in refusal.message + str(refusal.metadata) + str(refusal.paths)


def _plain(output: Any) -> Any:
    """Leave out of parts what says no more than the default."""
    if isinstance(output, str):
        return output
    return [{name: value for name, value in part.items() if name != "detail"} for part in output]
