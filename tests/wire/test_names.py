"""Enums: a value of the core, or of what is said to workers, is one of the contract, and the other way round."""

from collections.abc import Mapping
from typing import Any

import pytest

from baton.v1 import agent_pb2, error_pb2, event_pb2, handler_pb2, item_pb2, run_config_pb2, session_pb2
from baton_server.core.settings import RetryKind
from baton_server.ports.store import CallState
from baton_server.wire import names
from baton_server.wire.names import Names

TABLES: Mapping[str, tuple[Names[Any], Any, set[str]]] = {
    # Beside each enum of the contract: what of it has no value on our side, since it is said in another way.
    "ErrorReason": (names.REASONS, error_pb2.ErrorReason, set()),
    "ItemStatus": (names.ITEM_STATUSES, item_pb2.ItemStatus, set()),
    "MessageRole": (names.ROLES, item_pb2.MessageRole, set()),
    "Settlement": (names.SETTLEMENTS, item_pb2.Settlement, set()),
    "TurnStatus": (names.TURN_STATUSES, event_pb2.TurnStatus, set()),
    "SessionStatus": (names.SESSION_STATUSES, session_pb2.SessionStatus, set()),
    "CancelMode": (names.CANCEL_MODES, event_pb2.CancelMode, set()),
    "AfterLoss": (names.AFTER_LOSSES, event_pb2.AfterLoss, set()),
    "WithdrawalReason": (names.WITHDRAWALS, event_pb2.WithdrawalReason, set()),
    "GuardrailStage": (names.GUARDRAIL_STAGES, event_pb2.GuardrailStage, set()),
    "GuardrailVerdict": (names.GUARDRAIL_VERDICTS, event_pb2.GuardrailVerdict, set()),
    "HandlerKind": (names.HOOK_KINDS, event_pb2.HandlerKind, {"FUNCTION"}),
    "LostWorker": (names.LOST_WORKERS, agent_pb2.LostWorker, set()),
    "LifecycleMoment": (names.MOMENTS, agent_pb2.LifecycleMoment, set()),
    "ReasoningItemIds": (names.REASONING_ITEM_IDS, run_config_pb2.ReasoningItemIds, set()),
    "ToolNotFound": (names.TOOLS_NOT_FOUND, run_config_pb2.ToolNotFound, set()),
    "ToolNameCollision": (names.TOOL_NAME_COLLISIONS, run_config_pb2.ToolNameCollision, set()),
    "SideEffects": (names.SIDE_EFFECTS, handler_pb2.SideEffects, set()),
    "ResultVerdict": (names.RESULT_VERDICTS, handler_pb2.ResultVerdict, set()),
    "HeldVerdict": (names.HELD_VERDICTS, handler_pb2.HeldVerdict, set()),
    "CancelReason": (names.CANCEL_REASONS, handler_pb2.CancelReason, set()),
    "CancelOutcome": (names.CANCEL_OUTCOMES, handler_pb2.CancelOutcome, set()),
    "WorkerState": (names.WORKER_STATES, handler_pb2.WorkerState, set()),
    "CauseKind": (names.CAUSE_KINDS, handler_pb2.CauseKind, set()),
}


@pytest.mark.parametrize("name", TABLES)
def test_neither_side_has_a_value_that_the_other_lacks(name: str) -> None:
    """A value that is added to the contract alone would be refused, or read as nothing, in some turn."""
    table, wire, elsewhere = TABLES[name]
    prefix = wire.Name(0).removesuffix("UNSPECIFIED")

    assert {wire.Name(number).removeprefix(prefix) for number in table.to_core} == {
        value.removeprefix(prefix) for value in wire.DESCRIPTOR.values_by_name
    } - {"UNSPECIFIED"} - elsewhere


def test_every_table_of_the_wire_is_compared() -> None:
    """One that is added there is added here."""
    made = [table for table in vars(names).values() if isinstance(table, Names)]

    assert len(made) == len(TABLES)
    assert all(any(table is compared for compared, _, _ in TABLES.values()) for table in made)


def test_arms_of_a_retry_rule_are_kinds_of_the_core() -> None:
    """A rule that is added to the contract alone could not be read."""
    arms = {field.name for field in agent_pb2.RetryRule.DESCRIPTOR.oneofs_by_name["rule"].fields}

    assert arms == {kind.value for kind in RetryKind}


def test_states_of_an_open_call_are_known_to_the_store() -> None:
    """UNSERVED is QUEUED with nobody there, and a call that is CHECKED is shown as LEASED or QUEUED."""
    states = event_pb2.RequiredActionState.DESCRIPTOR.values_by_name
    wire = {name.removeprefix("REQUIRED_ACTION_STATE_") for name in states}

    assert wire - {"UNSPECIFIED", "UNSERVED"} <= {state.name for state in CallState}
