"""A turn in the hand of a test: inputs go in, events come out, and after every single event the laws hold.

The state that lives is a `Watched` one: whatever is applied to it is applied to a second state too, as a
rebuild from the log would, and both must be equal before and after. So a change of state beside an event is
found at once, in every test of this folder.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from baton_server.core import ids
from baton_server.core.agents import Agent, FunctionTool, History, Pinned, RunConfig
from baton_server.core.commands import CallModel, Command, ServeCall, StopCalls, pending
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import (
    TERMINAL,
    CancelMode,
    Event,
    EventBody,
    ItemAdded,
    ItemDone,
    RoundCompleted,
    TurnEnded,
    TurnSnapshot,
    TurnStatus,
)
from baton_server.core.inputs import (
    AttemptFailed,
    Begun,
    CallSettled,
    CancelAsked,
    Input,
    ModelFailed,
    ModelReplied,
    NewItem,
    Steered,
)
from baton_server.core.items import FunctionCall, Item, ItemStatus, Settlement, TextPart, Usage
from baton_server.core.responses import read_item, user_message
from baton_server.core.runner import Runner
from baton_server.core.state import Phase, TurnState

WEATHER = FunctionTool(
    name="get_weather",
    parameters_json='{"properties":{"city":{"type":"string"}},"required":["city"]}',
    strict=True,
)
NOTE = FunctionTool(name="take_note", parameters_json='{"required":["text"]}', strict=False)
KYOTO = '{"city":"Kyoto"}'
USAGE = Usage(requests=1, input_tokens=7, cached_input_tokens=2, output_tokens=3, total_tokens=10)


class Schemas:
    """Rules that know `required` and the type string: enough of JSON Schema to break it."""

    def violation(self, schema_json: str, value_json: str) -> str | None:
        """Names the first property that is missing or is no string."""
        schema, value = json.loads(schema_json), json.loads(value_json)
        for name in schema.get("required", ()):
            if name not in value:
                return f"$.{name}: required"
        for name, property_schema in schema.get("properties", {}).items():
            if property_schema.get("type") == "string" and not isinstance(value[name], str):
                return f"$.{name}: must be of type string"
        return None


def say(text: str) -> NewItem:
    """Makes a message of the model."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return read_item({"id": "msg_1", "type": "message", "role": "assistant", "content": [part]})


def refuse(words: str) -> NewItem:
    """Makes a message in which the model refuses."""
    part = {"type": "refusal", "refusal": words}
    return read_item({"id": "msg_1", "type": "message", "role": "assistant", "content": [part]})


def call(name: str = "get_weather", arguments: str = KYOTO, id: str = "c1") -> NewItem:
    """Makes a call of the model, with the id that the model gave it."""
    return read_item({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})


def think() -> NewItem:
    """Makes a thought of the model."""
    return read_item({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]})


def hosted() -> NewItem:
    """Makes an item of a tool that ran at the provider."""
    return read_item({"type": "web_search_call", "id": "ws_1", "status": "completed"})


class Watched(TurnState):
    """A state that is rebuilt from its own events while it lives."""

    twin: TurnState

    def apply(self, body: EventBody) -> None:
        """Takes one event into both states."""
        assert_equal(self, self.twin)
        super().apply(body)
        self.twin.apply(body)
        assert_equal(self, self.twin)


def assert_equal(one: TurnState, other: TurnState) -> None:
    """Compares two states, whatever their classes, field by field."""
    for field in fields(TurnState):
        assert getattr(one, field.name) == getattr(other, field.name), field.name


