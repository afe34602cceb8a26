"""What the guardrails of a turn's own run said: read out of its state. Pure.

A program's answer is in the log. A list of terms leaves a trace there only where it strikes; that it let something pass
follows from the state: the model was asked, the function has given something, the turn has its answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from baton_server.core import ids
from baton_server.core.agents import Guardrail
from baton_server.core.events import GuardrailTripped, HookKind, HookSettled, Stage, TurnStatus, Verdict
from baton_server.core.facts import Judged
from baton_server.core.hooks.answers import ToolVerdict, read_judged, read_tool_judged
from baton_server.core.items import Settlement
from baton_server.core.run import CallRecord
from baton_server.core.state import TurnState
from baton_server.core.tools import Terms, ToolGuardrail

STAGES = {
    HookKind.INPUT_GUARDRAIL: Stage.INPUT,
    HookKind.OUTPUT_GUARDRAIL: Stage.OUTPUT,
    HookKind.TOOL_INPUT_GUARDRAIL: Stage.TOOL_INPUT,
    HookKind.TOOL_OUTPUT_GUARDRAIL: Stage.TOOL_OUTPUT,
}
"""Where the guardrail of a kind stands."""

RAN = frozenset({Settlement.OUTPUT, Settlement.FAILURE, Settlement.CRASH, Settlement.TIMEOUT})
"""Settlements of calls that somebody executed, so that the guardrails of their arguments let them pass."""

_VERDICTS = {
    ToolVerdict.ALLOW: Verdict.PASSED,
    ToolVerdict.REJECT: Verdict.CONTENT_REJECTED,
    ToolVerdict.TRIP: Verdict.TRIPPED,
}

Guards = Sequence[Guardrail] | Sequence[ToolGuardrail]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one guardrail said: `baton.v1.GuardrailResult`. `call_id` and `info_json` empty: none."""

    name: str
    stage: Stage
    verdict: Verdict
    agent: str
    call_id: str = ""
    info_json: str = ""


def judgements(state: TurnState) -> list[Judgement]:
    """List what guardrails said: of the input, then as they answered, then what terms let pass.

    Programs that gave no answer said nothing.
    """
    said = [one for judged in state.judged for one in _said(state, judged)]
    struck = {(one.stage, one.name, one.call_id) for one in said}
    returned = {one.call_id for one in said if one.stage is Stage.TOOL_OUTPUT}
    passed = [one for one in _passed(state, returned) if (one.stage, one.name, one.call_id) not in struck]
    first = [one for one in passed if one.stage is Stage.INPUT]
    return [*first, *said, *(one for one in passed if one.stage is not Stage.INPUT)]


def _said(state: TurnState, judged: Judged) -> Iterator[Judgement]:
    match judged.said:
        case HookSettled() as hook if hook.answer_json:
            yield from _answered(state, judged.agent, hook)
        case GuardrailTripped() as tripped:
            agent, guards = _guards(state, judged.agent, tripped.stage, tripped.call_id)
            if any(isinstance(one.check, Terms) for one in guards if one.name == tripped.name):
                yield Judgement(
                    name=tripped.name,
                    stage=tripped.stage,
                    verdict=tripped.verdict,
                    agent=agent,
                    call_id=tripped.call_id,
                    info_json=tripped.info_json,
                )
        case _:
            pass


def _answered(state: TurnState, agent: str, hook: HookSettled) -> Iterator[Judgement]:
    """Read a program's answer. The id of its question ends with its place among the guardrails."""
    stage = STAGES[hook.kind]
    call_id = _call_of(state, hook.hook_id) if stage in (Stage.TOOL_INPUT, Stage.TOOL_OUTPUT) else ""
    agent, guards = _guards(state, agent, stage, call_id)
    at = int(hook.hook_id.rpartition(".")[2])
    if at >= len(guards):
        return
    if call_id:
        judged = read_tool_judged(hook.answer_json)
        verdict, info = _VERDICTS[judged.verdict], judged.info_json
    else:
        told = read_judged(hook.answer_json)
        verdict, info = Verdict.TRIPPED if told.tripped else Verdict.PASSED, told.info_json
    yield Judgement(name=guards[at].name, stage=stage, verdict=verdict, agent=agent, call_id=call_id, info_json=info)


def _passed(state: TurnState, returned: Collection[str]) -> Iterator[Judgement]:
    """List what terms let pass, unless they struck. `returned`: calls whose output was judged."""
    start, last = state.pinned.start, state.agent(state.own)
    if state.rounds:
        yield from _of(Stage.INPUT, state.pinned.input_guardrails(start), start.name)
    for call in state.calls.values():
        if call.run_path or call.output is None:
            continue
        ran = call.output.settlement in RAN
        stages = ((Stage.TOOL_INPUT, ran or call.call.call_id in returned), (Stage.TOOL_OUTPUT, ran))
        for stage in (stage for stage, reached in stages if reached):
            agent, guards = _guards(state, call.agent, stage, call.call.call_id)
            yield from _of(stage, guards, agent, call.call.call_id)
    if state.status is TurnStatus.COMPLETED:
        yield from _of(Stage.OUTPUT, state.pinned.output_guardrails(last), last.name)


def _of(
    stage: Stage, guards: Iterable[Guardrail | ToolGuardrail], agent: str, call_id: str = ""
) -> Iterator[Judgement]:
    for one in guards:
        if isinstance(one.check, Terms):
            yield Judgement(name=one.name, stage=stage, verdict=Verdict.PASSED, agent=agent, call_id=call_id)


def _guards(state: TurnState, agent: str, stage: Stage, call_id: str) -> tuple[str, Guards]:
    """Find the guardrails of a stage, and whom they judge."""
    match stage:
        case Stage.INPUT:
            return agent, state.pinned.input_guardrails(state.pinned.by_name[agent])
        case Stage.OUTPUT:
            return agent, state.pinned.output_guardrails(state.pinned.by_name[agent])
        case _:
            call = state.calls.get(call_id)
            function = None if call is None else state.function(call_id)
            if call is None or function is None:
                return agent, ()
            return call.agent, function.input_guardrails if stage is Stage.TOOL_INPUT else function.output_guardrails


def _call_of(state: TurnState, hook_id: str) -> str:
    """Find the call that a question is about: its number stands in the id."""
    number = int(hook_id.rpartition("_")[2].partition(".")[0][1:], 16)
    found = (call.call.call_id for call in state.calls.values() if _number(call) == number)
    return next(found, "")


def _number(call: CallRecord) -> int:
    return ids.number_of(call.call.call_id)
