"""Enums by name: a value of the core and the number of the same name in a proto enum.

Built once from the names themselves, so that a value which one side lacks fails at import, not in a turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Generic, TypeVar

from baton.v1 import agent_pb2, error_pb2, event_pb2, handler_pb2, item_pb2, run_config_pb2, session_pb2
from baton_server.core.agents import Moment
from baton_server.core.errors import Reason
from baton_server.core.events import (
    AfterLoss,
    CancelMode,
    HookKind,
    SessionStatus,
    Stage,
    TurnStatus,
    Verdict,
    Withdrawal,
)
from baton_server.core.items import ItemStatus, Role, Settlement
from baton_server.core.run_config import ReasoningItemIds, ToolNameCollision, ToolNotFound
from baton_server.core.tools import LostWorker
from baton_server.ports.frames import CancelOutcome, CancelReason, HeldVerdict, ResultVerdict, SideEffects
from baton_server.ports.workers import CauseKind, WorkerState

C = TypeVar("C", bound=Enum)


class Names(Generic[C]):
    """Both directions between a core enum and a proto enum whose names differ by a prefix.

    `to_wire` is typed loosely, since stubs give each proto enum a type of its own.
    """

    def __init__(self, core: type[C], wire: Any, prefix: str) -> None:
        self.to_wire: Mapping[C, Any] = {value: wire.Value(prefix + value.name) for value in core}
        self.to_core: Mapping[int, C] = {number: value for value, number in self.to_wire.items()}


REASONS = Names(Reason, error_pb2.ErrorReason, "ERROR_REASON_")
ITEM_STATUSES = Names(ItemStatus, item_pb2.ItemStatus, "ITEM_STATUS_")
ROLES = Names(Role, item_pb2.MessageRole, "MESSAGE_ROLE_")
SETTLEMENTS = Names(Settlement, item_pb2.Settlement, "SETTLEMENT_")
TURN_STATUSES = Names(TurnStatus, event_pb2.TurnStatus, "TURN_STATUS_")
SESSION_STATUSES = Names(SessionStatus, session_pb2.SessionStatus, "SESSION_STATUS_")
CANCEL_MODES = Names(CancelMode, event_pb2.CancelMode, "CANCEL_MODE_")
AFTER_LOSSES = Names(AfterLoss, event_pb2.AfterLoss, "AFTER_LOSS_")
WITHDRAWALS = Names(Withdrawal, event_pb2.WithdrawalReason, "WITHDRAWAL_REASON_")
GUARDRAIL_STAGES = Names(Stage, event_pb2.GuardrailStage, "GUARDRAIL_STAGE_")
GUARDRAIL_VERDICTS = Names(Verdict, event_pb2.GuardrailVerdict, "GUARDRAIL_VERDICT_")
HOOK_KINDS = Names(HookKind, event_pb2.HandlerKind, "HANDLER_KIND_")
LOST_WORKERS = Names(LostWorker, agent_pb2.LostWorker, "LOST_WORKER_")
MOMENTS = Names(Moment, agent_pb2.LifecycleMoment, "LIFECYCLE_MOMENT_")
REASONING_ITEM_IDS = Names(ReasoningItemIds, run_config_pb2.ReasoningItemIds, "REASONING_ITEM_IDS_")
TOOLS_NOT_FOUND = Names(ToolNotFound, run_config_pb2.ToolNotFound, "TOOL_NOT_FOUND_")
TOOL_NAME_COLLISIONS = Names(ToolNameCollision, run_config_pb2.ToolNameCollision, "TOOL_NAME_COLLISION_")
SIDE_EFFECTS = Names(SideEffects, handler_pb2.SideEffects, "SIDE_EFFECTS_")
RESULT_VERDICTS = Names(ResultVerdict, handler_pb2.ResultVerdict, "RESULT_VERDICT_")
HELD_VERDICTS = Names(HeldVerdict, handler_pb2.HeldVerdict, "HELD_VERDICT_")
CANCEL_REASONS = Names(CancelReason, handler_pb2.CancelReason, "CANCEL_REASON_")
CANCEL_OUTCOMES = Names(CancelOutcome, handler_pb2.CancelOutcome, "CANCEL_OUTCOME_")
WORKER_STATES = Names(WorkerState, handler_pb2.WorkerState, "WORKER_STATE_")
CAUSE_KINDS = Names(CauseKind, handler_pb2.CauseKind, "CAUSE_KIND_")
