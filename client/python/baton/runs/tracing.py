"""Traces that runs share, and what a run says about its own."""

from __future__ import annotations

import contextvars
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from baton.checks import check_bool
from baton.errors import UserError
from baton.options import refuse, refusing_unknown
from baton.v1 import run_config_pb2

if TYPE_CHECKING:
    from baton.runs.run_config import RunConfig

_tracing: contextvars.ContextVar[Trace | None] = contextvars.ContextVar("baton_trace", default=None)

_TRACE_ID = re.compile("trace_[0-9a-f]{32}")


@dataclass(slots=True)
class _Default:
    disabled: bool = False


_default = _Default()


class TracingConfig(TypedDict, total=False):
    """How a run is traced. `include_task_and_turn_spans`: spans for the turn and for each round; left out: True."""

    include_task_and_turn_spans: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What the runs inside a `trace` share. `trace_id` None: each has one of its own."""

    workflow_name: str
    group_id: str
    metadata: Mapping[str, str]
    disabled: bool
    trace_id: str | None = None


@contextmanager
@refusing_unknown("trace")
def trace(
    workflow_name: str,
    trace_id: str | None = None,
    group_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    disabled: bool = False,
) -> Iterator[Trace]:
    """Bind the traces of the runs inside: one workflow name, one group, one set of labels.

    `trace_id`: "trace_" and 32 hex digits: they are one trace. Without a `group_id` they get a new one of their own, so
    that they are found together. `metadata`: labels; what is no text is sent as JSON.
    """
    check_trace_id("trace", trace_id)
    labels = trace_labels("trace: metadata", metadata)
    made = Trace(
        workflow_name=workflow_name,
        group_id=group_id or f"group_{uuid.uuid4().hex}",
        metadata=labels or {},
        disabled=disabled,
        trace_id=trace_id,
    )
    token = _tracing.set(made)
    try:
        yield made
    finally:
        _tracing.reset(token)


def get_current_trace() -> Trace | None:
    """Find the trace around the caller; None: there is none."""
    return _tracing.get()


def gen_trace_id() -> str:
    """Make an id for a `trace`, or for `RunConfig.trace_id`."""
    return f"trace_{uuid.uuid4().hex}"


def set_tracing_disabled(disabled: bool) -> None:
    """Have no run of this process traced from here on, whatever its own words; False: as they say."""
    check_bool("set_tracing_disabled: disabled", disabled)
    _default.disabled = disabled


def check_trace_id(owner: str, trace_id: object) -> None:
    """Check an id. Raises UserError, with the value."""
    if trace_id is not None and not (isinstance(trace_id, str) and _TRACE_ID.fullmatch(trace_id)):
        raise UserError(f'{owner}: trace_id must be "trace_" and 32 hex digits in small letters, not {trace_id!r}')


def trace_labels(what: str, given: Any) -> dict[str, str] | None:
    """Write labels as texts, what is none as JSON. Raises TypeError for what can be neither."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} must be a dict, not {given!r}")
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"{what}: the name of a label must be a text, not {name!r}")
    return {name: _label(f"{what}[{name!r}]", value) for name, value in given.items()}


def _label(what: str, value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must be a text or what JSON can say, not {value!r}") from error


def check_tracing(given: Any) -> None:
    """Check a TracingConfig. Raises TypeError or UserError, with what is wrong."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise TypeError(f"RunConfig: tracing must be a TracingConfig, a dict, not {given!r}")
    if "api_key" in given:
        raise UserError(
            "RunConfig: tracing does not take an api_key: a stored configuration holds no secret; configure the "
            "exporter of the server"
        )
    refuse("TracingConfig", (name for name in given if name not in TracingConfig.__annotations__))


def tracing_to_pb(config: RunConfig) -> run_config_pb2.Tracing | None:
    """Lay a run's own words over those of the trace around it; None: neither says anything."""
    around = _tracing.get()
    made = run_config_pb2.Tracing(
        disabled=_default.disabled or config.tracing_disabled or (around is not None and around.disabled),
        include_sensitive_data=config.trace_include_sensitive_data,
        workflow_name=config.workflow_name or (around.workflow_name if around else ""),
        trace_id=config.trace_id or (around.trace_id if around else None) or "",
        group_id=config.group_id or (around.group_id if around else ""),
        include_turn_spans=(config.tracing or {}).get("include_task_and_turn_spans"),
    )
    own = config.trace_metadata
    made.metadata.update(own if own is not None else around.metadata if around else {})
    return made if made != run_config_pb2.Tracing() else None
