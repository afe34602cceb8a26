"""What there is to tell of moments that take more than a few facts (PROTOCOL.md §6, LIFECYCLE)."""

from __future__ import annotations

from dataclasses import fields

from baton_server.core.items import Usage
from baton_server.core.jsontext import dump
from baton_server.core.run import Run
from baton_server.core.state import TurnState


def model_end(state: TurnState, run: Run) -> str:
    """Tell of a run's last reply, with its items as they came."""
    told = {
        "moment": "model_end",
        "agent": run.agent,
        "round": run.rounds,
        "model": run.last_model,
        "response_id": run.last_response_id,
        "usage": _usage(run.last_usage),
    }
    output = ",".join(state.items[number].json for number in run.reply)
    return f'{dump(told)[:-1]},"output":[{output}]}}'


def _usage(usage: Usage) -> dict[str, int]:
    """Say the tokens of a round by the names of `baton.v1.Usage`."""
    return {one.name: getattr(usage, one.name) for one in fields(usage) if one.name != "raw_json"}
