"""A run: one agent after another over the rounds of a turn, or of a call of an agent tool nested in it.

Rule: it changes in `TurnState.apply` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from baton_server.core.events import Binding, CallReturned, Decision, HookKind, HookSettled
from baton_server.core.items import FunctionCall, FunctionCallOutput, HandoffCall, Usage

PER_ROUND = frozenset(
    {
        HookKind.INSTRUCTIONS,
        HookKind.TOOL_ENABLED,
        HookKind.HANDOFF_ENABLED,
        HookKind.MODEL_INPUT_FILTER,
    }
)
"""Questions about a round's request: their answers are not needed once its reply is there."""


class Doubt(Enum):
    """What is not known of a call whose attempt was lost.

    CHECKED: a check is asked whether it took effect. UNKNOWN: somebody outside must find out.
    """

    CHECKED = "checked"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class CallRecord:
    """A call of a function or of an agent tool. `run_path`: of its run.

    `output_number`: the number kept free for its output, so that outputs stand in the order of the calls
    whichever comes first; -1 until the reply is whole. `lost_attempt`: the last one that lost its worker,
    0: none. `losses`: attempts that did. `doubt` None: there is none, and the call may be served. `awaiting`: what a
    decision is bound to, None: none was asked for. `decision` None: none was made; `expired`: nobody made one in time.
    `returned`: what it gave, where the model is told of it later. `output` None: the model is not told yet. `at`:
    the position of its tool among all that the agent may have, -1: it had none when the model asked.
    """

    call: FunctionCall
    agent: str
    run_path: tuple[str, ...] = ()
    output_number: int = -1
    lost_attempt: int = 0
    losses: int = 0
    doubt: Doubt | None = None
    awaiting: Binding | None = None
    decision: Decision | None = None
    expired: bool = False
    returned: CallReturned | None = None
    output: FunctionCallOutput | None = None
    at: int = -1

    @property
    def key(self) -> str:
        """Say by which key the outside world knows whether it took effect."""
        return self.call.idempotency_key or self.call.call_id

    @property
    def settled(self) -> bool:
        """Tell whether the model is told what came of it."""
        return self.output is not None

    @property
    def path(self) -> tuple[str, ...]:
        """Say the path of the run that the call encloses, if it is one of an agent tool."""
        return (*self.run_path, self.call.call_id)


@dataclass(slots=True)
class Transfer:
    """A handoff that the model asked for. `output_number` as of calls. `settled`: the model is told of it."""

    call: HandoffCall
    output_number: int = -1
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What came in at one moment: items by number, from `first` to `last`, before round `rounds` + 1."""

    first: int
    last: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A handoff that changed what the next agent sees: of items before number `at`.

    `agent` gave by the handoff tool `name`, in the reply of `round` that begins with item `first`.
    """

    at: int
    first: int
    round: int
    agent: str
    name: str


@dataclass(slots=True)
class Run:
    """A run as its events left it.

    `path`: calls that enclose it, outermost first; empty: the turn's own. `agent`: who goes on. `starts`: agents that
    began in it. `limit` None: any number of rounds. `last_usage`, `last_model`: of the last round. `items`: numbers of
    what it put in and made, as they came, without what was rejected or cut off. `reply`: numbers of the last reply's
    items, `coming` of the one that is being recorded. `new_from`: where what is new of the round begins, a handoff's
    filter is told: behind the last pause for decisions, if there was one; `paused`: it rests in one. `unsettled`: its
    calls without output, in call order. `transfers`: handoffs of the last reply. `used_tools`: agents that called one,
    which drops a forced `tool_choice`. `asked`: names and arguments of its calls and handoffs, by the model's ids.
    `repeated`: the last reply said such a one again, which was passed over; `repeating`: the one that is being recorded
    does. `batch`: what came in last, None: nothing yet. `handed`: the last reply's handoff is done. `left_out`: items
    that left the history, `unsaid`: those that are not said to be new. `hooks`: answers, by id. `merged`: what is
    before this number came out of the merge of history and input. `approved`: calls of the last reply that were
    allowed, in that order. `placed`: those whose outputs have their places for when a nested run goes on. `sent`: items
    that the model's API keeps. `stored`: what is before this number is in the caller's store. `fallback`: the message
    that stands in for an error, -1: none.
    """

    path: tuple[str, ...]
    agent: str
    limit: int | None
    starts: int = 0
    rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    last_usage: Usage = field(default_factory=Usage)
    last_model: str = ""
    items: list[int] = field(default_factory=list)
    reply: list[int] = field(default_factory=list)
    new_from: int = 0
    paused: bool = False
    coming: list[int] = field(default_factory=list)
    unsettled: dict[str, None] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    asked: dict[str, tuple[str, str]] = field(default_factory=dict)
    repeated: bool = False
    repeating: bool = False
    used_tools: set[str] = field(default_factory=set)
    batch: Batch | None = None
    hooks: dict[str, HookSettled] = field(default_factory=dict)
    rewrites: list[Rewrite] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)
    stored: int = 0
    merged: int = 0
    approved: list[str] = field(default_factory=list)
    placed: set[str] = field(default_factory=set)
    last_response_id: str = ""
    fallback: int = -1
    handed: bool = False
    left_out: set[int] = field(default_factory=set)
    unsaid: set[int] = field(default_factory=set)
    last_round: int | None = None
    closed: bool = False

    @property
    def mark(self) -> str:
        """Tell its questions from those of other runs: its call in hex; empty: the turn's own."""
        return format(int(self.path[-1].rpartition("_")[2], 16), "x") if self.path else ""

    @property
    def round(self) -> int:
        """Say which round comes, from 1."""
        return self.rounds + 1

    def answer(self, hook_id: str) -> HookSettled | None:
        """Find what became of a question; None: nothing yet."""
        return self.hooks.get(hook_id)
