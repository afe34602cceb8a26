"""Questions for hooks, and how workers by hand answer them."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.room import Hand, Room

from baton_server.app.calls.frames import Ask, CancelReason, Handler, HookReply, Stop
from baton_server.app.calls.hooks import Answer, Asked, Occasion
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind
from baton_server.core.items import Usage

GUARD = HookKind.INPUT_GUARDRAIL
PASSED = '{"tripped":false}'

Futures = list[asyncio.Future[Answer]]


def occasion(**fields: Any) -> Occasion:
    """Say whose moment it is."""
    plain = {"session_id": "sess_1", "turn_id": "turn_1", "agent": "A", "round": 1, "scopes": ("",)}
    return Occasion(**{**plain, "unserved_grace_s": 2.0, "usage": Usage(), **fields})


def asked(name: str, hook_id: str = "", **fields: Any) -> Asked:
    """Make a question; its id is the name's unless it is given."""
    plain = {"kind": GUARD, "payload_json": '{"input":[]}', "timeout_s": 30.0}
    return Asked(**{"hook_id": hook_id or f"hook_{name}", "name": name, **plain, **fields})


def hosts(*names: str, kind: HookKind = GUARD) -> tuple[Handler, ...]:
    """Declare hooks."""
    return tuple(Handler(name=name, kind=kind) for name in names)


def ask(room: Room, *names: str, **fields: Any) -> Futures:
    """Ask some guardrails in one moment."""
    return room.hooks.ask(occasion(**fields), [asked(name) for name in names])


def says(ask_: Ask, number: int = 0, **said: Any) -> HookReply:
    """Answer one question of a batch."""
    question = ask_.questions[number]
    given = said or {"answer_json": PASSED}
    return HookReply(hook_id=question.hook_id, attempt=question.attempt, **given)


def answer(room: Room, worker: Hand, ask_: Ask, number: int = 0, **said: Any) -> bool:
    """Have a worker answer one question; tells whether that counted."""
    (counted,) = room.hooks.replied(worker.id, [says(ask_, number, **said)])
    return counted


def failure(future: asyncio.Future[Answer]) -> Failure:
    """Say why a question has no answer."""
    assert future.done()
    failed = future.result().failure
    assert failed is not None
    return failed


async def failed(room: Room, future: asyncio.Future[Answer], after_s: float = 0) -> Reason:
    """Let time pass until a question has failed; returns why."""
    if after_s:
        await room.pass_time(after_s)
    return failure(future).reason


def stopped(worker: Hand) -> tuple[str, int, CancelReason]:
    """Take a Stop: hook, attempt and reason."""
    stop = worker.expect(Stop)
    return stop.call_id, stop.attempt, stop.reason
