"""Explaining: why a call does not run, or what settled it. Reads only; it is of one moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from baton_server.app.calls import causes
from baton_server.app.calls.causes import Now
from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.frames import HandlerKey
from baton_server.app.calls.late import call_not_found
from baton_server.app.calls.leases import LeaseState
from baton_server.app.calls.registry import Registry
from baton_server.app.calls.worker import Worker
from baton_server.app.runtime import Runtime
from baton_server.app.turns.loading import Loading
from baton_server.core.errors import Refused
from baton_server.core.events import HookKind
from baton_server.core.inputs import CallSettled
from baton_server.core.items import Settlement
from baton_server.ports.store import CallRow, CallState
from baton_server.ports.workers import Cause, CauseKind, Explanation

ELSEWHERE = 5
"""Causes of one kind that are told, where each is about another scope or another worker."""

RUNNING = frozenset({CallState.QUEUED, CallState.LEASED, CallState.CHECKED, CallState.EFFECT_UNKNOWN})
"""States of calls that their turn has let go on."""


class Explain:
    """Looks at calls, and at everybody who may have one."""

    def __init__(self, runtime: Runtime, registry: Registry, dispatcher: Dispatcher, loading: Loading) -> None:
        self._runtime, self._registry, self._dispatcher, self._loading = runtime, registry, dispatcher, loading

    async def call(self, call_id: str) -> Explanation:
        """Explain a call. Raises Refused(CALL_NOT_FOUND)."""
        row = await self._runtime.store.calls.get(call_id)
        if row is None:
            raise Refused(call_not_found(call_id))
        if row.state is CallState.SETTLED:
            return Explanation(settlement=await self._settlement(row))
        if row.state is CallState.HELD:
            return Explanation(call=row, causes=(await self._held(row),))
        return Explanation(call=row, causes=tuple(self._causes(row)))

    async def _held(self, row: CallRow) -> Cause:
        """Say what its turn keeps a call back for: others that go on, or a hook."""
        store = self._runtime.store
        turn = await store.turns.get(row.turn_id)
        execution = None if turn is None else (await self._runtime.config(turn.config_digest)).tool_execution
        others = [other for other in await store.calls.open_in(row.session_id) if other.turn_id == row.turn_id]
        running = sum(other.state in RUNNING and other.run_path == row.run_path for other in others)
        return causes.held(None if execution is None else execution.max_concurrency, running)

    # -- what settled it -------------------------------------------------------------------------

    async def _settlement(self, row: CallRow) -> Settlement:
        """Find out what settled a call. It goes from the inbox into the log, and is looked for in that order."""
        for waiting in await self._runtime.store.inbox.rows(row.turn_id):
            given = self._runtime.codec.read_input(waiting.data)
            if isinstance(given, CallSettled) and given.call_id == row.call_id:
                return given.settlement
        turn = await self._runtime.store.turns.get(row.turn_id)
        known = None if turn is None else (await self._loading.read(turn)).calls.get(row.call_id)
        said = None if known is None else known.output or known.returned
        if said is None or said.settlement is None:
            raise Refused(call_not_found(row.call_id))  # its session is being deleted
        return said.settlement

    # -- why it does not run ---------------------------------------------------------------------

    def _causes(self, row: CallRow) -> Iterable[Cause]:
        """Give the causes, the nearest first."""
        now = Now(monotonic=self._runtime.clock.monotonic(), wall=self._runtime.clock.wall())
        match row.state:
            case CallState.AWAITING_DECISION:
                yield causes.awaiting_decision(row, now)
            case CallState.EFFECT_UNKNOWN:
                yield causes.effect_unknown(row)
            case CallState.CHECKED:
                yield causes.checked(row, self._registry.hosts(HookKind.EFFECT_CHECK, row.name, row.scopes))
            case CallState.LEASED:
                yield from self._leased(row, now)
            case _:
                yield from self._queued(row, now)

    def _leased(self, row: CallRow, now: Now) -> Iterable[Cause]:
        lease = self._dispatcher.leases.get(row.call_id)
        if lease is None:
            return  # it is about to be written, or was just settled
        if lease.stop_by is not None:
            yield causes.cancelling(lease, lease.stop_by, now)
        until = lease.until(self._runtime.limits)
        if lease.state is LeaseState.WRITTEN and lease.written_at is not None:
            until = min(until, lease.written_at + self._runtime.limits.ack_timeout_s)
        yield causes.leased(lease, until, now)

    def _queued(self, row: CallRow, now: Now) -> Iterable[Cause]:
        ahead = self._dispatcher.joining.ahead_of(row.call_id)
        if row.available_at > now.wall:
            last = self._dispatcher.returns.given_back.get(row.call_id)
            known = last is not None and last.attempt == row.attempt
            yield causes.delayed(row, *((last.instance_id, last.reason) if last and known else ("", "")), now)
        elif ahead:
            yield causes.joined(row, ahead)
        elif self._dispatcher.draining:
            yield causes.stopping()
        else:
            yield from self._unmatched(row, now)

    def _unmatched(self, row: CallRow, now: Now) -> Iterable[Cause]:
        """Say why nobody takes a call that may be taken. Empty: somebody does, any moment now."""
        found = self._registry.serving(row.name, row.scopes)
        if found is None:
            return self._unserved(row, now)
        scope, versions = found
        fitting = [version for version in versions if row.version in ("", version)]
        if not fitting:
            workers = list({worker.worker_id: worker for some in versions.values() for worker in some}.values())
            return [causes.other_version(row, scope, sorted(versions), workers)]
        return self._busy(row, [(worker, version) for version in fitting for worker in versions[version]])

    def _busy(self, row: CallRow, serving: Sequence[tuple[Worker, str]]) -> Iterable[Cause]:
        """Say what keeps the workers that serve a call from taking it."""
        found: dict[CauseKind, dict[str, Worker]] = {}
        taken = 0
        for worker, version in serving:
            key = HandlerKey(kind=None, name=row.name, version=version)
            kind = _hindrance(worker, key)
            if kind is None:
                return
            found.setdefault(kind, {})[worker.worker_id] = worker
            taken += worker.taken[key] if kind is CauseKind.CONCURRENCY else 0
        by_kind = {kind: list(workers.values()) for kind, workers in found.items()}
        if busy := by_kind.get(CauseKind.CONCURRENCY):
            yield causes.concurrency(row, busy, taken)
        if poor := by_kind.get(CauseKind.NO_CREDIT):
            held = sum(worker.taken.total() for worker in poor)
            yield causes.no_credit(row, poor, held, self._dispatcher.ahead_of(row.call_id))
        if leaving := by_kind.get(CauseKind.DRAINING):
            yield causes.draining(row, leaving)
        if lost := by_kind.get(CauseKind.NO_WORKER):
            yield causes.lost(row, lost)

    def _unserved(self, row: CallRow, now: Now) -> Iterable[Cause]:
        """Say who would serve a call, but for something; nobody, where there is nothing."""
        found = [*self._draining(row), *self._refused(row), *self._elsewhere(row)]
        since = self._registry.unserved_since(row.name, row.scopes, row.version)
        return found or [causes.no_worker(row, since or None, now)]

    def _draining(self, row: CallRow) -> Iterable[Cause]:
        workers = [
            worker
            for worker in self._registry.workers()
            if worker.draining and _names(worker.retired, row) and set(worker.scopes) & set(row.scopes)
        ]
        if workers:
            yield causes.draining(row, workers)

    def _refused(self, row: CallRow) -> Iterable[Cause]:
        told = 0
        for worker in reversed(self._registry.workers()):
            for key, failure in worker.refused.items():
                if told < ELSEWHERE and _names((key,), row) and set(worker.scopes) & set(row.scopes):
                    told += 1
                    yield causes.refused(worker, failure)

    def _elsewhere(self, row: CallRow) -> Iterable[Cause]:
        places: dict[tuple[str, ...], list[Worker]] = {}
        for worker in self._registry.workers():
            if _names(worker.handlers, row):
                places.setdefault(worker.scopes, []).append(worker)
        for scopes, workers in tuple(places.items())[:ELSEWHERE]:
            yield causes.other_scope(row, scopes, workers)


def _names(keys: Iterable[HandlerKey], row: CallRow) -> bool:
    """Tell whether handlers of a worker are for the function of a call, in a version that it may have."""
    return any(key.kind is None and key.name == row.name and row.version in ("", key.version) for key in keys)


def _hindrance(worker: Worker, key: HandlerKey) -> CauseKind | None:
    """Say what keeps a worker from taking a call of a handler; None: nothing. NO_WORKER: it is lost."""
    if worker.lost_at is not None:
        return CauseKind.NO_WORKER
    if worker.draining or worker.ends_at is not None:
        return CauseKind.DRAINING
    if worker.busy(key):
        return CauseKind.CONCURRENCY
    return None if worker.takes(key) else CauseKind.NO_CREDIT
