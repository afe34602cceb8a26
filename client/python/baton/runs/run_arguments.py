"""What `Runner` is told beside agent and input: the same for its three ways of running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from baton.agents.lifecycle import RunHooks
from baton.runs.run_config import RunConfig


class RunArguments(TypedDict, total=False):
    """Options of a run, all by the names of the Agents SDK. What is left out is None, or as it says.

    `context`: handed to functions and hooks; it never leaves this process. `max_turns`: most rounds, 10 if it is left
    out; None: no limit. `hooks`: a `RunHooks`, told what happens and waited for. `run_config`: a `RunConfig` or a dict
    of its fields. `error_handlers`: final outputs in place of errors, by "max_turns", "model_refusal" and
    "invalid_final_output". What the model remembers, one of them: `session`, the server's or an object of the
    caller's; `conversation_id`, a conversation that the model's API keeps; `previous_response_id`, a reply there to go
    on from, and with `auto_previous_response_id` each round goes on from the one before. None of them: the input is
    all that the model sees.
    """

    context: Any
    max_turns: int | None
    hooks: RunHooks[Any] | None
    run_config: RunConfig | Mapping[str, object] | None
    error_handlers: Mapping[str, Any] | None
    previous_response_id: str | None
    auto_previous_response_id: bool
    conversation_id: str | None
    session: Any
