"""Guardrails of what goes in and what comes out, where the Agents SDK has them: `from agents.guardrail import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.agents.guardrails import (
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
    input_guardrail,
    output_guardrail,
)
from baton.hooks.answers import GuardrailFunctionOutput

__all__ = [
    "GuardrailFunctionOutput",
    "InputGuardrail",
    "InputGuardrailResult",
    "OutputGuardrail",
    "OutputGuardrailResult",
    "input_guardrail",
    "output_guardrail",
]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
