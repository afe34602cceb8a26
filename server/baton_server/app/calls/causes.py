"""Causes in words: why a call does not run, and what to do. Pure: everything that they say is handed in.

Of many workers that are in one position, one cause tells: the first few by name, the others by their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baton_server.app.calls.leases import Leased, LeaseState
from baton_server.app.calls.worker import Worker
from baton_server.core.errors import Failure
from baton_server.core.tools import LostWorker
from baton_server.ports.store import CallRow
from baton_server.ports.workers import Cause, CauseKind

NAMED = 3
"""Workers that a cause names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The moment that is explained, by both clocks."""

    monotonic: float
    wall: float

    def until(self, moment: float) -> float:
        """Say when a monotonic moment is by the wall clock."""
        return self.wall + moment - self.monotonic


# -- a call that somebody has --------------------------------------------------------------------

_HOLDS = {
    LeaseState.WAITING: "{Attempt} waits to be written to the stream of {holder}, which takes it slowly.",
    LeaseState.WRITING: "{Attempt} is being written to {holder}, which takes it slowly.",
    LeaseState.WRITTEN: "{Attempt} was sent to {holder}, which has not acked it yet.",
    LeaseState.HELD: "{holder} works on it, {attempt}.",
    LeaseState.ORPHANED: "{holder} had {attempt} when the server stopped, and has not come back yet.",
    LeaseState.RECALLED: "{holder} did not ack {attempt}, and is asked whether it has begun: it must not run twice.",
    LeaseState.SETTLING: "{holder} has sent the result of {attempt}, which is being written down.",
    LeaseState.LEAVING: "{Attempt} is being taken back from {holder}.",
}


def cancelling(lease: Leased, stop_by: float, now: Now) -> Cause:
    """Say that its turn is being cancelled. `stop_by`: when its worker's grace ends (monotonic)."""
    left = max(0.0, stop_by - now.monotonic)
    return Cause(
        kind=CauseKind.CANCELLING,
        text=f"Its turn is being cancelled: {_holder(lease)} was told to stop. The turn ends without its result in "
        f"{seconds(left)}, or as soon as the worker has stopped.",
        worker_id=lease.worker_id,
        until=now.until(stop_by),
    )


def leased(lease: Leased, until: float, now: Now) -> Cause:
    """Say who has it. `until`: when the attempt is lost if nothing more is heard (monotonic)."""
    words = _HOLDS[lease.state].format(
        holder=_holder(lease), Attempt=f"Attempt {lease.attempt}", attempt=f"attempt {lease.attempt}"
    )
    if lease.worker is not None and lease.worker.lost_at is not None and not lease.leaving:
        words += f" Its stream broke {seconds(now.monotonic - lease.worker.lost_at)} ago."
    if not lease.leaving:
        follows = "somebody is asked whether it took effect" if lease.ask else "it is delivered again"
        words += f" If nothing more is heard of it for {seconds(max(0.0, until - now.monotonic))}, {follows}."
    return Cause(kind=CauseKind.LEASED, text=words, worker_id=lease.worker_id, until=now.until(until))


# -- a call that nobody has ----------------------------------------------------------------------


def delayed(row: CallRow, who: str, reason: str, now: Now) -> Cause:
    """Say that it was given back for a while. `who` and `reason` empty: not known any more."""
    said = f" It said: {reason}" if reason else ""
    return Cause(
        kind=CauseKind.DELAYED,
        text=f"{who or 'Its last worker'} gave it back and asked for a delay. It is offered again in "
        f"{seconds(row.available_at - now.wall)}.{said}",
        until=row.available_at,
    )


def joined(row: CallRow, ahead: str) -> Cause:
    """Say for which call's result it waits."""
    return Cause(
        kind=CauseKind.JOINED,
        text=f"It waits for the call {ahead}, which has the same idempotency key {row.key!r}. When that one succeeds, "
        "this one takes its output; when it fails, this one is served. Ask why that one does not run.",
    )


