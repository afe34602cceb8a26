"""What a streamed run tells, where the Agents SDK has it: `from agents.stream_events import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.runs.stream_events import AgentUpdatedStreamEvent, RawResponsesStreamEvent, RunItemStreamEvent, StreamEvent

__all__ = ["AgentUpdatedStreamEvent", "RawResponsesStreamEvent", "RunItemStreamEvent", "StreamEvent"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
