"""The rounds of a run: what comes before a request of the model, and what its reply is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from baton_server.core import offers, reply, request
from baton_server.core.agents import Handoff, Moment
from baton_server.core.commands import CallModel
from baton_server.core.course import asking, ending, finishing, opening
from baton_server.core.course.here import Here, Next
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind
from baton_server.core.hooks import names
from baton_server.core.hooks.answers import read_flag, read_text
from baton_server.core.hooks.packing import pack_input
from baton_server.core.hooks.question import Payload, Question
from baton_server.core.inputs import CallSettled, ModelReplied, NewItem
from baton_server.core.items import FunctionCall, HandoffCall, Settlement
from baton_server.core.jsontext import dump
from baton_server.core.recorder import Recorder
from baton_server.core.run import Run
from baton_server.core.run_config import KEPT_BY_MODEL, ToolNameCollision, ToolNotFound
from baton_server.core.state import TurnState
from baton_server.core.tools import FunctionTool, HookRef


def asking_model(here: Here) -> Next:
    """Go on to the next request of the model, by way of all that comes before it; a limit or a cancel forbids it."""
    run = here.run
    keeping = opening.stored(here)
    if keeping:
        return keeping
    if here.state.cancel is not None and (run.last_round is None or run.round > run.last_round):
        return ending.cancel if not run.path else partial(_close, run=run)
    if run.limit is not None and run.rounds >= run.limit:
        return finishing.in_place_of(here, "max_turns", _max_turns(run), _fails(here, _max_turns(run)))
    wrong = _misconfigured(here) if run.rounds == 0 or run.handed else None
    if wrong is not None:
        return _fails(here, wrong)
    guards = opening.guarded(here)
    if not isinstance(guards, opening.Guards):
        return guards
    beside = guards.asked
    if guards.model_waits:
        return beside
    for stage in (_agent_starts, _prepared, _filtered, _model_starts):
        asked = stage(here)
        if asked:
            return (*beside, *asked)
    return (*beside, CallModel(round=run.round, run_path=run.path))


def replied(record: Recorder, run: Run, given: ModelReplied) -> None:
    """Take a model's reply: its items are recorded, and what no handler must see is answered in its place."""
    state = record.state
    here = Here(state, run, record.rules)
    repeated = reply.repeats(record.rules, run, given.items)
    told = here.config.tool_not_found is ToolNotFound.TELL_MODEL
    failure = reply.misbehaviour(here.agent, run, state.turn_id, given, repeated, unknown_allowed=told)
    items = given.items if failure else [_named(here, item) for item in given.items]
    record.reply(given, items, run, range(len(items)) if failure else repeated)
    if failure is not None:
        ending.fail(record, run, failure)
        return
    _refuse_arguments(record, run)


def _close(record: Recorder, run: Run) -> None:
    ending.close(record, (run.path[-1],))


def _max_turns(run: Run) -> Failure:
    return Failure(
        reason=Reason.MAX_TURNS_EXCEEDED,
        message=f"The {'nested run' if run.path else 'turn'} reached its limit of {run.limit} rounds without a final "
        f"output. Raise {'max_turns of the tool' if run.path else 'run_config.max_turns, or set unlimited_turns'}.",
        metadata={"max_turns": str(run.limit)},
    )


def _fails(here: Here, failure: Failure) -> Next:
    return lambda record: ending.fail(record, here.run, failure)


def _misconfigured(here: Here) -> Failure | None:
    """Find what makes an agent's request impossible, before the model is asked."""
    if here.config.tool_name_collision is ToolNameCollision.FAIL_TURN:
        name = offers.collision(here.agent)
        if name:
            return Failure(
                reason=Reason.USER_ERROR,
                message=f"The agent {here.agent.name!r} has two tools of the name {name!r}. Rename one of them, or set "
                "tool_name_collision to LAST_WINS.",
                metadata={"agent": here.agent.name, "tool": name},
            )
    return cannot_take_back(here)


def cannot_take_back(here: Here) -> Failure | None:
    """Find that an agent's output may have to be taken back from what the model's API keeps, which nobody can."""
    guarded = here.state.pinned.output_guardrails(here.agent)
    if guarded and here.config.mode in KEPT_BY_MODEL and not here.run.path:
        return Failure(
            reason=Reason.USER_ERROR,
            message=f"The agent {here.agent.name!r} has output guardrails, which cannot take back what the model's API "
            "keeps. Use the session's history, or no output guardrails.",
            metadata={"field": "run_config.history"},
        )
    return None


# -- before a request ------------------------------------------------------------------------------


def _agent_starts(here: Here) -> tuple[Question, ...]:
    run, turn_id = here.run, here.state.turn_id

    def name(letter: str, index: int) -> str:
        return names.round_id(turn_id, run.mark, letter, run.starts, index)

    return asking.awaited(here, Moment.AGENT_START, name, partial(asking.moment_facts, here, Moment.AGENT_START))


def _prepared(here: Here) -> tuple[Question, ...]:
    """Ask what the agent is told and what it has, in this round."""
    return (*_instructions(here), *_enabled(here))