def checked(row: CallRow, hosts: Sequence[Worker]) -> Cause:
    """Say that a check is asked. `hosts`: who answers it."""
    asked = f" of {_names(hosts)}" if hosts else ", which no worker serves at the moment,"
    otherwise = "somebody has to find out" if row.lost_worker is LostWorker.ASK else "it is delivered again"
    return Cause(
        kind=CauseKind.CHECKED,
        text=f"Attempt {row.attempt} is lost and may have run. The check {row.name!r}{asked} is asked whether it took "
        f"effect under the key {row.key!r}. Without an answer within 30 s {otherwise}.",
        worker_id=_only(hosts),
    )


def effect_unknown(row: CallRow) -> Cause:
    """Say that somebody has to find out."""
    return Cause(
        kind=CauseKind.EFFECT_UNKNOWN,
        text=f"Attempt {row.attempt} may have run, and the call must not run twice. Find out whether it took effect "
        f"under the idempotency key {row.key!r}. If it did, send a tool_result with its output; if it did not, send a "
        "redelivery.",
    )


def awaiting_decision(row: CallRow, now: Now) -> Cause:
    """Say that somebody must allow it."""
    if row.decide_by is None:
        otherwise = "It waits for that however long it takes."
    else:
        otherwise = f"If nobody decides, it is rejected by itself in {seconds(row.decide_by - now.wall)}."
    return Cause(
        kind=CauseKind.AWAITING_DECISION,
        text=f"Somebody must allow {row.name!r} to be called like this: send a decision, APPROVE or REJECT. "
        f"{otherwise}",
        until=row.decide_by,
    )


def held(limit: int | None, running: int) -> Cause:
    """Say that its turn keeps it back. `limit`: functions that may run in it at once, None: all; `running`: that do."""
    if limit is not None and running >= limit:
        go_on = f"{_calls(running)} of it {'go' if running > 1 else 'goes'} on"
        words = (
            f"Its turn lets {_functions(limit)} run at once, and {go_on}. It is handed out when one is settled. "
            "Raise max_function_concurrency for the next turn."
        )
    else:
        words = (
            "It is kept back until a hook about it is answered: a guardrail, or whether it needs an approval. If that "
            "lasts, look whether a worker serves the hook."
        )
    return Cause(kind=CauseKind.HELD, text=words)


# -- workers that serve it -----------------------------------------------------------------------


def concurrency(row: CallRow, workers: Sequence[Worker], taken: int) -> Cause:
    """Say that workers have enough of it. `taken`: calls of it that they have together."""
    return Cause(
        kind=CauseKind.CONCURRENCY,
        text=f"{_names(workers)} {_has(workers)} {_calls(taken)} of {row.name!r}, which is as many as "
        f"{_it(workers)} at once. Raise the handler's max_concurrency, or attach another worker.",
        worker_id=_only(workers),
    )


def no_credit(row: CallRow, workers: Sequence[Worker], held: int, ahead: int) -> Cause:
    """Say that workers have no room. `held`: calls that they have together; `ahead`: calls that wait before it."""
    first = f"{_calls(ahead).capitalize()} of {row.name!r} {'wait' if ahead > 1 else 'waits'} before it. "
    return Cause(
        kind=CauseKind.NO_CREDIT,
        text=f"{_names(workers)} {_has(workers)} {_shortage(workers)}, with {_calls(held)} held. "
        f"{first if ahead else ''}Raise what a worker takes at once, or attach another one.",
        worker_id=_only(workers),
    )


def draining(row: CallRow, workers: Sequence[Worker]) -> Cause:
    """Say that workers take nothing new."""
    return Cause(
        kind=CauseKind.DRAINING,
        text=f"{_names(workers)} {'drain' if len(workers) > 1 else 'drains'} and {_takes(workers)} nothing new. Attach "
        f"another worker that serves {row.name!r}.",
        worker_id=_only(workers),
    )


def stopping() -> Cause:
    """Say that the server drains."""
    text = "The server is about to stop and hands out nothing more. It goes on when it is started again."
    return Cause(kind=CauseKind.DRAINING, text=text)


def lost(row: CallRow, workers: Sequence[Worker]) -> Cause:
    """Say that workers are gone that may come back."""
    broken = "their streams are" if len(workers) > 1 else "its stream is"
    return Cause(
        kind=CauseKind.NO_WORKER,
        text=f"{_names(workers)} would serve {row.name!r}, but {broken} broken. Attach it again, or another worker.",
        worker_id=_only(workers),
    )