class Turn:
    """A turn, its log, and short words for what may happen to it."""

    def __init__(
        self, *, functions: tuple[FunctionTool, ...] = (WEATHER, NOTE), config: RunConfig | None = None
    ) -> None:
        agent = Agent(name="Helper", functions=functions)
        self.pinned = Pinned(agent=agent, config=config or RunConfig())
        self.created = TurnSnapshot(
            turn_id="turn_0a",
            session_id="sess_0a",
            status=TurnStatus.QUEUED,
            agent="Helper",
            last_agent="Helper",
            agent_digest="a" * 64,
            run_config_digest="b" * 64,
            request_id="r",
        )
        self.runner = Runner(Schemas())
        self.state = Watched.of(self.created, self.pinned)
        assert isinstance(self.state, Watched)
        self.state.twin = TurnState.of(self.created, self.pinned)
        self.log: list[Event] = []
        self.fed: list[Input] = []

    # -- what happens -------------------------------------------------------------------------------------

    def feed(self, *inputs: Input) -> list[EventBody]:
        """Feeds inputs, one by one; the laws hold after each. Returns what was recorded."""
        start = len(self.log)
        for given in inputs:
            self.fed.append(given)
            was_over = self.state.over
            events = self.runner.step(self.state, given)
            assert not (was_over and events)
            self.log += events
            assert_laws(self)
        return [event.body for event in self.log[start:]]

    def begin(self, text: str = "Hi") -> list[EventBody]:
        """Starts the turn with a user's message."""
        return self.feed(Begun(items=(user_message(text),)))

    def steer(self, text: str) -> list[EventBody]:
        """Steers a user's message into it."""
        return self.feed(Steered(items=(user_message(text),)))

    def reply(self, *items: NewItem, of_round: int | None = None, **fields: Any) -> list[EventBody]:
        """Gives it the model's reply; of the round that is owed, if none is said."""
        number = self.state.rounds + 1 if of_round is None else of_round
        given = {"usage": USAGE, "response_id": f"resp_{number}", "model": "m-1", **fields}
        return self.feed(ModelReplied(round=number, items=items, **given))

    def fail(self, of_round: int | None = None) -> list[EventBody]:
        """Has the model request fail."""
        number = self.state.rounds + 1 if of_round is None else of_round
        failure = Failure(reason=Reason.MODEL_UNAVAILABLE, message="The model is down.")
        return self.feed(ModelFailed(round=number, failure=failure))

    def settle(
        self, call_id: str, text: str = "ok", settlement: Settlement = Settlement.OUTPUT, **fields: Any
    ) -> list[EventBody]:
        """Settles a call with a text."""
        output = (TextPart(text=text),)
        return self.feed(CallSettled(call_id=call_id, settlement=settlement, output=output, **fields))

    def lose(self, call_id: str, attempt: int = 1, *, may_retry: bool = True) -> list[EventBody]:
        """Has a worker lose its attempt."""
        return self.feed(AttemptFailed(call_id=call_id, attempt=attempt, worker_id="worker_1", may_retry=may_retry))

    def cancel(self, mode: CancelMode = CancelMode.NOW) -> list[EventBody]:
        """Asks for a cancel."""
        return self.feed(CancelAsked(mode=mode, reason="enough"))

    # -- how it stands ------------------------------------------------------------------------------------

    @property
    def status(self) -> TurnStatus:
        """Where the turn stands."""
        return self.state.status

    @property
    def open(self) -> list[str]:
        """The ids of its open calls, in call order."""
        return list(self.state.open_calls)

    @property
    def reason(self) -> Reason | None:
        """Why it failed."""
        return self.state.failure.reason if self.state.failure else None

    @property
    def owed(self) -> tuple[Command, ...]:
        """What the host is to do."""
        return pending(self.state)

    @property
    def input(self) -> list[dict[str, Any]]:
        """What the turn adds to the model's next request."""
        return [json.loads(item.json) for item in self.state.ordered_items()]

    @property
    def outputs(self) -> list[str]:
        """The outputs of functions in that request, in its order."""
        return [item["output"] for item in self.input if item.get("type") == "function_call_output"]

    def recorded(self) -> list[tuple[Item, bool]]:
        """Lists all items of the log, with whether they joined the history."""
        bodies = [event.body for event in self.log]
        return [(body.item, body.in_history) for body in bodies if isinstance(body, ItemAdded | ItemDone)]

    def call_ids(self) -> list[str]:
        """Lists the ids of all calls of the log, those that were rejected too."""
        return [item.body.call_id for item, _ in self.recorded() if isinstance(item.body, FunctionCall)]


def names(bodies: list[EventBody]) -> list[str]:
    """Names the kinds of some events."""
    return [type(body).__name__ for body in bodies]


# -- the laws -----------------------------------------------------------------------------------------------


