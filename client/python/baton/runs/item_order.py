"""The order in which users see what a run makes: each reply at once, then its outputs in the order of the calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from baton.items.model_response import ModelResponse
from baton.items.responses import RawItem
from baton.items.run_items import Names, RunItem, ToolApprovalItem, approval_item, run_item
from baton.items.usage import usage_from_pb
from baton.runs.turn_status import undecided
from baton.v1 import event_pb2, item_pb2, runner_pb2

_OUTPUTS = ("function_call_output", "handoff_output")


@dataclass(slots=True)
class _Call:
    """A call of the reply that came last."""

    output: item_pb2.Item | None = None
    shown: bool = False

    @property
    def done(self) -> bool:
        return self.shown or self.output is not None


@dataclass(slots=True)
class Reply:
    """One reply of the model: its items in order, and the outputs of its calls as far as they are shown."""

    items: list[RunItem] = field(default_factory=list)
    outputs: list[RunItem] = field(default_factory=list)


class RunItems:
    """Makes run items of a turn's items as the log has them, in the order in which users see them.

    Outputs of a reply come when all its calls are settled, in call order, whatever order they were settled in; what
    an unknown function and a handover give comes behind them. Where a run pauses, `pause` gives what there is.
    Input of the turn and nested runs are passed over. `replies`: what belongs together. `outputs`: those that are
    shown, by Baton's ids of their calls.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._calls: dict[str, _Call] = {}
        self._raw_calls: dict[str, RawItem] = {}
        self._asked: set[str] = set()
        self._index = -1
        self._resumed = False
        self.replies: list[Reply] = []
        self.outputs: dict[str, RunItem] = {}

    def feed(self, item: item_pb2.Item) -> Iterator[RunItem]:
        """Take the next item of the log; yield what can be shown now."""
        kind = item.WhichOneof("item")
        if not item.agent or item.run_path or item.status == item_pb2.ITEM_STATUS_REJECTED or kind is None:
            return
        if kind in _OUTPUTS:
            yield from self._settled(item)
            return
        self._enter(item)
        if kind in ("function_call", "handoff_call"):
            call = item.function_call if kind == "function_call" else item.handoff_call
            self._names.model_call_ids[call.call_id] = call.model_call_id
            self._calls[call.call_id] = _Call()
        for made in self._made(item):
            self.replies[-1].items.append(made)
            if kind == "function_call":
                self._raw_calls[item.function_call.call_id] = made.raw_item
            yield made

    def pause(self, actions: Iterable[event_pb2.RequiredAction] = ()) -> Iterator[RunItem]:
        """Yield what is there where the run rests: outputs, and calls that wait for a decision, in call order.

        What waits in a nested run is an interruption, and no item of this run; but where it waits behind a pause of the
        same reply it is one, as in the Agents SDK.
        """
        waiting = {one.call_id: one for one in undecided(actions)}
        for call_id, call in sorted(self._calls.items(), key=_rank):
            if call.output is not None and not call.shown:
                yield from self._show(call_id, call)
            elif call_id in waiting:
                yield from self._ask(waiting.pop(call_id))
        for action in waiting.values() if self._resumed else ():
            yield from self._ask(action)

    def interruption(self, action: event_pb2.RequiredAction) -> ToolApprovalItem:
        """Make the item of a call that waits for a decision, whether it was shown or not."""
        return approval_item(action, self._names, self._raw_calls.get(action.call_id))

    def seen(self, items: Iterable[item_pb2.Item], shown: frozenset[str], asked: frozenset[str]) -> Iterator[RunItem]:
        """Go to where a run paused; yield what was there. `shown`: keys of the items; `asked`: undecided calls."""
        self._asked |= asked & shown
        for item in items:
            if item.item_id in shown:
                yield from self.feed(item)
        yield from self.pause()
        self._resumed = True

    # -- small moves -----------------------------------------------------------------------------

    def _enter(self, item: item_pb2.Item) -> None:
        """Begin a new reply where an item does not go on with the last one."""
        again = item.HasField("output_index") and item.output_index <= self._index
        over = bool(self._calls) and all(call.done for call in self._calls.values())
        if again or over or not self.replies:
            self.replies.append(Reply())
            self._calls.clear()
            self._resumed = False
        self._index = item.output_index if item.HasField("output_index") else -1

    def _settled(self, item: item_pb2.Item) -> Iterator[RunItem]:
        output = item.function_call_output
        handed = item.HasField("handoff_output")
        call = self._calls.get(item.handoff_output.call_id if handed else output.call_id)
        if call is None:
            yield from self._made(item)
            return
        if not handed and output.settlement == item_pb2.SETTLEMENT_CANCELLED:
            call.shown = True  # it stands in the history alone: nobody gave it
        else:
            call.output = item
        if all(one.done for one in self._calls.values()):
            for call_id, settled in sorted(self._calls.items(), key=_rank):  # stable: in call order
                if not settled.shown:
                    yield from self._show(call_id, settled)

    def _show(self, call_id: str, call: _Call) -> Iterator[RunItem]:
        assert call.output is not None
        call.shown = True
        for made in self._made(call.output):
            self.replies[-1].outputs.append(made)
            self.outputs[call_id] = made
            yield made

    def _ask(self, action: event_pb2.RequiredAction) -> Iterator[RunItem]:
        if action.call_id not in self._asked:
            self._asked.add(action.call_id)
            yield self.interruption(action)

    def _made(self, item: item_pb2.Item) -> Iterator[RunItem]:
        made = run_item(item, self._names)
        if made is not None:
            yield made


def _rank(call: tuple[str, _Call]) -> int:
    """Say where an output stands among those of its reply: functions, unknown ones, handoffs that lost, the one."""
    output = call[1].output
    if output is None:
        return 0
    if output.HasField("handoff_output"):
        return 3 if output.handoff_output.to_agent else 2
    return 1 if output.function_call_output.settlement == item_pb2.SETTLEMENT_NOT_FOUND else 0


def key_of(item: RunItem) -> str:
    """Name an item within its run: by Baton's id; an approval by that of its call."""
    return item.required_action.call_id if isinstance(item, ToolApprovalItem) else item.item_id


def arranged(items: Iterable[RunItem], shown: Sequence[str], asked: Mapping[str, ToolApprovalItem]) -> list[RunItem]:
    """Put what was shown before a pause first, in the order of then; the others follow in theirs.

    `shown`: keys of the one; `asked`: approvals among them, which no log has.
    """
    found: dict[str, RunItem] = {**asked, **{key_of(item): item for item in items}}
    first = [found[key] for key in shown if key in found]
    known = set(shown)
    return first + [item for key, item in found.items() if key not in known and key not in asked]


def model_responses(replies: Iterable[Reply], rounds: Sequence[runner_pb2.RoundUsage]) -> list[ModelResponse]:
    """Put replies and what each took together, both in order. A message that no model wrote has no round, and is none.

    A round whose reply held nothing, such as an empty final output, has no items.
    """
    made = []
    for told, reply in zip_longest(rounds, replies):
        if told is None:
            break
        made.append(
            ModelResponse(
                output=[item.raw_item for item in reply.items] if reply is not None else [],
                usage=usage_from_pb(told.usage),
                response_id=told.response_id or None,
            )
        )
    return made
