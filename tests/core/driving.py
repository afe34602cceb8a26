"""A turn in the hand of a test: inputs go in, events come out, and after every single event the laws hold.

The state that lives is a `Watched` one: whatever is applied to it is applied to a second state too, as a
rebuild from the log would, and both must be equal before and after. So a change of state beside an event is
found at once, in every test of this folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.core.laws import assert_equal, assert_laws
from tests.core.making import NOTE, PAY, USAGE, WEATHER, Schemas

from baton_server.core import request
from baton_server.core.agents import Agent, Guardrail
from baton_server.core.commands import CallModel, CheckEffect, Command, ServeCall
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import (
    ApprovalDecided,
    CancelMode,
    Decision,
    Event,
    EventBody,
    HookKind,
    ItemAdded,
    ItemDone,
    ItemsWithdrawn,
    TurnSnapshot,
    TurnStatus,
)
from baton_server.core.hooks.answers import AnswerError, nonsense
from baton_server.core.hooks.packing import ModelInput
from baton_server.core.hooks.question import Question
from baton_server.core.inputs import (
    AttemptFailed,
    Begun,
    CallSettled,
    CancelAsked,
    DecisionMade,
    DecisionsMade,
    HookAnswered,
    Input,
    ModelFailed,
    ModelReplied,
    NewItem,
    Steered,
)
from baton_server.core.items import FunctionCall, FunctionCallOutput, HandoffCall, Item, Settlement, TextPart
from baton_server.core.responses import user_message
from baton_server.core.run_config import Pinned, RunConfig
from baton_server.core.runner import Runner
from baton_server.core.state import TurnState
from baton_server.core.tools import Tool


class Watched(TurnState):
    """A state that is rebuilt from its own events while it lives."""

    twin: TurnState

    def apply(self, event: Event) -> None:
        """Takes one event into both states."""
        assert_equal(self, self.twin)
        super().apply(event)
        self.twin.apply(event)
        assert_equal(self, self.twin)


class Turn:
    """A turn, its log, and short words for what may happen to it.

    `agent` None: one called Helper, of `functions` and `guardrails`. `others`: the other agents of its graph.
    `history`: what its session held before. `continues`: the turn that it goes on from.
    """

    def __init__(
        self,
        *,
        functions: tuple[Tool, ...] = (WEATHER, NOTE, PAY),
        config: RunConfig | None = None,
        guardrails: tuple[Guardrail, ...] = (),
        agent: Agent | None = None,
        others: tuple[Agent, ...] = (),
        history: Sequence[str] = (),
        continues: str = "",
    ) -> None:
        agent = agent or Agent(name="Helper", tools=functions, input_guardrails=guardrails)
        self.pinned = Pinned(agent=replace(agent, agents=others), config=config or RunConfig())
        self.history = history
        self.created = TurnSnapshot(
            turn_id="turn_0a",
            session_id="sess_0a",
            status=TurnStatus.QUEUED,
            agent=self.pinned.start.name,
            last_agent=self.pinned.start.name,
            agent_digest="a" * 64,
            run_config_digest="b" * 64,
            request_id="r",
            continues=continues,
        )
        self.runner = Runner(Schemas())
        self.state = Watched.of(self.created, self.pinned)
        assert isinstance(self.state, Watched)
        self.twin = self.state.twin = TurnState.of(self.created, self.pinned)
        self.log: list[Event] = []
        self.fed: list[Input | DecisionsMade] = []
        self.heard: set[str] = set()

    # -- what happens -------------------------------------------------------------------------------------

    def feed(self, *inputs: Input | DecisionsMade) -> list[EventBody]:
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

    def reply(
        self, *items: NewItem, of_round: int | None = None, path: tuple[str, ...] = (), **fields: Any
    ) -> list[EventBody]:
        """Gives it the model's reply; of the round that is owed in the run at `path`, if none is said."""
        number = self.state.runs[path].round if of_round is None else of_round
        given = {"usage": USAGE, "response_id": f"resp_{number}", "model": "m-1", **fields}
        return self.feed(ModelReplied(round=number, items=items, run_path=path, **given))

    def fail(self, of_round: int | None = None, path: tuple[str, ...] = ()) -> list[EventBody]:
        """Has the model request fail."""
        number = self.state.runs[path].round if of_round is None else of_round
        failure = Failure(reason=Reason.MODEL_UNAVAILABLE, message="The model is down.")
        return self.feed(ModelFailed(round=number, failure=failure, run_path=path))

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
        """Answers a hook, or gives it up, whether it is asked or not."""
        asked = {question.hook_id for question in self.questions()}
        recorded = self.feed(
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
        if recorded and kind is not HookKind.EFFECT_CHECK:  # nothing is asked a second time under one id
            assert hook_id in asked - self.heard
            self.heard.add(hook_id)
        return recorded

    def answer(
        self, question: Question | HookKind, answer: Any = None, failure: Failure | None = None
    ) -> list[EventBody]:
        """Answers a question as a host does: read and packed, or given up where it cannot be used.

        A kind means the first question of that kind; an answer that is no text is written as JSON.
        """
        asked = self.question(question) if isinstance(question, HookKind) else question
        if failure is not None:
            return self.answer_hook(asked.hook_id, asked.kind, failure=failure)
        try:
            kept = asked.settle(self.history, answer if isinstance(answer, str) else json.dumps(answer))
        except AnswerError as error:
            return self.answer_hook(asked.hook_id, asked.kind, failure=nonsense(asked.kind, asked.ref.name, error))
        return self.answer_hook(asked.hook_id, asked.kind, kept)

    def guard(self, answer: str = '{"tripped":false}', place: int = 0) -> list[EventBody]:
        """Answers one of the guardrails that are asked, in their order."""
        return self.answer(self.questions(HookKind.INPUT_GUARDRAIL)[place], answer)

    def decide(self, call_id: str, *, approve: bool = True, expired: bool = False, **said: Any) -> list[EventBody]:
        """Has a person decide about a call; `said`: other fields of the decision."""
        decision = Decision(call_id=call_id, approve=approve, **said)
        return self.feed(DecisionMade(decision=decision, expired=expired))

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
        return self.runner.pending(self.state)

    def questions(self, kind: HookKind | None = None) -> list[Question]:
        """Lists the questions that are to be answered, of one kind or of all."""
        asked = [command for command in self.owed if isinstance(command, Question)]
        return [question for question in asked if kind is None or question.kind is kind]

    def question(self, kind: HookKind) -> Question:
        """The first question of a kind."""
        return self.questions(kind)[0]

    def payload(self, question: Question | HookKind) -> dict[str, Any]:
        """What is asked."""
        asked = self.question(question) if isinstance(question, HookKind) else question
        payload: dict[str, Any] = json.loads(asked.payload(self.history if asked.needs_history else ()))
        return payload

    @property
    def asked(self) -> list[str]:
        """The ids of the guardrails' hooks that are to be answered."""
        return [question.hook_id for question in self.questions(HookKind.INPUT_GUARDRAIL)]

    def asked_of(self, path: tuple[str, ...]) -> list[str]:
        """The guardrails' hooks that are to be answered about the input of one run."""
        return [one.hook_id for one in self.questions(HookKind.INPUT_GUARDRAIL) if one.run_path == path]

    @property
    def served(self) -> list[str]:
        """The ids of the calls that are to be served."""
        return [command.call_id for command in self.owed if isinstance(command, ServeCall)]

    @property
    def requests(self) -> list[CallModel]:
        """The model requests that are to be made."""
        return [command for command in self.owed if isinstance(command, CallModel)]

    @property
    def taking(self) -> bool:
        """Whether steered messages may join now."""
        return self.runner.takes_messages(self.state)

    @property
    def input(self) -> list[dict[str, Any]]:
        """What the turn adds to the model's next request."""
        return [json.loads(item.json) for item in self.state.items_of(self.state.own)]

    def given(self, path: tuple[str, ...] = ()) -> ModelInput:
        """What the next request of a run carries."""
        return request.carried(self.state, self.state.runs[path], self.history)

    def sent(self, path: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """The items of the next request of a run."""
        return [json.loads(text) for text in self.given(path).items]

    @property
    def outputs(self) -> list[str]:
        """The outputs of functions in that request, in its order."""
        return [item["output"] for item in self.input if item.get("type") == "function_call_output"]

    def recorded(self) -> list[tuple[Item, bool]]:
        """Lists all items of the log, with whether they joined the history."""
        bodies = [event.body for event in self.log]
        return [(body.item, body.in_history) for body in bodies if isinstance(body, ItemAdded | ItemDone)]

    def carried_ids(self) -> set[str]:
        """The ids of what the turn took from the one that it goes on from."""
        begun = next((given for given in self.fed if isinstance(given, Begun)), None)
        count = len(begun.carried) if begun is not None else 0
        return {item.item_id for item, _ in self.recorded()[:count]}

    def kept(self) -> list[dict[str, Any]]:
        """What a later turn finds of this one, in the model's order: without what left the history."""
        bodies = [event.body for event in self.log]
        gone = {one for body in bodies if isinstance(body, ItemsWithdrawn) for one in body.item_ids}
        own = [item for item in self.state.items_of(self.state.own) if item.item_id not in gone]
        return [json.loads(item.json) for item in own]

    def is_plain(self) -> bool:
        """Whether all outputs are those of functions that the agents have, and nobody was asked before."""
        bodies = [item.body for item, _ in self.recorded()]
        outputs = [body for body in bodies if isinstance(body, FunctionCallOutput)]
        unknown = any(call.at < 0 for call in self.state.calls.values())
        handed = any(isinstance(body, HandoffCall) for body in bodies)
        decided = any(isinstance(event.body, ApprovalDecided) for event in self.log)
        blocked = any(output.settlement is Settlement.BLOCKED for output in outputs)
        return not (handed or decided or unknown or blocked)

    def rewrites(self) -> bool:
        """Whether anything changes what a request carries but the history and what was said in the turn."""
        config = self.pinned.config
        return bool(config.model_input_filters or any(run.rewrites for run in self.state.runs.values()))

    def call_ids(self) -> list[str]:
        """Lists the ids of all calls of the log, those that were rejected too."""
        return [item.body.call_id for item, _ in self.recorded() if isinstance(item.body, FunctionCall)]
