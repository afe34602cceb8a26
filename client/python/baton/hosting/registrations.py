"""What a worker wants to serve, and what the server said about each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from baton.errors import AgentsException
from baton.hooks.kinds import kind_word
from baton.v1 import event_pb2, handler_pb2

Key = tuple[int, str, str]


class Registrations:
    """Handlers by kind, name and version."""

    def __init__(self) -> None:
        self._specs: dict[Key, handler_pb2.HandlerSpec] = {}
        self._verdicts: dict[Key, asyncio.Future[AgentsException | None]] = {}

    @property
    def specs(self) -> list[handler_pb2.HandlerSpec]:
        """All that are wanted, and were not refused."""
        return list(self._specs.values())

    @property
    def shown(self) -> list[str]:
        """Each of them for people: functions by their names, hooks with their kinds."""
        return [_shown(spec) for spec in self._specs.values()]

    @property
    def hooks(self) -> bool:
        """Whether hooks are among them, whose turns wait for answers and for no longer than a grace."""
        return any(kind != event_pb2.HANDLER_KIND_FUNCTION for kind, _name, _version in self._specs)

    def add(self, specs: Iterable[handler_pb2.HandlerSpec]) -> list[handler_pb2.HandlerSpec]:
        """Want some more; return those that were not wanted so far."""
        new = [spec for spec in specs if _key(spec) not in self._specs]
        for spec in new:
            self._specs[_key(spec)] = spec
            self._verdicts[_key(spec)] = asyncio.get_running_loop().create_future()
        return new

    def missing(self, answered: Iterable[handler_pb2.HandlerVerdict]) -> list[handler_pb2.HandlerSpec]:
        """List what is wanted and has no answer among these."""
        known = {_key(verdict) for verdict in answered}
        return [spec for key, spec in self._specs.items() if key not in known]

    def judge(self, verdict: handler_pb2.HandlerVerdict, refusal: AgentsException | None) -> bool:
        """Take the server's word about one; `refusal` None: it is served. Returns whether somebody waits for it."""
        waiting = self._verdicts.get(_key(verdict))
        if refusal is not None:
            self._forget(_key(verdict))
        if waiting is None or waiting.done():
            return False
        waiting.set_result(refusal)
        return True

    async def judged(self, specs: Sequence[handler_pb2.HandlerSpec]) -> None:
        """Wait until the server has answered about these. Raises the first refusal."""
        for verdict in [self._verdicts[_key(spec)] for spec in specs]:
            refusal = await asyncio.shield(verdict)
            if refusal is not None:
                raise refusal

    def remove(self, spec: handler_pb2.HandlerSpec) -> None:
        """Want one no more."""
        self._forget(_key(spec))

    def give_up(self, failure: AgentsException) -> None:
        """Tell whoever waits that there will be no answer."""
        for verdict in self._verdicts.values():
            if not verdict.done():
                verdict.set_result(failure)

    def _forget(self, key: Key) -> None:
        self._specs.pop(key, None)
        self._verdicts.pop(key, None)


def _shown(spec: handler_pb2.HandlerSpec) -> str:
    if spec.kind in (event_pb2.HANDLER_KIND_UNSPECIFIED, event_pb2.HANDLER_KIND_FUNCTION):
        return f"{spec.name} (version {spec.version})" if spec.version else spec.name
    return f"{spec.name} ({kind_word(spec.kind)})"


def _key(spec: handler_pb2.HandlerSpec | handler_pb2.HandlerVerdict) -> Key:
    """Tell handlers apart. Where no kind is said it is a function."""
    return spec.kind or event_pb2.HANDLER_KIND_FUNCTION, spec.name, spec.version
