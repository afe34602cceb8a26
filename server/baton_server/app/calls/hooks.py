"""Hooks: questions of the Runner to programs, on the workers' streams.

A question goes to a worker that serves its kind and name in the turn's scopes, within that worker's window; when its
stream breaks it is asked again elsewhere, until its deadline. Nothing here is durable: what is asked follows from a
turn's state, and what is answered becomes an event before it is used.

A question that is not asked at the moment waits: for a worker to come, or for room in a worker's window. While nobody
serves it, its unserved grace runs. A lost worker serves on within its own grace, and so does, as far as this process
can know, any worker of a former process.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from functools import partial
from hashlib import blake2b

import structlog

from baton_server.app.calls.alarms import Alarms
from baton_server.app.calls.answered import Answered
from baton_server.app.calls.frames import Ack, Ask, CancelReason, HandlerKey, HookReply, Question, Stop
from baton_server.app.calls.questions import Answer, Asked, Batch, Occasion, OpenQuestion
from baton_server.app.calls.registry import Registry, Worker
from baton_server.app.calls.unanswered import crowded, late, raised, unserved
from baton_server.app.calls.unasked import Unasked
from baton_server.app.runtime import Runtime

__all__ = ["Answer", "Asked", "Hooks", "Occasion"]

log = structlog.get_logger(__name__)

MOST_WAITING = 10_000
"""Questions that wait for workers; one more is answered at once, as one that would be late."""

SHORTEST_LOOK_S = 0.5
"""Between two looks whether a question that waits for room is served at all, however short its grace."""

_Joined = dict[tuple[int, str], Batch]
"""Batches that are being put together, by moment and worker."""

_Eased = dict[str, Worker]
"""Workers that are asked less than before, by id."""


class _Clock(Enum):
    DEADLINE = "deadline"
    UNSERVED = "unserved"
    LEASE = "lease"


class Hooks:
    """Asks hooks, and tells them what happens.

    `left` is called with a worker of which less is asked than before; it is given after this is made. `answered` is
    told of each answer that is brought to its turn.
    """

    left: Callable[[Worker], None]

    def __init__(self, runtime: Runtime, registry: Registry) -> None:
        self._runtime, self._registry = runtime, registry
        self._alarms = Alarms(runtime.clock)
        self._open: dict[str, OpenQuestion] = {}
        self._batches: dict[str, Batch] = {}
        self._unasked = Unasked()
        self._numbers = itertools.count(1)
        self._all_known_at = runtime.clock.monotonic() + runtime.limits.registration_grace_s
        self.left = _nothing_follows
        self.answered = Answered()

    # -- for the driver --------------------------------------------------------------------------

    def ask(self, occasion: Occasion, questions: Sequence[Asked]) -> list[asyncio.Future[Answer]]:
        """Ask what one moment asks; a future for each, in order. Each comes to an end: by its deadline at the latest.

        A question that is asked already keeps its future.
        """
        moment = next(self._numbers)
        futures = [self._known(asked.hook_id) or self._begin(occasion, asked, moment) for asked in questions]
        mine = [self._open[asked.hook_id] for asked in questions if asked.hook_id in self._open]
        self._offer({one.group for one in mine if one.batch is None})
        return futures

    def drop(self, hook_ids: Iterable[str]) -> None:
        """Give questions up whose answers are not needed any more; their futures are cancelled."""
        eased: _Eased = {}
        for hook_id in hook_ids:
            self.answered.dropped(hook_id)
            one = self._open.get(hook_id)
            if one is not None:
                self._end(one, CancelReason.NOT_NEEDED, eased)
                one.future.cancel()
        self._ease(eased)

    def tell(self, occasion: Occasion, notifications: Sequence[Asked]) -> None:
        """Tell what has happened; lost where nobody listens or a stream is full.

        Of several workers that listen one is told all of a turn, so that it hears of it in order.
        """
        told: dict[str, tuple[Worker, list[Question]]] = {}
        for asked in notifications:
            worker = self._listener(occasion, asked)
            if worker is not None:
                told.setdefault(worker.worker_id, (worker, []))[1].append(asked.question(1, None))
        for worker, questions in told.values():
            self._send(worker, self._new_batch_id(), occasion, questions)

    # -- for workers -----------------------------------------------------------------------------

    def replied(self, worker_id: str, replies: Sequence[HookReply]) -> list[bool]:
        """Take a worker's answers; for each whether it counted. One that comes late or twice does not.

        An answer to a former attempt is as good as any, as long as there is none.
        """
        eased: _Eased = {}
        counted = [self._reply(worker_id, reply, eased) for reply in replies]
        self._ease(eased)
        return counted

    async def settle(self, worker_id: str, replies: Sequence[HookReply]) -> list[Ack]:
        """Take answers that come without a stream, and say what became of each once that is on disk."""
        self.replied(worker_id, replies)
        current = [self._open[reply.hook_id].attempt if reply.hook_id in self._open else 0 for reply in replies]
        return [await self.answered.ack(*one) for one in zip(replies, current, strict=True)]

    def broke(self, worker: Worker) -> None:
        """Note that a worker's stream is gone: what it has not answered is asked again.

        A half-duplex one answers without a stream; what it was asked is its own for as long as a lease.
        """
        for batch in [batch for batch in self._batches.values() if batch.worker is worker]:
            if worker.half_duplex:
                ends = batch.asked_at + self._runtime.limits.lease_s
                self._alarms.set((_Clock.LEASE, batch.batch_id), ends, partial(self._take_back, batch))
            else:
                self._take_back(batch)

    def look(self, keys: Iterable[HandlerKey], scopes: Iterable[str]) -> None:
        """Ask what waits for these handlers in these scopes: others serve them there than before."""
        self._offer(self._unasked.groups(keys, scopes))

    def look_at_all(self) -> None:
        """Ask whatever waits and somebody can take."""
        self._offer(None)

    async def close(self) -> None:
        """Stop the clocks; what is asked is asked again by the next process."""
        await self._alarms.close()

    # -- beginning and ending --------------------------------------------------------------------

    def _known(self, hook_id: str) -> asyncio.Future[Answer] | None:
        """Find the future of a question that is asked already; one whose asker went away is given up."""
        one = self._open.get(hook_id)
        if one is not None and one.future.cancelled():
            self._end(one, CancelReason.NOT_NEEDED, {})
            return None
        return None if one is None else one.future

    def _begin(self, occasion: Occasion, asked: Asked, moment: int) -> asyncio.Future[Answer]:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if len(self._unasked) >= MOST_WAITING:
            failure = crowded(asked.kind, asked.name, asked.timeout_s, MOST_WAITING)
            future.set_result(Answer(hook_id=asked.hook_id, failure=failure))
            return future
        one = self._open[asked.hook_id] = OpenQuestion(
            occasion=occasion,
            asked=asked,
            moment=moment,
            place=next(self._numbers),
            deadline=self._runtime.clock.wall() + asked.timeout_s,
            future=future,
        )
        self._alarms.set((_Clock.DEADLINE, asked.hook_id), one.deadline, partial(self._late, one))
        self._wait(one)
        return future

    def _wait(self, one: OpenQuestion) -> None:
        """Have a question wait, at its place, for somebody who can take it."""
        one.since = self._runtime.clock.monotonic()
        self._unasked.add(one)
        self._look_again(one, one.occasion.unserved_grace_s)

    def _end(self, one: OpenQuestion, reason: CancelReason, eased: _Eased) -> None:
        """Forget a question. Who is asked it hears that it should stop, and is noted as `eased`."""
        hook_id, batch = one.asked.hook_id, one.batch
        del self._open[hook_id]
        self._unasked.discard(one)
        self._alarms.clear((_Clock.DEADLINE, hook_id))
        self._alarms.clear((_Clock.UNSERVED, hook_id))
        if batch is not None:
            if batch.worker.lost_at is None:
                batch.worker.link.send(Stop(call_id=hook_id, attempt=one.attempt, reason=reason))
            self._leave(one, batch)
            eased[batch.worker.worker_id] = batch.worker

    def _answer(self, one: OpenQuestion, answer: Answer, reason: CancelReason, eased: _Eased) -> None:
        self._end(one, reason, eased)
        if answer.failure is not None:
            log.warning(
                "a hook gave no answer",
                kind=one.asked.kind.value,
                name=one.asked.name,
                turn_id=one.occasion.turn_id,
                reason=answer.failure.reason.value,
            )
        if not one.future.done():
            one.future.set_result(answer)

    def _reply(self, worker_id: str, reply: HookReply, eased: _Eased) -> bool:
        one = self._open.get(reply.hook_id)
        if one is None or one.asked_of.get(reply.attempt) != worker_id:
            return False
        if one.batch is not None and reply.attempt == one.attempt:
            eased[worker_id] = one.batch.worker
            self._leave(one, one.batch)  # it need not be told to stop
        failure = None if reply.answer_json is not None else raised(one.asked.kind, one.asked.name, reply)
        self.answered.taken(reply)
        answer = Answer(
            hook_id=reply.hook_id, answer_json=reply.answer_json or "", failure=failure, worker_id=worker_id
        )
        self._answer(one, answer, CancelReason.NOT_NEEDED, eased)
        return True

    # -- the clocks ------------------------------------------------------------------------------

    def _late(self, one: OpenQuestion) -> None:
        asked = one.asked
        failure = late(asked.kind, asked.name, asked.timeout_s, asked=one.attempt > 0)
        eased: _Eased = {}
        self._answer(one, Answer(hook_id=asked.hook_id, failure=failure), CancelReason.TIMEOUT, eased)
        self._ease(eased)

    def _look_again(self, one: OpenQuestion, after_s: float) -> None:
        """See after some time whether a question that waits is served by anybody."""
        at = self._runtime.clock.wall() + after_s
        self._alarms.set((_Clock.UNSERVED, one.asked.hook_id), at, partial(self._see_whether_served, one))

    def _see_whether_served(self, one: OpenQuestion) -> None:
        asked, occasion = one.asked, one.occasion
        since = self._registry.unserved_since(asked.name, occasion.scopes, kind=asked.kind)
        if since is None:
            self._look_again(one, max(occasion.unserved_grace_s, SHORTEST_LOOK_S))
            return
        ends = max(since, one.since, self._all_known_at) + occasion.unserved_grace_s
        left = ends - self._runtime.clock.monotonic()
        if left > 0:
            self._look_again(one, left)
            return
        failure = unserved(asked.kind, asked.name, occasion.scopes)
        self._answer(one, Answer(hook_id=asked.hook_id, failure=failure), CancelReason.NOT_NEEDED, {})

    # -- asking ----------------------------------------------------------------------------------

    def _ease(self, eased: _Eased) -> None:
        """Ask what waits for workers that have more room than before, as far as that goes."""
        ready = [worker for worker in eased.values() if worker.reachable and worker.hook_room > 0]
        for worker in ready:
            self._offer(self._unasked.groups(worker.handlers, worker.scopes), worker)

    def _offer(self, groups: Collection[str] | None, worker: Worker | None = None) -> None:
        """Ask what waits of workers that can take it.

        `groups`: look at these, None: at all. `worker`: nobody else has more room than before; None: anybody may have.
        """
        joined: _Joined = {}

        def choose(one: OpenQuestion) -> Worker | None:
            if worker is not None and worker.hook_room <= 0 and (one.moment, worker.worker_id) not in joined:
                return None
            return self._choose(one, joined)

        for one, chosen in self._unasked.take(groups, choose):
            key = (one.moment, chosen.worker_id)
            if key not in joined:
                joined[key] = self._new_batch(chosen)
            self._put(one, joined[key])
        for batch in joined.values():
            questions = [one.asked.question(one.attempt, one.deadline) for one in batch.open.values()]
            occasion = next(iter(batch.open.values())).occasion
            self._send(batch.worker, batch.batch_id, occasion, questions)

    def _choose(self, one: OpenQuestion, joined: _Joined) -> Worker | None:
        """Choose who is asked; None: nobody can take it now.

        Rather one that was not asked before, rather one that this moment asks anyhow, rather the one with most room.
        """
        ready = [
            ((worker.worker_id not in one.asked_of.values(), joins, worker.hook_room), worker)
            for worker in self._registry.hosts(one.asked.kind, one.asked.name, one.occasion.scopes)
            for joins in ((one.moment, worker.worker_id) in joined,)
            if worker.reachable and (joins or worker.hook_room > 0)
        ]
        best = max(ready, key=lambda each: each[0], default=None)
        return None if best is None else best[1]

    def _listener(self, occasion: Occasion, asked: Asked) -> Worker | None:
        hosts = self._registry.hosts(asked.kind, asked.name, occasion.scopes)
        ready = [worker for worker in hosts if worker.reachable and not worker.link.full]
        return max(ready, key=lambda worker: _draw(occasion.turn_id, worker.worker_id), default=None)

    def _send(self, worker: Worker, batch_id: str, occasion: Occasion, questions: Sequence[Question]) -> None:
        worker.link.send(
            Ask(
                batch_id=batch_id,
                session_id=occasion.session_id,
                turn_id=occasion.turn_id,
                agent=occasion.agent,
                round=occasion.round,
                questions=tuple(questions),
                usage=occasion.usage,
            )
        )

    # -- batches ---------------------------------------------------------------------------------

    def _new_batch(self, worker: Worker) -> Batch:
        batch = Batch(batch_id=self._new_batch_id(), worker=worker, asked_at=self._runtime.clock.wall())
        self._batches[batch.batch_id] = batch
        worker.hook_batches += 1
        return batch

    def _new_batch_id(self) -> str:
        return f"batch_{next(self._numbers)}"

    def _put(self, one: OpenQuestion, batch: Batch) -> None:
        one.batch, one.attempt = batch, one.attempt + 1
        one.asked_of[one.attempt] = batch.worker.worker_id
        batch.open[one.asked.hook_id] = one
        self._alarms.clear((_Clock.UNSERVED, one.asked.hook_id))

    def _leave(self, one: OpenQuestion, batch: Batch) -> None:
        """Take a question out of its batch; a batch without any is over."""
        one.batch = None
        del batch.open[one.asked.hook_id]
        if not batch.open:
            self._alarms.clear((_Clock.LEASE, batch.batch_id))
            del self._batches[batch.batch_id]
            batch.worker.hook_batches -= 1
            self.left(batch.worker)

    def _take_back(self, batch: Batch) -> None:
        """Ask elsewhere what a batch has not answered."""
        again = tuple(batch.open.values())
        for one in again:
            self._leave(one, batch)
            self._wait(one)
        self._offer({one.group for one in again})
        self._ease({batch.worker.worker_id: batch.worker})


def _draw(turn_id: str, worker_id: str) -> bytes:
    """Draw a lot for a worker, the same one for a turn whenever it is drawn."""
    return blake2b(f"{turn_id}/{worker_id}".encode(), digest_size=8).digest()


def _nothing_follows(_worker: Worker) -> None:
    """Nobody waits for a worker to be asked less."""
