"""The state of a turn, folded from its events. Rule: state changes in `TurnState.apply` and nowhere else.

Theory of operation. A turn is in one phase at a time:

    QUEUED ── begun ──► MODEL ── reply with calls ──► CALLS ── all settled ──► MODEL ── final output ──► OVER

`Runner` decides which events an input gives; each event it records is applied at once, by the same function
that rebuilds a state from the log. So the state that lived on and the state that was rebuilt are equal after
every event, and a test proves it for any order of inputs.

Numbers. The items of a turn are numbered in the order in which the model sees them. A reply takes a number
for each of its items and, when it is whole, one for the output of each of its calls; so the outputs have
their places, whichever comes first, before all that follows. What the model never sees takes one too.

Guardrails. What comes in at one moment is a batch; each guardrail is asked once about each batch. While one of them
is asked nothing more comes in, and a reply of the model waits: so what a guardrail stops never counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from baton_server.core import hooks, ids
from baton_server.core.agents import Guardrail, Pinned
from baton_server.core.errors import Failure
from baton_server.core.events import (
    AfterLoss,
    AttemptLost,
    CancelMode,
    CancelRequested,
    EffectDecided,
    EffectUnknown,
    Event,
    EventBody,
    HookKind,
    HookSettled,
    ItemAdded,
    ItemDone,
    OpenCall,
    RoundCompleted,
    SessionInProgress,
    SessionRequiresAction,
    TurnEnded,
    TurnInProgress,
    TurnSnapshot,
    TurnStatus,
)
from baton_server.core.items import (
    FAILED_SETTLEMENTS,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemStatus,
    Settlement,
    Usage,
)


class Phase(Enum):
    """What a turn waits for."""

    QUEUED = "queued"
    MODEL = "model"
    CALLS = "calls"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class RoundUsage:
    """Tokens of one round: `baton.v1.RoundUsage`."""

    round: int
    model: str
    response_id: str
    usage: Usage


class Doubt(Enum):
    """What is not known of a call whose attempt was lost.

    CHECKED: a check is asked whether it took effect. UNKNOWN: somebody outside must find out.
    """

    CHECKED = "checked"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class CallRecord:
    """A call of the turn.

    `output_number`: the number kept free for its output, so that outputs stand in the order of the calls
    whichever comes first; -1 until the reply is whole. `lost_attempt`: the last one that lost its worker,
    0: none. `losses`: attempts that did. `doubt` None: there is none, and the call may be served.
    """

    call: FunctionCall
    agent: str
    output_number: int = -1
    settled: bool = False
    lost_attempt: int = 0
    losses: int = 0
    doubt: Doubt | None = None

    @property
    def key(self) -> str:
        """Say by which key the outside world knows whether it took effect."""
        return self.call.idempotency_key or self.call.call_id


@dataclass(frozen=True, slots=True)
class Batch:
    """What came in at one moment: items by number, from `first` to `last`, before round `rounds` + 1."""

    first: int
    last: int
    rounds: int


@dataclass(slots=True)
class TurnState:
    """A turn as its events left it. Made by `TurnState.of`; changed only by `apply`.

    `items`: what the turn put in and made, by number, without what was rejected or cut off. `open_calls`:
    calls without output, in call order. `next_number`: of the next item. `called`: the agent has called a
    function, which drops a forced `tool_choice`. `batch`: what came in last, None: nothing yet. `hooks`: what
    guardrails answered, and what filters of the round that is asked for did.
    """

    turn_id: str
    session_id: str
    pinned: Pinned
    agent_digest: str
    run_config_digest: str
    request_id: str
    status: TurnStatus = TurnStatus.QUEUED
    phase: Phase = Phase.QUEUED
    rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    items: dict[int, Item] = field(default_factory=dict)
    calls: dict[str, CallRecord] = field(default_factory=dict)
    open_calls: dict[str, OpenCall] = field(default_factory=dict)
    model_call_ids: dict[str, str] = field(default_factory=dict)
    next_number: int = 0
    cancel: CancelMode | None = None
    called: bool = False
    output: str | None = None
    failure: Failure | None = None
    last_response_id: str = ""
    round_usage: list[RoundUsage] = field(default_factory=list)
    batch: Batch | None = None
    hooks: dict[str, HookSettled] = field(default_factory=dict)

    @classmethod
    def of(cls, turn: TurnSnapshot, pinned: Pinned) -> TurnState:
        """Begin the state of a turn, as accepted, before any event of it."""
        return cls(
            turn_id=turn.turn_id,
            session_id=turn.session_id,
            pinned=pinned,
            agent_digest=turn.agent_digest,
            run_config_digest=turn.run_config_digest,
            request_id=turn.request_id,
        )

    @classmethod
    def rebuilt(cls, turn: TurnSnapshot, pinned: Pinned, events: Iterable[Event]) -> TurnState:
        """Fold a turn's events, from its first one on."""
        state = cls.of(turn, pinned)
        for event in events:
            state.apply(event.body)
        return state

    @property
    def over(self) -> bool:
        """Tell whether the turn has ended."""
        return self.phase is Phase.OVER

    @property
    def takes_messages(self) -> bool:
        """Tell whether steered messages may join now: a model request is owed, no guardrail is asked, and the host
        knows whether the request has already begun."""
        return self.phase is Phase.MODEL and not self.open_guardrails()

    @property
    def holds_reply(self) -> bool:
        """Tell whether a model's reply must wait before it is fed: a guardrail that runs beside it is asked."""
        return bool(self.open_guardrails())

    def open_guardrails(self) -> list[tuple[str, Guardrail]]:
        """List the guardrails that must still answer about what came in last, with the ids of their hooks."""
        guardrails = self.pinned.input_guardrails
        if not guardrails or self.batch is None or self.phase is not Phase.MODEL:
            return []
        first = self.batch.first
        ids_of = [(hooks.guardrail_id(self.turn_id, first, index), one) for index, one in enumerate(guardrails)]
        return [(hook_id, one) for hook_id, one in ids_of if hook_id not in self.hooks]

    def joined_to(self, call_id: str) -> str:
        """Find the older open call whose result is to be that of an open call too; empty: it is served itself."""
        key = self.calls[call_id].call.idempotency_key
        older = (other for other in self.open_calls if key and self.calls[other].call.idempotency_key == key)
        first = next(older, call_id)
        return "" if first == call_id else first

    def succeeded(self, idempotency_key: str) -> FunctionCallOutput | None:
        """Find the output of a call of this turn that has succeeded under a key; None: there is none."""
        for call in self.calls.values() if idempotency_key else ():
            if call.settled and call.call.idempotency_key == idempotency_key:
                output = self.items[call.output_number].body
                if isinstance(output, FunctionCallOutput) and output.settlement not in FAILED_SETTLEMENTS:
                    return output
        return None

    def ordered_items(self) -> list[Item]:
        """List what the turn's next request carries behind the history, in its order."""
        return [self.items[number] for number in sorted(self.items)]

    def snapshot(self) -> TurnSnapshot:
        """Say how the turn stands: `baton.v1.Turn`."""
        agent = self.pinned.agent.name
        return TurnSnapshot(
            turn_id=self.turn_id,
            session_id=self.session_id,
            status=self.status,
            agent=agent,
            last_agent=agent,
            agent_digest=self.agent_digest,
            run_config_digest=self.run_config_digest,
            request_id=self.request_id,
            rounds=self.rounds,
            max_turns=self.pinned.config.round_limit,
            usage=self.usage,
            output=self.output,
            failure=self.failure,
            last_response_id=self.last_response_id,
        )

    def apply(self, body: EventBody) -> None:
        """Take one event into the state. Events that say nothing about it are passed over."""
        match body:
            case TurnInProgress():
                self.status, self.phase = TurnStatus.IN_PROGRESS, Phase.MODEL
            case SessionRequiresAction():
                self.status, self.phase = TurnStatus.WAITING, Phase.CALLS
            case SessionInProgress() if self.phase is Phase.CALLS:
                self.status, self.phase = TurnStatus.IN_PROGRESS, Phase.MODEL
            case TurnEnded(turn=turn):
                self.status, self.phase = turn.status, Phase.OVER
                self.output, self.failure = turn.output, turn.failure
            case ItemAdded(item=item) | ItemDone(item=item):
                self._record(item)
            case RoundCompleted():
                self._complete_round(body)
            case AttemptLost():
                self._lose(body)
            case EffectUnknown(call_id=call_id):
                self._doubt(call_id, Doubt.UNKNOWN)
            case EffectDecided(call_id=call_id):
                self._doubt(call_id, None)
            case HookSettled():
                self._settle_hook(body)
            case CancelRequested(mode=mode):
                self.cancel = mode
            case _:
                pass

    def _record(self, item: Item) -> None:
        number = ids.number_of(item.item_id)
        self.next_number = max(self.next_number, number + 1)
        if item.status in (ItemStatus.REJECTED, ItemStatus.INCOMPLETE) and not item.json:
            return
        self.items[number] = item
        if not item.agent:
            self._admit(number)
        match item.body:
            case FunctionCall() as call if item.agent:
                self._open(call, item.agent)
            case FunctionCallOutput(call_id=call_id, settlement=Settlement()) if call_id in self.calls:
                self.calls[call_id].settled = True
                self.open_calls.pop(call_id, None)

    def _open(self, call: FunctionCall, agent: str) -> None:
        self.called = True
        self.model_call_ids[call.model_call_id] = call.call_id
        self.calls[call.call_id] = CallRecord(call=call, agent=agent)
        self.open_calls[call.call_id] = OpenCall(
            call_id=call.call_id,
            name=call.name,
            agent=agent,
            arguments=call.arguments,
            key=call.idempotency_key or call.call_id,
        )

    def _admit(self, number: int) -> None:
        """Take an item of the input into the batch of its moment."""
        batch = self.batch
        if batch is None or batch.rounds != self.rounds or not self._untouched(batch):
            batch = Batch(number, number, self.rounds)
        self.batch = Batch(batch.first, number, self.rounds)

    def _untouched(self, batch: Batch) -> bool:
        count = len(self.pinned.input_guardrails)
        return not any(hooks.guardrail_id(self.turn_id, batch.first, index) in self.hooks for index in range(count))

    def _lose(self, body: AttemptLost) -> None:
        call = self.calls[body.call_id]
        call.lost_attempt = body.attempt
        call.losses += 1
        if body.next is AfterLoss.CHECKED:
            call.doubt = Doubt.CHECKED

    def _doubt(self, call_id: str, doubt: Doubt | None) -> None:
        self.calls[call_id].doubt = doubt
        if call_id in self.open_calls:
            unknown = doubt is Doubt.UNKNOWN
            self.open_calls[call_id] = replace(self.open_calls[call_id], effect_unknown=unknown)

    def _settle_hook(self, body: HookSettled) -> None:
        if body.kind is not HookKind.EFFECT_CHECK:
            self.hooks[body.hook_id] = body
            return
        for call_id, call in self.calls.items():
            if call.doubt is Doubt.CHECKED and self.check_of(call) == body.hook_id:
                self._doubt(call_id, None)  # what follows from the answer is an event of its own

    def check_of(self, call: CallRecord) -> str:
        """Name the hook that is asked what the last lost attempt of a call did."""
        return hooks.check_id(self.turn_id, call.call.call_id, call.lost_attempt)

    def _complete_round(self, body: RoundCompleted) -> None:
        self.rounds += 1
        self.usage += body.usage
        self.last_response_id = body.response_id or self.last_response_id
        self.round_usage.append(RoundUsage(self.rounds, body.model, body.response_id, body.usage))
        filters = [key for key, hook in self.hooks.items() if hook.kind is HookKind.MODEL_INPUT_FILTER]
        for key in filters:  # they were this round's
            del self.hooks[key]
        # What is open now was opened by this reply: every call of a round is settled before the next one.
        for call_id in self.open_calls:
            self.calls[call_id].output_number = self.next_number
            self.next_number += 1
