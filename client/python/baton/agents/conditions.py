"""What depends on the moment: whether an agent has a function or a handoff, and whether a person must allow a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from baton.errors import UserError
from baton.hooks import RemoteHook
from baton.hooks.data import EnabledData, ToolCallData
from baton.hooks.refs import RefOf, hook_use
from baton.options import options
from baton.v1 import agent_pb2

EXPIRES_S = (1.0, 30 * 24 * 3600.0)
"""Least and most that an approval may be waited for (agent.proto, Approval.expires)."""

EnabledRule = bool | Callable[[Any, Any], Any] | RemoteHook
"""A function is called as `(context, agent)`, sync or async, before each request of the model."""

ApprovalRule = bool | Callable[[Any, dict[str, Any], str], Any] | RemoteHook
"""A function is called as `(context, arguments, call_id)`, sync or async, where the arguments fit the schema."""


@options
@dataclass(frozen=True)
class Approval:
    """Whether a person must allow a call, and for how long that is waited for.

    `needs_approval`: as of a function. `expires`: seconds from the pause until the call is rejected by itself, 1 s to
    30 days; None: never.
    """

    needs_approval: ApprovalRule = True
    expires: float | None = None

    def __post_init__(self) -> None:
        _check("needs_approval", self.needs_approval)
        least, most = EXPIRES_S
        if self.expires is not None and not least <= self.expires <= most:
            raise ValueError(f"expires must be {least:g} to {most:g} seconds, or None, not {self.expires!r}")


AnyApproval = ApprovalRule | Approval


def check_enabled(owner: str, given: object) -> None:
    """Check what stands for `is_enabled`. Raises UserError, with the value."""
    _check(f"{owner}: is_enabled", given)


def check_approval(owner: str, given: object) -> None:
    """Check what stands for `needs_approval`. Raises UserError, with the value."""
    if not isinstance(given, Approval):
        _check(f"{owner}: needs_approval", given)


def enabled_to_pb(kind: str, given: EnabledRule, ref_of: RefOf) -> agent_pb2.Enabled | None:
    """Write `baton.v1.Enabled`; None: always. `kind`: "tool_enabled" or "handoff_enabled"."""
    if isinstance(given, bool):
        return None if given else agent_pb2.Enabled(always=False)
    return agent_pb2.Enabled(hook=ref_of(hook_use(kind, given, _enabled_arguments)))


def approval_to_pb(given: AnyApproval, ref_of: RefOf) -> agent_pb2.Approval | None:
    """Write `baton.v1.Approval`; None: never needed."""
    approval = given if isinstance(given, Approval) else Approval(given)
    rule = approval.needs_approval
    if rule is False:
        return None
    made = agent_pb2.Approval()
    if isinstance(rule, bool):
        made.always = True
    else:
        made.hook.CopyFrom(ref_of(hook_use("needs_approval", rule, _approval_arguments)))
    if approval.expires is not None:
        made.expires.FromTimedelta(timedelta(seconds=approval.expires))
    return made


def _enabled_arguments(data: EnabledData[Any]) -> tuple[Any, ...]:
    return data, data.agent


def _approval_arguments(data: ToolCallData[Any]) -> tuple[Any, ...]:
    return data, data.arguments, data.call_id


def _check(what: str, given: object) -> None:
    if not isinstance(given, bool | RemoteHook) and not callable(given):
        raise UserError(f"{what} must be True, False, a function or a RemoteHook, not {given!r}")
