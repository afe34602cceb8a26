"""The state of a turn, folded from its events. Rule: state changes in `TurnState.apply` and nowhere else.

Theory of operation. A turn has a run of its own, and one more for each call of an agent tool that goes on. What each of
them waits for is nowhere written down: `course` tells it from the facts here, before and after a crash alike.
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

from baton_server.core import filters, ids, offers, places
from baton_server.core.events import (
    GUARDRAILS,
    AfterLoss,
    AgentChanged,
    ApprovalDecided,
    ApprovalRequested,
    AttemptLost,
    CallReturned,
    CancelRequested,
    Decision,
    EffectDecided,
    EffectUnknown,
    Event,
    GuardrailTripped,
    HookKind,
    HookSettled,
    ItemAdded,
    ItemDone,
    ItemsWithdrawn,
    NestedRunClosed,
    NestedRunCreated,
    OpenCall,
    RoundCompleted,
    SessionInProgress,
    SessionRequiresAction,
    TurnEnded,
    TurnInProgress,
    TurnSnapshot,
    TurnStatus,
    Withdrawal,
)
from baton_server.core.facts import Judged, RoundUsage, TurnFacts
from baton_server.core.hooks import names, packing
from baton_server.core.items import (
    FunctionCall,
    FunctionCallOutput,
    HandoffCall,
    HandoffOutput,
    Item,
    ItemStatus,
    Message,
    Role,
)
from baton_server.core.owing import Owing
from baton_server.core.run import PER_ROUND, Batch, CallRecord, Doubt, Rewrite, Run, Transfer
from baton_server.core.run_config import KEPT_BY_MODEL, Pinned
from baton_server.core.tools import AgentTool, FunctionTool


@dataclass(slots=True)
class TurnState(TurnFacts):
    """A turn as its events left it. Made by `TurnState.of`; changed only by `apply`.

    `owing`: what was told from it last.
    """

    owing: Owing = field(default_factory=Owing, repr=False, compare=False)

    @classmethod
    def of(cls, turn: TurnSnapshot, pinned: Pinned) -> TurnState:
        """Begin the state of a turn, as accepted, before any event of it."""
        own = Run(path=(), agent=pinned.start.name, limit=pinned.config.round_limit)
        return cls(
            turn_id=turn.turn_id,
            session_id=turn.session_id,
            pinned=pinned,
            agent_digest=turn.agent_digest,
            run_config_digest=turn.run_config_digest,
            request_id=turn.request_id,
            continues=turn.continues,
            runs={(): own},
        )

    @classmethod
    def rebuilt(cls, turn: TurnSnapshot, pinned: Pinned, events: Iterable[Event]) -> TurnState:
        """Fold a turn's events, from its first one on."""
        state = cls.of(turn, pinned)
        for event in events:
            state.apply(event)
        return state

    # -- what changes it -------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Take one event into the state. Events that say nothing about it are passed over."""
        run = self.runs.get(event.run_path)
        if run is None:
            return  # of a run whose call is settled
        self.owing.forget(event.body)
        match event.body:
            case TurnInProgress() | SessionInProgress():
                self.status = TurnStatus.IN_PROGRESS
            case SessionRequiresAction():
                self.status = TurnStatus.WAITING
                self._pause()
            case TurnEnded(turn=turn):
                self.status = turn.status
                self.output, self.failure = turn.output, turn.failure
                # Of an output that was omitted the event does not say whether it is JSON; its agent does.
                structured = turn.structured or self.pinned.by_name[turn.last_agent].is_structured
                self.structured = turn.output is not None and structured
                self.open_calls.clear()
            case ItemAdded(item=item) | ItemDone(item=item):
                self._record(run, item)
            case ItemsWithdrawn(item_ids=item_ids, reason=reason):
                numbers = frozenset(map(ids.number_of, item_ids))
                run.left_out |= numbers
                run.merged += self._moved(run, numbers) if reason is Withdrawal.MERGED else 0
                if reason is Withdrawal.FILTERED:
                    run.unsaid.update(map(ids.number_of, item_ids))
            case RoundCompleted() as done:
                self._complete_round(run, done)
            case AgentChanged(agent=agent):
                self._change_agent(run, agent)
            case NestedRunCreated(call_id=call_id, agent=agent):
                self._nest(self.calls[call_id], agent)
            case NestedRunClosed(call_id=call_id):
                self.runs[self.calls[call_id].path].closed = True
            case CancelRequested(mode=mode):
                self.cancel = mode
                for going in self.runs.values():
                    going.last_round = going.rounds + (not self._in_round(going))
            case HookSettled() as settled:
                self._settle_hook(run, settled)
            case GuardrailTripped() as tripped:
                self._judge(run, tripped)
            case body:
                self._apply_to_call(body)

    def _in_round(self, run: Run) -> bool:
        """Tell whether something of the last reply is still to be done, before there can be another request."""
        if run.unsettled or (run.transfers and not run.handed):
            return True
        used = names.round_id(self.turn_id, run.mark, "u", run.rounds, 0)
        return bool(run.calls) and self.agent(run).tool_use.hook is not None and run.answer(used) is None

    def _apply_to_call(self, body: object) -> None:
        match body:
            case AttemptLost() as lost:
                self._lose(lost)
            case EffectUnknown(call_id=call_id):
                self._doubt(call_id, Doubt.UNKNOWN)
            case EffectDecided(call_id=call_id):
                self._doubt(call_id, None)
            case CallReturned(call_id=call_id) as returned:
                self.calls[call_id].returned = returned
                self.open_calls.pop(call_id, None)
            case ApprovalRequested(call_id=call_id, binding=binding):
                self.calls[call_id].awaiting = binding
                if call_id in self.open_calls:
                    self.open_calls[call_id] = replace(self.open_calls[call_id], awaiting=binding)
                else:
                    self.open_calls[call_id] = replace(self._open_call(self.calls[call_id]), awaiting=binding)
            case ApprovalDecided(decision=decision, failure=failure):
                self._decide(decision, expired=failure is not None)
            case _:
                pass

    # -- items -----------------------------------------------------------------------------------

    def _record(self, run: Run, item: Item) -> None:
        number = ids.number_of(item.item_id)
        self.next_number = max(self.next_number, number + 1)
        places.taken(self, number, item.body)
        if item.status in (ItemStatus.REJECTED, ItemStatus.INCOMPLETE) and not item.json:
            run.repeating = run.repeating or isinstance(item.body, FunctionCall | HandoffCall)
            return
        self.items[number] = item
        run.items.append(number)
        if not item.agent:
            self._admit(run, number)
        elif item.output_index is not None:
            run.coming.append(number)
        match item.body:
            case FunctionCall() as call if item.agent:
                self._open(run, call, item.agent)
            case HandoffCall() as call if item.agent:
                run.used_tools.add(item.agent)
                run.asked[call.model_call_id] = (call.name, call.arguments)
                run.transfers = [t for t in run.transfers if not t.settled] + [Transfer(call)]
            case FunctionCallOutput() as output:
                self._take_output(run, output, number)
            case HandoffOutput(call_id=call_id):
                for transfer in run.transfers:
                    if transfer.call.call_id == call_id:
                        transfer.settled, transfer.output_number = True, number
            case Message(role=Role.ASSISTANT) if item.agent and item.output_index is None:
                run.fallback = number
            case _:
                pass

    def _open(self, run: Run, call: FunctionCall, agent: str) -> None:
        run.used_tools.add(agent)
        run.asked[call.model_call_id] = (call.name, call.arguments)
        run.unsettled[call.call_id] = None
        at = offers.position(self.turn_id, run, self.pinned.by_name[agent], call.name)
        record = self.calls[call.call_id] = CallRecord(call=call, agent=agent, run_path=run.path, at=at)
        if isinstance(self.tool(record), FunctionTool):
            self.open_calls[call.call_id] = self._open_call(record)

    def _open_call(self, record: CallRecord) -> OpenCall:
        return OpenCall(
            call_id=record.call.call_id,
            name=record.call.name,
            agent=record.agent,
            arguments=record.call.arguments,
            key=record.key,
            run_path=record.run_path,
        )

    def _take_output(self, run: Run, output: FunctionCallOutput, number: int) -> None:
        call = self.calls.get(output.call_id)
        if call is None or output.settlement is None:
            return
        if call.output is None:  # else it stands in the place of one that was held back
            call.output_number = number
        call.output = output
        run.unsettled.pop(output.call_id, None)
        self.open_calls.pop(output.call_id, None)
        if run.transfers and not run.placed:  # a handoff's filter is told what is new since the last pause
            run.paused = run.paused or any(places.waiting_within(self, run.path))
        for path in [path for path in self.runs if path[: len(call.path)] == call.path]:
            for number in self.runs.pop(path).items:
                del self.items[number]

    def _admit(self, run: Run, number: int) -> None:
        """Take an item of the input into the batch of its moment."""
        batch = run.batch
        if batch is None or batch.rounds != run.rounds or not self._untouched(run, batch):
            batch = Batch(number, number, run.rounds)
        run.batch = Batch(batch.first, number, run.rounds)

    def _untouched(self, run: Run, batch: Batch) -> bool:
        count = len(self.pinned.input_guardrails(self.agent(run)))
        return not any(names.guardrail_id(self.turn_id, batch.first, index) in run.hooks for index in range(count))

    # -- rounds and runs -------------------------------------------------------------------------

    def _complete_round(self, run: Run, body: RoundCompleted) -> None:
        if self.pinned.config.mode in KEPT_BY_MODEL:
            run.sent.update(self._carried(run), run.coming)
        run.rounds += 1
        run.usage += body.usage
        run.last_usage, run.last_model = body.usage, body.model
        self.usage += body.usage
        run.last_response_id = body.response_id or run.last_response_id
        if not run.path:
            self.round_usage.append(RoundUsage(run.rounds, body.model, body.response_id, body.usage))
        for key in [key for key, hook in run.hooks.items() if hook.kind in PER_ROUND]:
            del run.hooks[key]
        run.reply, run.coming = run.coming, []
        run.repeated, run.repeating = run.repeating, False
        run.new_from, run.paused = run.reply[0] if run.reply else self.next_number, False
        run.fallback, run.handed = -1, False
        # What is unsettled now was opened by this reply: every call of a round is settled before the next one.
        run.calls, run.approved = list(run.unsettled), []
        places.keep(self, run)

    def _carried(self, run: Run) -> list[int]:
        """List what the request carried of what the model's API did not keep yet: what a filter left out is none."""
        numbers = [number for number in self.unsent(run) if number not in run.coming]
        texts = [self.items[number].json for number in numbers]
        chosen = self.pinned.config.model_input_filters
        answers = [run.answer(names.round_id(self.turn_id, run.mark, "f", run.round, i)) for i in range(len(chosen))]
        said = [None if answer is None else answer.answer_json for answer in answers]
        return [numbers[i] for i in filters.kept_positions(chosen, said, texts)]

    def _change_agent(self, run: Run, agent: str) -> None:
        giving = run.agent
        if run.starts == 0:  # what is there already was carried over from another turn: judged and kept before
            run.batch, run.stored = None, self.next_number
            if not self.continues:  # a run may begin with what its history holds alone, which is judged all the same
                run.batch = Batch(self.next_number, self.next_number - 1, run.rounds)
        run.agent, run.starts, run.handed = agent, run.starts + 1, bool(run.transfers)
        handoff = self.handoff(giving, run.transfers[0].call.name) if run.transfers else None
        if handoff is not None and self.pinned.reworks(handoff, nested=bool(run.path)):
            run.rewrites.append(Rewrite(self.next_number, run.new_from, run.rounds, giving, handoff.name))

    def _nest(self, call: CallRecord, agent: str) -> None:
        tool = self.tool(call)
        limit = tool.round_limit if isinstance(tool, AgentTool) else None
        self.runs[call.path] = Run(path=call.path, agent=agent, limit=limit)

    # -- calls and hooks -------------------------------------------------------------------------

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

    def _decide(self, decision: Decision, *, expired: bool) -> None:
        call = self.calls[decision.call_id]
        call.decision, call.expired = decision, expired
        if call.awaiting is not None:  # what was decided before it was asked about has not held anything up
            if decision.approve and call.run_path in self.runs:
                self.runs[call.run_path].approved.append(decision.call_id)
            for moved in (*call.run_path, decision.call_id):  # and the calls that enclose it
                self._resume(self.runs[self.calls[moved].run_path])
            places.decided(self, call)
        if decision.lasts:
            self.sticky[call.agent, call.at] = decision
        if isinstance(self.tool(call), FunctionTool) and decision.call_id in self.open_calls:
            self.open_calls[decision.call_id] = replace(self.open_calls[decision.call_id], awaiting=None)
        else:
            self.open_calls.pop(decision.call_id, None)

    def _pause(self) -> None:
        """Take note of the runs in which something waits for a decision, and of those that enclose them."""
        waiting = {one.run_path for one in self.open_calls.values() if one.awaiting is not None}
        for path, run in self.runs.items():
            run.paused = run.paused or any(one[: len(path)] == path for one in waiting)

    def _resume(self, run: Run) -> None:
        if run.paused:
            run.new_from, run.paused = self.next_number, False

    def _settle_hook(self, run: Run, body: HookSettled) -> None:
        if body.kind is HookKind.SESSION_STORE:
            run.stored = max(run.stored, names.stored_up_to(body.hook_id))
        if body.kind is HookKind.SESSION_INPUT and body.answer_json:
            run.merged = self.next_number + packing.read_merge(body.answer_json).brought
        if body.kind in GUARDRAILS:
            self._judge(run, body)
        if body.kind is not HookKind.EFFECT_CHECK:
            run.hooks[body.hook_id] = body
            return
        for call_id, call in self.calls.items():
            if call.doubt is Doubt.CHECKED and self.check_of(call) == body.hook_id:
                self._doubt(call_id, None)  # what follows from the answer is an event of its own

    def _moved(self, run: Run, left_out: frozenset[int]) -> int:
        """Count what a merge moved: it leaves the history, and is recorded anew. In older logs it stays as it is."""
        merges = [hook for hook in run.hooks.values() if hook.kind is HookKind.SESSION_INPUT and hook.answer_json]
        came = [number for number in sorted(run.items) if not self.items[number].agent]
        return sum(came[at] in left_out for hook in merges for at in packing.read_merge(hook.answer_json).moved)

    def _judge(self, run: Run, said: HookSettled | GuardrailTripped) -> None:
        if not run.path:
            self.judged.append(Judged(run.agent, said))
