"""What is said over a worker's stream, by the names that the room of calls uses: `ports.frames`."""

from __future__ import annotations

from baton_server.ports.bus import Progress
from baton_server.ports.frames import (
    Ack,
    Ask,
    CancelOutcome,
    CancelReason,
    Credit,
    Deliver,
    End,
    Extended,
    Frame,
    Handler,
    HandlerKey,
    Held,
    HeldVerdict,
    HookReply,
    Introduction,
    Leave,
    Link,
    Question,
    ResultVerdict,
    SideEffects,
    Stop,
)

__all__ = [
    "Ack",
    "Ask",
    "CancelOutcome",
    "CancelReason",
    "Credit",
    "Deliver",
    "End",
    "Extended",
    "Frame",
    "Handler",
    "HandlerKey",
    "Held",
    "HeldVerdict",
    "HookReply",
    "Introduction",
    "Leave",
    "Link",
    "Progress",
    "Question",
    "ResultVerdict",
    "SideEffects",
    "Stop",
]
