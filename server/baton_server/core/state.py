"""The state of a turn, folded from its events. Rule: state changes in `TurnState.apply` and nowhere else.

Theory of operation. A turn is in one phase at a time:

    QUEUED ── begun ──► MODEL ── reply with calls ──► CALLS ── all settled ──► MODEL ── final output ──► OVER

`Runner` decides which events an input gives; each event it records is applied at once, by the same function
that rebuilds a state from the log. So the state that lived on and the state that was rebuilt are equal after
every event, and a test proves it for any order of inputs.

Numbers. The items of a turn are numbered in the order in which the model sees them. A reply takes a number
for each of its items and, when it is whole, one for the output of each of its calls; so the outputs have
their places, whichever comes first, before all that follows. What the model never sees takes one too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from baton_server.core import ids
from baton_server.core.agents import Pinned
from baton_server.core.errors import Failure
from baton_server.core.events import (
    AttemptLost,
    CancelMode,
    CancelRequested,
    Event,
    EventBody,
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
from baton_server.core.items import FunctionCall, FunctionCallOutput, Item, ItemStatus, Settlement, Usage


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


@dataclass(slots=True)
class CallRecord:
    """A call of the turn.

    `output_number`: the number kept free for its output, so that outputs stand in the order of the calls
    whichever comes first; -1 until the reply is whole. `lost_attempt`: the last one that lost its worker,
    0: none. `losses`: attempts that did.
    """

    call: FunctionCall
    agent: str
    output_number: int = -1
    settled: bool = False
    lost_attempt: int = 0
    losses: int = 0


@dataclass(slots=True)
class TurnState:
    """A turn as its events left it. Made by `TurnState.of`; changed only by `apply`.

    `items`: what the turn put in and made, by number, without what was rejected or cut off. `open_calls`:
    calls without output, in call order. `next_number`: of the next item. `called`: the agent has called a
    function, which drops a forced `tool_choice`.
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
        """Tell whether steered messages may join now: a model request is owed, and the host knows
        whether it has already begun."""
        return self.phase is Phase.MODEL

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
            case AttemptLost(call_id=call_id, attempt=attempt):
                self.calls[call_id].lost_attempt = attempt
                self.calls[call_id].losses += 1
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
            call_id=call.call_id, name=call.name, agent=agent, arguments=call.arguments
        )

    def _complete_round(self, body: RoundCompleted) -> None:
        self.rounds += 1
        self.usage += body.usage
        self.last_response_id = body.response_id or self.last_response_id
        self.round_usage.append(RoundUsage(self.rounds, body.model, body.response_id, body.usage))
        # What is open now was opened by this reply: every call of a round is settled before the next one.
        for call_id in self.open_calls:
            self.calls[call_id].output_number = self.next_number
            self.next_number += 1
