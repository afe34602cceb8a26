"""Workers in words: who they are, what they serve, and how they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from baton.v1 import event_pb2, handler_pb2
from baton_server.cli.show.texts import counted, one_line
from baton_server.cli.show.times import ago
from baton_server.cli.show.words import word

HELD_SHOWN = 3
"""Calls that are named of those that a worker holds."""

SERVED_SHOWN = 1000
"""Characters of the names of what a worker serves."""


def worker_lines(worker: handler_pb2.Worker, at: datetime) -> list[str]:
    """Describe a worker in lines: its instance, its id, what it says of itself, its state in words."""
    return [
        f"{one_line(worker.instance_id)}, attached {ago(worker.attached_at, at)}",
        f"  worker   {one_line(worker.worker_id)}",
        *(f"  {title:<8} {words}" for title, words in _facts(worker) if words),
        f"  {word(handler_pb2.WorkerState, worker.state)}: {_state(worker)}; heard of {ago(worker.last_heard_at, at)}",
    ]


def _facts(worker: handler_pb2.Worker) -> Iterator[tuple[str, str]]:
    sdk = worker.sdk
    yield "sdk", one_line(", ".join(part for part in (f"{sdk.name} {sdk.version}".strip(), sdk.language) if part))
    yield "scopes", _scopes(worker)
    yield "serves", one_line(", ".join(_handler(spec) for spec in worker.handlers), SERVED_SHOWN) or "nothing"
    yield "labels", one_line(", ".join(f"{key}={value}" for key, value in sorted(worker.metadata.items())))
    yield "holds", _held(worker)


def _scopes(worker: handler_pb2.Worker) -> str:
    """Name the scopes of a worker; nothing where it has the empty one alone, as most do."""
    if list(worker.scopes) in ([], [""]):
        return ""
    return one_line(", ".join(scope or "the empty one" for scope in worker.scopes), SERVED_SHOWN)


def _handler(spec: handler_pb2.HandlerSpec) -> str:
    """Name what is served, by what tells it from others of its name."""
    hook = spec.kind not in (event_pb2.HANDLER_KIND_UNSPECIFIED, event_pb2.HANDLER_KIND_FUNCTION)
    about = word(event_pb2.HandlerKind, spec.kind) if hook else f"version {spec.version}" if spec.version else ""
    return f"{spec.name} ({about})" if about else spec.name


def _held(worker: handler_pb2.Worker) -> str:
    named = [f"{held.call_id} (attempt {held.attempt})" for held in worker.held[:HELD_SHOWN]]
    more = len(worker.held) - len(named)
    return one_line(", ".join([*named, *([f"{more:,} more"] if more > 0 else [])]), SERVED_SHOWN)


def _state(worker: handler_pb2.Worker) -> str:
    match worker.state:
        case handler_pb2.WORKER_STATE_ATTACHED:
            more = worker.credit_messages
            room = f"it takes {counted(more, 'more call')}" if more else "it takes no more calls at the moment"
            return f"{room}, and watches for them" if worker.half_duplex else room
        case handler_pb2.WORKER_STATE_DRAINING:
            return "it takes nothing new, and goes when it holds nothing"
        case handler_pb2.WORKER_STATE_LOST:
            return "its stream broke; it is missed unless it comes back soon"
        case _:
            return "a state that this version does not know"