def assert_laws(turn: Turn) -> None:
    """Holds a turn against everything that must be true of any turn at any time."""
    assert_equal(turn.state, turn.state.twin)
    assert_equal(turn.state, rebuilt_from_store(turn))
    assert_ends_once(turn)
    assert_status(turn.state)
    assert_items(turn)
    rounds = [event.body for event in turn.log if isinstance(event.body, RoundCompleted)]
    assert turn.state.rounds == len(rounds) == len(turn.state.round_usage)
    assert turn.state.usage == sum((body.usage for body in rounds), Usage())


def rebuilt_from_store(turn: Turn) -> TurnState:
    """Rebuilds the state as a host does: events without the texts of items, those looked up where kept."""
    texts = {item.item_id: item.json for item, _ in turn.recorded() if item.json}
    events = []
    for event in turn.log:
        body = event.body
        if isinstance(body, ItemAdded | ItemDone):
            bare = replace(body.item, json="")
            body = replace(body, item=replace(bare, json=texts.get(bare.item_id, "")))
        events.append(replace(event, body=body))
    return TurnState.rebuilt(turn.created, turn.pinned, events)


def assert_ends_once(turn: Turn) -> None:
    """At most one terminal event, the last one, and no call open behind it."""
    ends = [place for place, event in enumerate(turn.log) if isinstance(event.body, TurnEnded)]
    assert ends == ([len(turn.log) - 1] if turn.state.over else [])
    if ends:
        end = turn.log[-1].body
        assert isinstance(end, TurnEnded)
        assert end.turn == turn.state.snapshot()
        assert (end.turn.output is not None) == (end.turn.status is TurnStatus.COMPLETED)
        assert (end.turn.failure is not None) == (end.turn.status is TurnStatus.FAILED)
        assert not turn.state.open_calls


def assert_status(state: TurnState) -> None:
    """Status, phase, open calls and what is owed agree."""
    assert (state.status is TurnStatus.WAITING) == (state.phase is Phase.CALLS) == bool(state.open_calls)
    assert (state.status is TurnStatus.QUEUED) == (state.phase is Phase.QUEUED)
    assert (state.status is TurnStatus.IN_PROGRESS) == (state.phase is Phase.MODEL)
    assert [call_id for call_id, known in state.calls.items() if not known.settled] == list(state.open_calls)
    assert (state.status in TERMINAL) == (state.phase is Phase.OVER) == state.over
    owed = pending(state)
    assert (not owed) == (state.phase in (Phase.QUEUED, Phase.OVER))
    assert len({command.key for command in owed}) == len(owed)
    if state.phase is Phase.MODEL:
        assert owed == (CallModel(round=state.rounds + 1),)
    if state.phase is Phase.CALLS:
        stopping = state.cancel is CancelMode.NOW
        served = tuple(ServeCall(call_id=call_id) for call_id in state.open_calls)
        assert owed == ((StopCalls(call_ids=tuple(state.open_calls)),) if stopping else served)


def assert_items(turn: Turn) -> None:
    """Ids are unique, numbers grow in the model's order, and what goes to a model is well formed."""
    recorded = turn.recorded()
    assert len({item.item_id for item, _ in recorded}) == len(recorded)
    numbers = [ids.number_of(item.item_id) for item, _ in recorded]
    assert turn.state.next_number > max(numbers, default=-1)
    seen = turn.state.ordered_items()
    assert [item.item_id for item in seen] == sorted(item.item_id for item in seen)
    if turn.pinned.config.history is History.CALLER:
        assert not any(in_history for _, in_history in recorded)
    else:
        assert {item.item_id for item, in_history in recorded if in_history} == {i.item_id for i in seen}
    for item, in_history in recorded:
        if item.status is ItemStatus.REJECTED or not item.json:
            assert not in_history
    if turn.state.phase in (Phase.MODEL, Phase.OVER):
        assert_well_formed(turn.input)


def assert_well_formed(request: list[dict[str, Any]]) -> None:
    """Each call of a request has exactly one output behind it, and no output is without its call."""
    calls: list[str] = []
    answered: list[str] = []
    for item in request:
        if item.get("type") == "function_call":
            calls.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            assert item["call_id"] in calls
            answered.append(item["call_id"])
    assert len(set(calls)) == len(calls)
    assert answered == calls
