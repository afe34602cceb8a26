"""Questions that nobody is asked at the moment, oldest first. Pure bookkeeping: no clock, no I/O.

Questions of one kind and name that look into the same scopes are a group: they may all go to the same workers, so that
looking for the next one that somebody can take costs a look at each group, not at each question. Which groups a handler
may serve is kept, so that a worker is no burden for those who wait for others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from baton_server.app.calls.frames import HandlerKey
from baton_server.app.calls.questions import OpenQuestion
from baton_server.app.calls.waiting import WaitingCall, WaitingCalls
from baton_server.app.calls.worker import Worker
from baton_server.core.events import HookKind

Choose = Callable[[OpenQuestion], Worker | None]

_Served = tuple[HookKind | None, str, str]
"""Kind and name of a handler, and a scope in which it is served."""


class Unasked:
    """The questions that wait."""

    def __init__(self) -> None:
        self._waiting = WaitingCalls()
        self._questions: dict[str, OpenQuestion] = {}
        self._sizes: dict[str, int] = {}
        self._groups: dict[_Served, set[str]] = {}

    def __len__(self) -> int:
        return len(self._questions)

    def add(self, one: OpenQuestion) -> None:
        """Take a question in, at its place."""
        hook_id, group = one.asked.hook_id, one.group
        self._questions[hook_id] = one
        self._waiting.add(WaitingCall(call_id=hook_id, name=group, scopes=(), place=one.place), 0.0)
        self._sizes[group] = self._sizes.get(group, 0) + 1
        for served in _served(one):
            self._groups.setdefault(served, set()).add(group)

    def discard(self, one: OpenQuestion) -> None:
        """Take a question out; one that does not wait is passed over."""
        if self._questions.pop(one.asked.hook_id, None) is None:
            return
        group = one.group
        self._waiting.discard(one.asked.hook_id)
        self._sizes[group] -= 1
        if not self._sizes[group]:
            self._forget(one, group)

    def groups(self, keys: Iterable[HandlerKey], scopes: Iterable[str]) -> set[str]:
        """Name the groups that may go to who serves these handlers in these scopes."""
        places = [(key.kind, key.name, scope) for scope in scopes for key in keys]
        return {group for place in places for group in self._groups.get(place, ())}

    def take(self, groups: Collection[str] | None, choose: Choose) -> Iterator[tuple[OpenQuestion, Worker]]:
        """Take out, oldest first, every question for which `choose` finds a worker. `groups` None: look at all.

        A group whose oldest question finds none is left alone.
        """
        for waiting, worker in self._waiting.take(groups, lambda call: choose(self._questions[call.call_id])):
            one = self._questions[waiting.call_id]
            self.discard(one)
            yield one, worker

    def _forget(self, one: OpenQuestion, group: str) -> None:
        """Forget a group in which nobody waits any more."""
        del self._sizes[group]
        for served in _served(one):
            self._groups[served].discard(group)
            if not self._groups[served]:
                del self._groups[served]
        for _ in self._waiting.take((group,), lambda _: None):  # it lets go of what it keeps of those that went
            raise AssertionError("somebody waits in a group that is empty")


def _served(one: OpenQuestion) -> list[_Served]:
    return [(one.asked.kind, one.asked.name, scope) for scope in one.occasion.scopes]
