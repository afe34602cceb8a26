"""The exceptions of the Agents SDK, where it has them. All that this package raises is in `baton.errors`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.errors import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    ModelTimeoutError,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    ToolTimeoutError,
    UserError,
)
from baton.runs.run_data import RunErrorDetails

__all__ = [
    "AgentsException",
    "InputGuardrailTripwireTriggered",
    "MaxTurnsExceeded",
    "ModelBehaviorError",
    "ModelRefusalError",
    "ModelTimeoutError",
    "OutputGuardrailTripwireTriggered",
    "RunErrorDetails",
    "ToolInputGuardrailTripwireTriggered",
    "ToolOutputGuardrailTripwireTriggered",
    "ToolTimeoutError",
    "UserError",
]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