def other_version(row: CallRow, scope: str, versions: Sequence[str], workers: Sequence[Worker]) -> Cause:
    """Say that workers serve other versions of it."""
    served = ", ".join(repr(version) for version in versions)
    return Cause(
        kind=CauseKind.OTHER_VERSION,
        text=f"The call is for version {row.version!r} of {row.name!r}; in {scope_words((scope,))} {_names(workers)} "
        f"{_serves(workers)} {served}. Attach a worker that registers it with that version, "
        "or settle the call by a tool_result.",
        worker_id=_only(workers),
    )


# -- nobody serves it ----------------------------------------------------------------------------


def other_scope(row: CallRow, scopes: Sequence[str], workers: Sequence[Worker]) -> Cause:
    """Say that workers serve it elsewhere. `scopes`: where."""
    return Cause(
        kind=CauseKind.OTHER_SCOPE,
        text=f"{_names(workers)} {_serves(workers)} {row.name!r} in {scope_words(scopes)}, but the turn looks into "
        f"{scope_words(row.scopes)} alone. Attach a worker there, or begin the next turn with the worker's scope.",
        worker_id=_only(workers),
    )


def refused(worker: Worker, failure: Failure) -> Cause:
    """Say why a worker's handler was not registered."""
    return Cause(
        kind=CauseKind.HANDLER_REFUSED,
        text=f"{worker_words(worker)} declared it, and was refused: {failure.message}",
        worker_id=worker.worker_id,
    )


def no_worker(row: CallRow, since: float | None, now: Now) -> Cause:
    """Say that nobody serves it. `since`: when the last one went (monotonic), None: nobody ever did."""
    when = "" if since is None else f" since {seconds(now.monotonic - since)}"
    return Cause(
        kind=CauseKind.NO_WORKER,
        text=f"No worker serves {row.name!r} in {scope_words(row.scopes)}{when}. Attach one that does, or settle the "
        "call by a tool_result.",
    )


# -- words ---------------------------------------------------------------------------------------


def worker_words(worker: Worker) -> str:
    """Name a worker for people: its instance and its id."""
    return f"{worker.instance_id} ({worker.worker_id})"


def scope_words(scopes: Sequence[str]) -> str:
    """Name scopes: `the scopes 'a' and 'b', and the empty one`."""
    named = [repr(scope) for scope in scopes if scope]
    if not named:
        return "the empty scope"
    words = f"the scope {named[0]}" if len(named) == 1 else f"the scopes {', '.join(named)}"
    return f"{words} and the empty one" if "" in scopes else words


def seconds(span: float) -> str:
    """Write a span of time."""
    span = max(0.0, span)
    if span < 90:
        return f"{span:.0f} s" if span >= 10 else f"{span:.1f} s"
    return f"{span / 60:.0f} min" if span < 5400 else f"{span / 3600:.1f} h"


def _holder(lease: Leased) -> str:
    return f"{lease.instance_id} ({lease.worker_id})"


def _names(workers: Sequence[Worker]) -> str:
    words = ", ".join(worker_words(worker) for worker in workers[:NAMED])
    more = len(workers) - NAMED
    return f"{words} and {more} more" if more > 0 else words


def _only(workers: Sequence[Worker]) -> str:
    return workers[0].worker_id if len(workers) == 1 else ""


def _has(workers: Sequence[Worker]) -> str:
    return "have" if len(workers) > 1 else "has"


def _serves(workers: Sequence[Worker]) -> str:
    return "serve" if len(workers) > 1 else "serves"


def _takes(workers: Sequence[Worker]) -> str:
    return "take" if len(workers) > 1 else "takes"


def _it(workers: Sequence[Worker]) -> str:
    return "they take" if len(workers) > 1 else "it takes"


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _functions(count: int) -> str:
    return "1 function" if count == 1 else f"{count} functions"


def _shortage(workers: Sequence[Worker]) -> str:
    if len(workers) == 1:
        worker = workers[0]
        if worker.half_duplex and worker.room <= 0:
            return f"no room for more than {_calls(worker.credit)} unsettled"
        if worker.room > 0:
            return "no bytes of credit left for its arguments"
    return "no credit left"
