"""Each call of a reply, until it has given something: approval, its turn, guardrails, one stage after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from baton_server.core import texts
from baton_server.core.agents import Moment
from baton_server.core.commands import CheckEffect, ServeCall
from baton_server.core.course import asking, call_facts, ending, nested, results
from baton_server.core.course.here import Here, Next
from baton_server.core.course.results import Called, given_as_it_is, worded
from baton_server.core.course.tool_guardrails import judge, struck
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import (
    ApprovalDecided,
    ApprovalRequested,
    Binding,
    Decision,
    HookKind,
    Stage,
)
from baton_server.core.hooks.answers import (
    read_flag,
)
from baton_server.core.inputs import CallSettled, DecisionMade
from baton_server.core.items import Settlement, TextPart
from baton_server.core.jsontext import dump
from baton_server.core.recorder import Recorder
from baton_server.core.run import CallRecord, Doubt
from baton_server.core.run_config import ToolExecution
from baton_server.core.tools import AgentTool, FailureText, FunctionTool


def next_of(here: Here, call: CallRecord) -> Next:
    """Say what a call without output needs next; an empty tuple: the outside, or another call."""
    tool = here.state.tool(call)
    if tool is None:
        return _unknown(here, call)
    if call.returned is not None:
        return results.told(here, call, tool, call.returned)
    if isinstance(tool, FunctionTool) and (here.state.pinned.hands_out_at_once or _is_plain(here, tool)):
        return _served(here, call)
    for stage in _STAGES:
        said = stage(here, call, tool)
        if said is not None:
            return said
    return _served(here, call) if isinstance(tool, FunctionTool) else nested.run(here, call, tool)


def hangs_on_others(here: Here, call: CallRecord) -> bool:
    """Tell whether what a call needs may change with what becomes of other calls."""
    return bool(call.call.idempotency_key) or _execution(here).max_concurrency is not None


def _is_plain(here: Here, tool: FunctionTool) -> bool:
    limited = _execution(here).max_concurrency is not None
    return not (tool.approval.asks or tool.input_guardrails or limited or here.state.pinned.awaits_listeners)


# -- before it is called ---------------------------------------------------------------------------


def _unknown(here: Here, call: CallRecord) -> Next:
    words = texts.TOOL_NOT_FOUND.format(name=call.call.name)
    given = CallSettled(call_id=call.call.call_id, settlement=Settlement.NOT_FOUND, output=(TextPart(text=words),))
    return worded(here, call, "tool_not_found", given, FailureText(), given_as_it_is)


def _approved(here: Here, call: CallRecord, tool: Called) -> Next:
    """See to it that a person allows a call, where one must."""
    if call.decision is not None:
        return None if call.decision.approve else _rejected(here, call, call.decision)
    if call.awaiting is None and not tool.approval.always and tool.approval.hook is None:
        return None
    sticky = here.state.sticky.get((call.agent, call.at))
    if sticky is not None:
        return partial(_decided_before, call=call, sticky=sticky)
    if call.awaiting is not None:
        return ()
    if not tool.approval.always:
        needed = _needs_approval(here, call, tool)
        if needed is not None:
            return needed or None
    if _execution(here).guardrails_before_approval and isinstance(tool, FunctionTool):
        said = _judged(here, call, tool, "p")
        if said is not None:
            return said
    if here.state.cancel is not None:  # no person is asked any more
        return partial(ending.close, call_ids=(call.call.call_id,))
    return partial(_request_approval, call=call, tool=tool, here=here)


def _needs_approval(here: Here, call: CallRecord, tool: Called) -> Next:
    """Ask whether a person must allow a call. None: one must; an empty tuple: none need."""
    assert tool.approval.hook is not None
    hook_id = asking.call_hook_id(here, "n", call.call.call_id)
    answer = asking.answered(here, hook_id)
    if answer is None:
        settle = asking.verbatim(partial(read_flag, "needs_approval"))
        return (asking.question(here, hook_id, HookKind.NEEDS_APPROVAL, tool.approval.hook, _facts(call), settle),)
    needed = answer.failure is not None or read_flag("needs_approval", answer.answer_json)
    return None if needed else ()


def _decided_before(record: Recorder, call: CallRecord, sticky: Decision) -> None:
    decision = replace(sticky, call_id=call.call.call_id, always=False, always_in_session=False)
    record(ApprovalDecided(decision=decision), record.state.runs[call.run_path])


def decide(record: Recorder, made: Sequence[DecisionMade]) -> None:
    """Take what was decided at one moment, in the order of the calls: their outputs stand so (`places`).

    A decision that lasts holds for what waits besides, but where there is another about the very call. The first one
    about a call holds, and only as long as it waits for one.
    """
    state = record.state
    waiting = [call for run in state.runs.values() for call in map(state.calls.__getitem__, run.unsettled)]
    waiting = [call for call in waiting if call.awaiting is not None and call.decision is None and not call.returned]
    waiting.sort(key=lambda one: one.path)
    own = {one.decision.call_id: one for one in reversed(made)}
    deciders = [(call, own[call.call.call_id].decision) for call in waiting if call.call.call_id in own]
    lasting = {(call.agent, call.at): decision for call, decision in deciders if decision.lasts}
    found = [(call, own.get(call.call.call_id), lasting.get((call.agent, call.at))) for call in waiting]
    for call, given, sticky in sorted(found, key=_in_order):
        if given is not None:
            failure = _in_vain(call) if given.expired else None
            record(ApprovalDecided(decision=given.decision, failure=failure), state.runs[call.run_path])
        elif sticky is not None:
            _decided_before(record, call, sticky)


def _in_order(found: tuple[CallRecord, DecisionMade | None, Decision | None]) -> tuple[object, ...]:
    """Order what was decided as the calls are; within nested runs rejections come last, since they make these go on."""
    call, given, sticky = found
    decision = sticky if given is None else given.decision
    return (call.path[:1], decision is not None and not decision.approve, call.path)


def _in_vain(call: CallRecord) -> Failure:
    return Failure(
        reason=Reason.APPROVAL_EXPIRED,
        message="Nobody decided about the call in time.",
        metadata={"call_id": call.call.call_id},
    )


def _request_approval(record: Recorder, call: CallRecord, tool: Called, here: Here) -> None:
    definition = record.rules.definition_digest(tool)
    if isinstance(tool, AgentTool):  # what it does is said by the agents behind it
        definition = record.rules.digest(dump([definition, here.state.agent_digest]))
    binding = Binding(arguments_digest=record.rules.digest(call.call.arguments), definition_digest=definition)
    asked = ApprovalRequested(call_id=call.call.call_id, binding=binding, expires_s=tool.approval.expires_s)
    record(asked, here.run)


def _rejected(here: Here, call: CallRecord, decision: Decision) -> Next:
    failure = None
    if call.expired:
        failure = Failure(
            reason=Reason.APPROVAL_EXPIRED,
            message="Nobody decided about the call in time, so it is rejected.",
            metadata={"call_id": call.call.call_id},
        )
    words = decision.message or texts.APPROVAL_REJECTED
    given = CallSettled(
        call_id=call.call.call_id, settlement=Settlement.REJECTED, output=(TextPart(text=words),), error=failure
    )
    own = FailureText(text=decision.message)
    return worded(here, call, "approval_rejected", given, own, given_as_it_is)


def _has_its_turn(here: Here, call: CallRecord, _tool: Called) -> Next:
    """Hold a call back while as many others run as may at once, in the order of the calls."""
    most = _execution(here).max_concurrency
    if most is None:
        return None
    before = 0
    for other_id in _queue(here):
        if other_id == call.call.call_id:
            return None
        other = here.state.calls[other_id]
        before += other.returned is None and not _waits_for_people(here, other)
        if before >= most:
            return ()
    return None


def _waits_for_people(here: Here, call: CallRecord) -> bool:
    """Tell whether a call, or all that goes on in the run that it encloses, waits for decisions."""
    if call.awaiting is not None and call.decision is None:
        return True
    inner = here.state.runs.get(call.path)
    calls = [here.state.calls[call_id] for call_id in inner.unsettled] if inner is not None else []
    return bool(calls) and all(_waits_for_people(here, one) for one in calls)


def _queue(here: Here) -> Iterator[str]:
    """List the calls in the order in which they run: those that somebody had to allow stand behind the others."""
    approved = dict.fromkeys(call_id for call_id in here.run.approved if call_id in here.run.unsettled)
    yield from (call_id for call_id in here.run.unsettled if call_id not in approved)
    yield from approved


def _guarded(here: Here, call: CallRecord, tool: Called) -> Next:
    return _judged(here, call, tool, "q") if isinstance(tool, FunctionTool) else None


def _judged(here: Here, call: CallRecord, tool: FunctionTool, letter: str) -> Next:
    """Have the guardrails of a function judge its arguments, in order."""
    for index, guardrail in enumerate(tool.input_guardrails):
        hook_id = asking.call_hook_id(here, letter, call.call.call_id, index)
        facts = asking.fixed(**call_facts.of(call))
        judged = judge(here, guardrail, HookKind.TOOL_INPUT_GUARDRAIL, hook_id, facts, call.call.arguments)
        if isinstance(judged, tuple):
            return judged
        said = struck(here, call, guardrail, Stage.TOOL_INPUT, judged)
        if said is not None:
            return said
    return None


def _starts(here: Here, call: CallRecord, _tool: Called) -> Next:
    facts = partial(asking.moment_facts, here, Moment.FUNCTION_START, **call_facts.of(call))
    name = partial(call_facts.moment_id, here, call)
    return asking.awaited(here, Moment.FUNCTION_START, name, facts) or None


_STAGES: tuple[Callable[[Here, CallRecord, Called], Next], ...] = (_approved, _has_its_turn, _guarded, _starts)


def _served(here: Here, call: CallRecord) -> Next:
    """Have a function called; nothing where another one's result, or somebody outside, is waited for."""
    call_id = call.call.call_id
    if call.doubt is Doubt.CHECKED:
        return (CheckEffect(call_id=call_id, attempt=call.lost_attempt, hook_id=here.state.check_of(call)),)
    if call.doubt is Doubt.UNKNOWN or here.state.joined_to(call_id):
        return ()
    return (ServeCall(call_id=call_id),)


def _facts(call: CallRecord) -> Callable[[Sequence[str]], str]:
    return asking.fixed(**call_facts.of(call))


def _execution(here: Here) -> ToolExecution:
    return here.config.tool_execution or ToolExecution()
