"""What became of answers to hooks, for who gave them without a stream and is told.

An answer is taken at once and counts when the event that records it is on disk, before anybody uses it. What was taken
and is not recorded, for its turn has ended or does not need it any more, did not count.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from baton_server.app.calls.frames import Ack, HookReply, ResultVerdict
from baton_server.app.recent import Recent
from baton_server.core.errors import Failure, Reason

REMEMBERED = 4096
"""Answers of a short while ago: the same one again is answered as at first."""


@dataclass(slots=True)
class _Given:
    """An answer that was taken. `said` tells it from any other; `counted` is told in the end; `fed`: it will be."""

    said: int
    counted: asyncio.Future[bool]
    fed: bool = False


class Answered:
    """Remembers answers from when they are taken."""

    def __init__(self) -> None:
        self._open: dict[str, _Given] = {}
        self._over: Recent[str, _Given] = Recent(REMEMBERED)

    # -- for who asks ----------------------------------------------------------------------------

    def taken(self, reply: HookReply) -> None:
        """Note the answer that a question ends with."""
        self._open[reply.hook_id] = _Given(hash(reply), asyncio.get_running_loop().create_future())

    def recorded(self, hook_id: str, counted: asyncio.Future[bool]) -> None:
        """Note that an answer was brought to its turn; `counted` tells what came of that once it is on disk."""
        given = self._open.get(hook_id)
        if given is not None:
            given.fed = True
            counted.add_done_callback(lambda done: self._end(hook_id, not done.cancelled() and done.result()))

    def dropped(self, hook_id: str) -> None:
        """Note that nobody needs an answer any more; one that is on its way to the disk goes on."""
        given = self._open.get(hook_id)
        if given is not None and not given.fed:
            self._end(hook_id, False)

    # -- for who answers -------------------------------------------------------------------------

    async def ack(self, reply: HookReply, current_attempt: int) -> Ack:
        """Say what became of an answer, once that is on disk. `current_attempt`: of a question that is open, else 0."""
        given = self._open.get(reply.hook_id) or self._over.get(reply.hook_id)
        if given is None:
            return _ack(reply, _stale(reply, current_attempt) if current_attempt else _not_found(reply))
        counted = await asyncio.shield(given.counted) and given.said == hash(reply)
        return _ack(reply, None if counted else _settled(reply))

    def _end(self, hook_id: str, counted: bool) -> None:
        given = self._open.pop(hook_id, None)
        if given is not None:
            given.counted.set_result(counted)
            self._over.put(hook_id, given)


def _ack(reply: HookReply, failure: Failure | None) -> Ack:
    verdict = ResultVerdict.DURABLE if failure is None else ResultVerdict.DISCARDED
    return Ack(call_id=reply.hook_id, attempt=reply.attempt, verdict=verdict, failure=failure)


def _settled(reply: HookReply) -> Failure:
    return Failure(
        reason=Reason.CALL_SETTLED,
        message=f"The hook {reply.hook_id} has another answer, or its turn does not need one any more.",
        metadata={"call_id": reply.hook_id, "settled_by": "outside"},
    )


def _stale(reply: HookReply, current_attempt: int) -> Failure:
    return Failure(
        reason=Reason.ATTEMPT_STALE,
        message=f"Attempt {reply.attempt} of the hook {reply.hook_id} was not asked of the sender. Answer what its own "
        "stream brings, with the worker_id of its Welcome.",
        metadata={"attempt": str(reply.attempt), "current_attempt": str(current_attempt)},
    )


def _not_found(reply: HookReply) -> Failure:
    return Failure(
        reason=Reason.CALL_NOT_FOUND,
        message=f"No hook {reply.hook_id!r} is asked, or was a short while ago.",
        metadata={"call_id": reply.hook_id},
    )
