"""What hooks are asked, what became of it, and where each question is that has no answer yet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from baton_server.app.calls.frames import Question
from baton_server.app.calls.worker import Worker
from baton_server.core.errors import Failure
from baton_server.core.events import HookKind
from baton_server.core.items import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Whose moment it is. `scopes` in the order in which names are looked up, the empty one last.

    `unserved_grace_s`: how long a name may be unserved before that is the answer. `round` 0: before the first.
    `usage`: of the turn so far.
    """

    session_id: str
    turn_id: str
    agent: str
    round: int
    scopes: tuple[str, ...]
    unserved_grace_s: float
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question. `timeout_s` from now; a notification has none."""

    hook_id: str
    kind: HookKind
    name: str
    payload_json: str
    timeout_s: float

    def question(self, attempt: int, deadline: float | None) -> Question:
        """Put it into the words of the stream. `deadline` None: no answer is owed."""
        return Question(
            hook_id=self.hook_id,
            attempt=attempt,
            kind=self.kind,
            name=self.name,
            payload_json=self.payload_json,
            deadline=deadline,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a question: the answer, or (`failure`, one of the HOOK_ reasons) why there is none.

    `worker_id` empty: nobody answered.
    """

    hook_id: str
    answer_json: str = ""
    failure: Failure | None = None
    worker_id: str = ""


@dataclass(slots=True, kw_only=True)
class OpenQuestion:
    """A question without an answer.

    `moment`: what was asked at once has the same one. `place`: among what waits. `deadline`: wall seconds. `since`:
    when it began to wait (monotonic). `attempt` 0: it was not asked yet. `asked_of`: worker by attempt. `batch`: in
    which it is asked now, None: it waits.
    """

    occasion: Occasion
    asked: Asked
    moment: int
    place: int
    deadline: float
    future: asyncio.Future[Answer]
    since: float = 0.0
    attempt: int = 0
    asked_of: dict[int, str] = field(default_factory=dict)
    batch: Batch | None = None

    @property
    def group(self) -> str:
        """Say with which others it waits: those that may go to the same workers. Scopes hold no NUL."""
        return "\0".join((self.asked.kind, self.asked.name, *self.occasion.scopes))


@dataclass(slots=True, kw_only=True)
class Batch:
    """What one moment asks of one worker. `open`: the questions without an answer. `asked_at`: wall seconds."""

    batch_id: str
    worker: Worker
    asked_at: float
    open: dict[str, OpenQuestion] = field(default_factory=dict)
