"""Traces, where the Agents SDK has them: `from agents.tracing import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.runs.tracing import Trace, TracingConfig, gen_trace_id, get_current_trace, set_tracing_disabled, trace

__all__ = ["Trace", "TracingConfig", "gen_trace_id", "get_current_trace", "set_tracing_disabled", "trace"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
