"""What hooks answer, as programs say it. `hook_writing` makes JSON of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from baton.options import options


@dataclass(frozen=True, slots=True)
class GuardrailFunctionOutput:
    """What a guardrail says. `output_info`: its reasons, anything with a JSON form; it stands in the session's log."""

    output_info: Any
    tripwire_triggered: bool


@dataclass(frozen=True, slots=True)
class ToolGuardrailFunctionOutput:
    """What a guardrail of a function says; make it with `allow`, `reject_content` or `raise_exception`.

    `output_info`: its reasons, anything with a JSON form; it stands in the session's log. `behavior`: as the Agents
    SDK writes it, such as {"type": "reject_content", "message": "…"}.
    """

    output_info: Any = None
    behavior: Mapping[str, str] = field(default_factory=lambda: {"type": "allow"})

    @classmethod
    def allow(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """Let the call, or its output, pass."""
        return cls(output_info)

    @classmethod
    def reject_content(cls, message: str, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """Tell the model these words in place of the output; the run goes on. A rejected call is not executed."""
        return cls(output_info, {"type": "reject_content", "message": message})

    @classmethod
    def raise_exception(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """End the run: ToolInputGuardrailTripwireTriggered or ToolOutputGuardrailTripwireTriggered."""
        return cls(output_info, {"type": "raise_exception"})


@dataclass(slots=True)
class ModelInputData:
    """What one request of the model carries: Responses API items, and instructions (None: none)."""

    input: list[Any]
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class ToolsToFinalOutputResult:
    """Whether outputs of functions end the run. `final_output`: read only where they do."""

    is_final_output: bool
    final_output: Any = None


@dataclass(frozen=True, slots=True)
class RunErrorHandlerResult:
    """A final output in place of an error, of the agent's output type.

    `include_in_history`: as a message of the assistant.
    """

    final_output: Any
    include_in_history: bool = True


@options
@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether a failed model request is sent again. `delay` in seconds; None: as the backoff says."""

    retry: bool
    delay: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TookEffect:
    """A check says that the attempt did its work, and what the function would have returned.

    `output`: a text, or anything with a JSON form. A check that does not know it returns "took_effect" instead.
    """

    output: Any


Effect = Literal["none", "took_effect", "unknown"] | TookEffect
"""What a check answers. "none": nothing was done, so that the call is delivered again. "took_effect": it was done, what
came of it is not known, so that somebody is asked. "unknown": as the call's `lost_worker` says."""
