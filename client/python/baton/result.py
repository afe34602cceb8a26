"""Results of runs, where the Agents SDK has them: `from agents.result import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.runs.results import RunResult
from baton.runs.streamed import RunResultStreaming
from baton.sdk_names import RunResultBase

__all__ = ["RunResult", "RunResultBase", "RunResultStreaming"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
