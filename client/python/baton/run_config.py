"""Options of one run, and the traces that runs share."""

from __future__ import annotations

import contextvars
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from baton.agent import ModelSettings, settings_to_pb
from baton.hook_refs import (
    RefOf,
    checked_guardrails,
    filters_to_pb,
    guardrails_to_pb,
    lifecycle_to_pb,
    listed_filters,
    listed_lifecycle,
    only_remote,
)
from baton.hooks import InputGuardrail, LifecycleFunction, LifecycleHook, ModelInputFilter, RemoteHook
from baton.options import options, refusing_unknown
from baton.v1 import run_config_pb2

_tracing: contextvars.ContextVar[Trace | None] = contextvars.ContextVar("baton_trace", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What the runs inside a `trace` share."""

    workflow_name: str
    group_id: str
    metadata: Mapping[str, str]
    disabled: bool


@options
@dataclass(frozen=True)
class RunConfig:
    """Options of a run; they win over the agent's. None: the agent's, the surrounding `trace`'s, the default.

    `scopes`: where the names of `RemoteFunction`s and `RemoteHook`s are looked up, in order, before the empty scope; at
    most 7, since this process's own comes before them. `input_guardrails`: after the agent's.
    `call_model_input_filter`: changes what each request to the model carries, never the history: a function of
    `CallModelData` that gives a `ModelInputData`, sync or async, a `RemoteHook`, or a list of them, in order.
    `lifecycle_hooks`: are told what happens; nothing waits for them.
    """

    model: str | None = None
    model_settings: ModelSettings | None = None
    workflow_name: str | None = None
    group_id: str | None = None
    trace_metadata: Mapping[str, str] | None = None
    tracing_disabled: bool = False
    scopes: Sequence[str] = ()
    input_guardrails: Sequence[InputGuardrail | RemoteHook] = ()
    call_model_input_filter: ModelInputFilter | RemoteHook | Sequence[ModelInputFilter | RemoteHook] | None = None
    lifecycle_hooks: Sequence[LifecycleHook | LifecycleFunction | RemoteHook] = ()

    def __post_init__(self) -> None:
        checked_guardrails("RunConfig", self.input_guardrails)
        listed_filters(self.call_model_input_filter)
        listed_lifecycle(self.lifecycle_hooks)


@contextmanager
@refusing_unknown("trace")
def trace(
    workflow_name: str,
    group_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    disabled: bool = False,
) -> Iterator[Trace]:
    """Bind the traces of the runs inside: one workflow name, one group, one set of labels.

    Without a `group_id` they get a new one of their own, so that they are found together.
    """
    made = Trace(
        workflow_name=workflow_name,
        group_id=group_id or f"group_{uuid.uuid4().hex}",
        metadata=dict(metadata or {}),
        disabled=disabled,
    )
    token = _tracing.set(made)
    try:
        yield made
    finally:
        _tracing.reset(token)


def read_config(config: RunConfig | Mapping[str, object] | None) -> RunConfig:
    """Take a run's options as they may be given: an object, a mapping of its fields, or none."""
    if config is None:
        return RunConfig()
    if isinstance(config, RunConfig):
        return config
    if isinstance(config, Mapping):
        return RunConfig(**config)  # type: ignore[arg-type]  # unknown names are refused, values by protobuf
    raise TypeError(f"run_config must be a RunConfig or a dict, not {type(config).__name__}")


def config_to_pb(
    config: RunConfig, max_turns: int | None, scopes: Sequence[str], in_session: bool, ref_of: RefOf = only_remote
) -> run_config_pb2.RunConfig:
    """Write `baton.v1.RunConfig`. `max_turns` None: no limit. `scopes`: this process's own. `ref_of`: names hooks."""
    made = run_config_pb2.RunConfig(
        model=config.model or "",
        scopes=[*scopes, *config.scopes],
        input_guardrails=guardrails_to_pb(config.input_guardrails, ref_of),
        model_input_filters=filters_to_pb(listed_filters(config.call_model_input_filter), ref_of),
        lifecycle_hooks=lifecycle_to_pb(listed_lifecycle(config.lifecycle_hooks), ref_of),
    )
    if max_turns is None:
        made.unlimited_turns = True
    else:
        made.max_turns = max_turns
    if config.model_settings is not None:
        made.model_settings.CopyFrom(settings_to_pb(config.model_settings))
    if not in_session:
        made.history.caller.SetInParent()
    tracing = _tracing_to_pb(config, _tracing.get())
    if tracing is not None:
        made.tracing.CopyFrom(tracing)
    return made


def _tracing_to_pb(config: RunConfig, around: Trace | None) -> run_config_pb2.Tracing | None:
    """Lay a run's own words over those of the trace around it; None: neither says anything."""
    made = run_config_pb2.Tracing(
        disabled=config.tracing_disabled or (around is not None and around.disabled),
        workflow_name=config.workflow_name or (around.workflow_name if around else ""),
        group_id=config.group_id or (around.group_id if around else ""),
    )
    own = config.trace_metadata
    made.metadata.update(own if own is not None else around.metadata if around else {})
    return made if made != run_config_pb2.Tracing() else None
