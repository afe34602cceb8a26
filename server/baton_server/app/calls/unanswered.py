"""Why a hook has no answer: failures with one of the HOOK_ reasons, which the Runner takes as its kind says."""

from __future__ import annotations

from collections.abc import Sequence

from baton_server.app.calls.frames import HookReply
from baton_server.core.errors import Failure, Reason, clip
from baton_server.core.events import HookKind

TYPE_BYTES = 128
"""Shown of an exception's type: the message of an error has 1 KiB, most of it for what the hook says."""


def unserved(kind: HookKind, name: str, scopes: Sequence[str]) -> Failure:
    """Say that nobody serves it. `scopes` as they were looked up, the empty one last."""
    where = ", ".join(repr(scope) for scope in scopes)
    return Failure(
        reason=Reason.HOOK_UNSERVED,
        message=f"No worker serves the hook {name!r} ({kind}) in the scopes {where}. Attach one that registers it "
        "there, or take the hook out of the agent or the run.",
        metadata={"kind": kind.value, "name": name, "scopes": ",".join(scopes)},
    )


def late(kind: HookKind, name: str, timeout_s: float, asked: bool) -> Failure:
    """Say that it was not answered in time. `asked`: it was sent to somebody at least."""
    what = "was not answered" if asked else "could not be asked, for its workers had no room,"
    return Failure(
        reason=Reason.HOOK_TIMEOUT,
        message=f"The hook {name!r} ({kind}) {what} within {timeout_s:g} s. Make it faster, give it more workers, or a "
        "longer timeout.",
        metadata={"kind": kind.value, "name": name, "timeout": f"{timeout_s:g}s"},
    )


def crowded(kind: HookKind, name: str, timeout_s: float, waiting: int) -> Failure:
    """Say that so many questions wait that this one would not be answered in time."""
    return Failure(
        reason=Reason.HOOK_TIMEOUT,
        message=f"The hook {name!r} ({kind}) was not asked: {waiting} questions wait for workers already. Attach more "
        "workers, or let each answer more batches at once.",
        metadata={"kind": kind.value, "name": name, "timeout": f"{timeout_s:g}s"},
    )


def raised(kind: HookKind, name: str, reply: HookReply) -> Failure:
    """Say that its code raised, or that it said a failure on purpose."""
    facts = {"kind": kind.value, "name": name}
    if reply.crash_type:
        facts["type"] = reply.crash_type
        what = f"raised {clip(reply.crash_type, TYPE_BYTES)}"
    else:
        what = "said that it failed"
    words = f": {reply.failure}" if reply.failure else "."
    return Failure(reason=Reason.HOOK_RAISED, message=f"The hook {name!r} ({kind}) {what}{words}", metadata=facts)