def _instructions(here: Here) -> tuple[Question, ...]:
    ref = here.agent.instructions_hook
    if ref is None:
        return ()
    hook_id = asking.round_id(here, "i")
    if asking.answered(here, hook_id) is not None:
        return ()
    settle = asking.verbatim(partial(read_text, "instructions"))
    return (asking.question(here, hook_id, HookKind.INSTRUCTIONS, ref, asking.fixed(), settle),)


def _enabled(here: Here) -> tuple[Question, ...]:
    asked = []
    for at, one in enumerate(offers.everything_of(here.agent)):
        said = offers.enabled(one)
        if said is None or said.hook is None:
            continue
        hook_id = offers.enabled_id(here.state.turn_id, here.run, at)
        if asking.answered(here, hook_id) is not None:
            continue
        facts = {"tool": getattr(one, "name", "")}
        kind = HookKind.TOOL_ENABLED
        if isinstance(one, Handoff):
            facts["to_agent"], kind = one.agent, HookKind.HANDOFF_ENABLED
        settle = asking.verbatim(partial(read_flag, "enabled"))
        asked.append(asking.question(here, hook_id, kind, said.hook, asking.fixed(**facts), settle))
    return tuple(asked)


def _filtered(here: Here) -> tuple[Question, ...]:
    """Ask the next filter what the request is to carry."""
    state, run = here.state, here.run
    index = request.unanswered_filter(state, run)
    if index is None:
        return ()
    ref = here.config.model_input_filters[index]
    assert isinstance(ref, HookRef)

    def payload(history: Sequence[str]) -> str:
        given = request.carried(state, run, history, filters_before=index)
        return f'{{"instructions":{dump(given.instructions)},"input":{request.as_list(given.items)}}}'

    def settle(history: Sequence[str], answer_json: str) -> str:
        return pack_input(request.carried(state, run, history, filters_before=index).items, answer_json)

    hook_id = request.filter_id(state, run, index)
    kind = HookKind.MODEL_INPUT_FILTER
    return (asking.question(here, hook_id, kind, ref, payload, settle, needs_history=here.reads_history),)


def _model_starts(here: Here) -> tuple[Question, ...]:
    state, run = here.state, here.run

    def facts() -> Payload:
        def payload(history: Sequence[str]) -> str:
            given = request.carried(state, run, history)
            said = dump({"moment": "model_start", "agent": run.agent, "round": run.round})
            return f'{said[:-1]},"instructions":{dump(given.instructions)},"input":{request.as_list(given.items)}}}'

        return payload

    def name(letter: str, index: int) -> str:
        return names.round_id(state.turn_id, run.mark, letter, run.round, index)

    return asking.awaited(here, Moment.MODEL_START, name, facts, history=here.reads_history)


def told_of_request(state: TurnState, run: Run) -> bool:
    """Tell whether a program that is waited for was told already what the next request carries."""
    if not state.pinned.awaits_listeners:
        return False
    letter = asking.MOMENT_LETTERS[Moment.MODEL_START]
    hooks = state.pinned.lifecycle_hooks(state.agent(run), Moment.MODEL_START, nested=bool(run.path))
    named = (names.round_id(state.turn_id, run.mark, letter, run.round, at) for at in range(len(hooks)))
    return any(run.answer(hook_id) is not None for hook_id in named)


# -- a reply ---------------------------------------------------------------------------------------


def _named(here: Here, item: NewItem) -> NewItem:
    """Tell handoffs from calls, and give a call the key that its function declares."""
    call = item.body
    if not isinstance(call, FunctionCall):
        return item
    meant = offers.find(here.state.turn_id, here.run, here.agent, call.name)
    if isinstance(meant, Handoff):
        body = HandoffCall(
            call_id="",
            name=call.name,
            to_agent=meant.agent,
            arguments=call.arguments,
            model_call_id=call.model_call_id,
        )
        return replace(item, body=body)
    if isinstance(meant, FunctionTool) and meant.execution.idempotency_fields:
        fields = meant.execution.idempotency_fields
        key = here.rules.idempotency_key(here.state.session_id, meant.name, fields, call.arguments)
        return replace(item, body=replace(call, idempotency_key=key))
    return item


def _refuse_arguments(record: Recorder, run: Run) -> None:
    """Answer the calls that no handler must see in its place; the others are served all the same.

    But where a function is to end the run when it fails, so does this: before anything of the reply has run.
    """
    ends: Failure | None = None
    for call_id in tuple(run.unsettled):
        call = record.state.calls[call_id]
        tool = record.state.tool(call)
        if tool is None:
            continue
        words = reply.bad_arguments(record.rules, call.call, tool)
        if words is not None:
            record.output(CallSettled(call_id=call_id, settlement=Settlement.ARGUMENTS_INVALID, output=(words,)))
        if words is not None and tool.on_crash.fail_turn:
            ends = ends or reply.ended_by_arguments(call.call, words)
    if ends is not None:
        ending.fail(record, run, ends, culprit=ends.metadata["call_id"])
