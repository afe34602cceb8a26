"""Questions as the stages ask them: payloads, how answers are kept, and what no answer means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from baton_server.core.agents import Moment
from baton_server.core.course.here import Here
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind, HookSettled
from baton_server.core.hooks import names
from baton_server.core.hooks.answers import read_object
from baton_server.core.hooks.question import Payload, Question, Settle
from baton_server.core.jsontext import dump
from baton_server.core.tools import HookRef


class Consequence(Enum):
    """What follows where a hook gave no answer that can be used."""

    RUN_FAILS = "run fails"
    CALL_FAILS = "call fails"
    DEFAULT = "default"


_LATE = frozenset({Reason.HOOK_UNSERVED, Reason.HOOK_TIMEOUT})
_DEFAULTS = frozenset(
    {
        HookKind.NEEDS_APPROVAL,
        HookKind.TOOL_ERROR,
        HookKind.CUSTOM_DATA,
        HookKind.BLOCKED_OUTPUT,
        HookKind.MODEL_RETRY,
        HookKind.EFFECT_CHECK,
    }
)
_OF_CALLS = frozenset({HookKind.AGENT_INPUT, HookKind.AGENT_OUTPUT})

MOMENT_LETTERS = {moment: f"l{letter}" for moment, letter in zip(Moment, "abcdefg", strict=True)}
"""Letters of the questions that tell of a moment and wait."""


def consequence(kind: HookKind, failure: Failure) -> Consequence:
    """Say what follows where a hook of a kind gave no answer (PROTOCOL.md §6)."""
    if kind in _DEFAULTS or (kind is HookKind.ERROR_HANDLER and failure.reason in _LATE):
        return Consequence.DEFAULT
    return Consequence.CALL_FAILS if kind in _OF_CALLS else Consequence.RUN_FAILS


def verbatim(read: Callable[[str], object]) -> Settle:
    """Keep an answer as it came, once it can be read."""

    def settle(_history: Sequence[str], answer_json: str) -> str:
        read(answer_json)
        return answer_json

    return settle


def fixed(**members: object) -> Payload:
    """Ask with facts that are known already."""
    text = dump(members)
    return lambda _history: text


def question(
    here: Here,
    hook_id: str,
    kind: HookKind,
    ref: HookRef,
    payload: Payload,
    settle: Settle,
    *,
    needs_history: bool = False,
) -> Question:
    """Ask a program, of the run and the round that comes."""
    return Question(
        hook_id=hook_id,
        kind=kind,
        ref=ref,
        agent=here.run.agent,
        round=here.run.round,
        run_path=here.run.path,
        payload=payload,
        settle=settle,
        needs_history=needs_history,
    )


def answered(here: Here, hook_id: str) -> HookSettled | None:
    """Find what became of a question; None: nothing yet."""
    return here.run.answer(hook_id)


def round_id(here: Here, letter: str, index: int = 0) -> str:
    """Name a question about the round that comes."""
    return names.round_id(here.state.turn_id, here.run.mark, letter, here.run.round, index)


def call_hook_id(here: Here, letter: str, call_id: str, index: int = 0) -> str:
    """Name a question about a call."""
    return names.call_id(here.state.turn_id, letter, call_id, index)


def awaited(
    here: Here, moment: Moment, name: Callable[[str, int], str], facts: Callable[[], Payload], *, history: bool = False
) -> tuple[Question, ...]:
    """List those who are still to be told of a moment and are waited for.

    `name`: of a question, by letter and index.
    """
    if not here.state.pinned.awaits_listeners:
        return ()
    hooks = here.state.pinned.lifecycle_hooks(here.agent, moment, nested=bool(here.run.path))
    told = [(name(MOMENT_LETTERS[moment], at), one) for at, one in enumerate(hooks) if one.awaited]
    return tuple(
        question(here, hook_id, HookKind.LIFECYCLE, one.hook, facts(), verbatim(read_object), needs_history=history)
        for hook_id, one in told
        if answered(here, hook_id) is None
    )


def moment_facts(here: Here, moment: Moment, **facts: object) -> Payload:
    """Say what there is to tell of a moment."""
    return fixed(moment=moment.value.lower(), agent=here.run.agent, **facts)
