"""A turn in the hand of a test: inputs go in, events come out, and after every single event the laws hold.

The state that lives is a `Watched` one: whatever is applied to it is applied to a second state too, as a
rebuild from the log would, and both must be equal before and after. So a change of state beside an event is
found at once, in every test of this folder.
"""

from __future__ import annotations

import json
from typing import Any

from tests.core.laws import assert_equal, assert_laws

from baton_server.core.agents import Agent, Execution, FunctionTool, Guardrail, Pinned, RunConfig
from baton_server.core.commands import (
    AskGuardrails,
    CheckEffect,
    Command,
    pending,
)
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import (
    CancelMode,
    Event,
    EventBody,
    HookKind,
    ItemAdded,
    ItemDone,
    TurnSnapshot,
    TurnStatus,
)
from baton_server.core.inputs import (
    AttemptFailed,
    Begun,
    CallSettled,
    CancelAsked,
    HookAnswered,
    Input,
    ModelFailed,
    ModelReplied,
    NewItem,
    Steered,
)
from baton_server.core.items import FunctionCall, Item, Settlement, TextPart, Usage
from baton_server.core.responses import read_item, user_message
from baton_server.core.runner import Runner
from baton_server.core.state import TurnState

WEATHER = FunctionTool(
    name="get_weather",
    parameters_json='{"properties":{"city":{"type":"string"}},"required":["city"]}',
    strict=True,
)
NOTE = FunctionTool(name="take_note", parameters_json='{"required":["text"]}', strict=False)
PAY = FunctionTool(
    name="pay",
    parameters_json='{"required":["order"]}',
    strict=False,
    execution=Execution(timeout_s=30, expires_s=60, idempotency_fields=("/order",)),
)
"""A function that must take effect once for each order."""

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

    def idempotency_key(self, session_id: str, name: str, pointers: tuple[str, ...], arguments: str) -> str:
        """Makes a key of the members that pointers of one step name."""
        try:
            values = [json.loads(arguments)[pointer[1:]] for pointer in pointers]
        except (ValueError, KeyError, TypeError):
            return ""
        return f"idem_{session_id}_{name}_{values}"


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


class Turn:
    """A turn, its log, and short words for what may happen to it."""

    def __init__(
        self,
        *,
        functions: tuple[FunctionTool, ...] = (WEATHER, NOTE, PAY),
        config: RunConfig | None = None,
        guardrails: tuple[Guardrail, ...] = (),
    ) -> None:
        agent = Agent(name="Helper", functions=functions, input_guardrails=guardrails)
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

    def lose(self, call_id: str, attempt: int = 1, **said: bool) -> list[EventBody]:
        """Has a worker lose its attempt; `said`: may_retry, ask, check."""
        return self.feed(AttemptFailed(call_id=call_id, attempt=attempt, worker_id="worker_1", **said))

    def answer_hook(
        self, hook_id: str, kind: HookKind, answer: str = "", failure: Failure | None = None, ask: bool = False
    ) -> list[EventBody]:
        """Answers a hook, or gives it up."""
        return self.feed(
            HookAnswered(
                hook_id=hook_id,
                hook=kind,
                name="hook",
                payload_digest="d" * 64,
                answer_json=answer,
                failure=failure,
                worker_id="worker_1",
                ask=ask,
            )
        )

    def guard(self, answer: str = '{"tripped":false}', place: int = 0) -> list[EventBody]:
        """Answers one of the guardrails that are asked, in their order."""
        return self.answer_hook(self.asked[place], HookKind.INPUT_GUARDRAIL, answer)

    def check(self, answer: str, *, ask: bool = False) -> list[EventBody]:
        """Answers the check that is asked first."""
        command = next(command for command in self.owed if isinstance(command, CheckEffect))
        return self.answer_hook(command.hook_id, HookKind.EFFECT_CHECK, answer, ask=ask)

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
    def asked(self) -> list[str]:
        """The ids of the guardrails' hooks that are to be answered."""
        return [hook_id for command in self.owed if isinstance(command, AskGuardrails) for hook_id, _ in command.hooks]

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
