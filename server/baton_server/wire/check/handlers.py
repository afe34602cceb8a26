"""What workers declare, one handler by one: a bad declaration refuses that handler alone."""

from __future__ import annotations

from collections.abc import Sequence

from baton.v1 import event_pb2, handler_pb2
from baton_server.core.errors import Failure, Reason
from baton_server.wire.check.execution import VERSION_CHARACTERS, handler_execution
from baton_server.wire.check.violations import Violations
from baton_server.wire.rules import schema_problem

CONCURRENCY = 10_000
SHOWN_CHARACTERS = 80
"""Of a name that is wrong, in messages and metadata."""

FUNCTIONS_ONLY = ("version", "description", "parameters_json", "execution", "max_concurrency")
"""Fields that say nothing about a hook."""

_Key = tuple[int, str, str]


def handler_failures(specs: Sequence[handler_pb2.HandlerSpec]) -> list[Failure | None]:
    """Judge declarations, one by one, in order; None: it may be registered."""
    seen: set[_Key] = set()
    failures: list[Failure | None] = []
    for spec in specs:
        failures.append(_failure(spec, seen))
        seen.add(_key(spec))
    return failures


def _failure(spec: handler_pb2.HandlerSpec, seen: set[_Key]) -> Failure | None:
    found = Violations()
    _spec(found, spec)
    if _key(spec) in seen:
        found.add("name", "is declared twice with this kind and version")
    found.no_nul(spec)
    if not found:
        return None
    name, first = spec.name[:SHOWN_CHARACTERS], found.found[0]
    wrong = "; ".join(f"{one.path} {one.problem}" for one in found.found)
    return Failure(
        reason=Reason.HANDLER_INVALID,
        message=f"The handler {name!r} was not registered: {wrong}.",
        metadata={"name": name, "problem": first.path},
    )


def _spec(found: Violations, spec: handler_pb2.HandlerSpec) -> None:
    found.function_name("name", spec.name)
    found.enum("kind", spec.kind, event_pb2.HandlerKind)
    if _kind(spec) != event_pb2.HANDLER_KIND_FUNCTION:
        for field, _ in spec.ListFields():
            if field.name in FUNCTIONS_ONLY:
                found.add(field.name, "is for functions only")
        return
    found.text("version", spec.version, VERSION_CHARACTERS)
    problem = schema_problem(spec.parameters_json) if spec.parameters_json else None
    if problem is not None:
        found.add("parameters_json", problem)
    handler_execution(found, "execution", spec.execution)
    found.between("max_concurrency", spec.max_concurrency, 0, CONCURRENCY)


def _kind(spec: handler_pb2.HandlerSpec) -> int:
    return spec.kind or event_pb2.HANDLER_KIND_FUNCTION


def _key(spec: handler_pb2.HandlerSpec) -> _Key:
    return _kind(spec), spec.name, spec.version
