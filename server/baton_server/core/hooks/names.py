"""Names of questions. They follow from the turn and the moment, so that a replay and another process make the same."""

from __future__ import annotations

from baton_server.core import ids


def guardrail_id(turn_id: str, first_number: int, index: int) -> str:
    """Name the question of input guardrail `index` about the input that begins with item `first_number`."""
    return ids.hook_id(turn_id, f"g{first_number:x}.{index}")


def check_id(turn_id: str, call_id: str, attempt: int) -> str:
    """Name the question what an attempt did."""
    return ids.hook_id(turn_id, f"e{ids.number_of(call_id):x}.{attempt}")


def round_id(turn_id: str, run: str, letter: str, round_number: int, index: int) -> str:
    """Name a question about a round: `letter` says which, `index` of several. `run`: `Run.mark`."""
    return ids.hook_id(turn_id, f"{letter}{run}{'.' if run else ''}{round_number:x}.{index}")


def call_id(turn_id: str, letter: str, call_id: str, index: int) -> str:
    """Name a question about a call."""
    return ids.hook_id(turn_id, f"{letter}{ids.number_of(call_id):x}.{index}")


def store_id(turn_id: str, up_to: int) -> str:
    """Name the question to a caller's store to keep what stands before item `up_to`."""
    return ids.hook_id(turn_id, f"s{up_to:x}")


def stored_up_to(hook_id: str) -> int:
    """Read the number back out of an id that `store_id` made; 0: it is another one's."""
    moment = hook_id.rpartition("_")[2]
    return int(moment[1:], 16) if moment.startswith("s") else 0


def index_of(hook_id: str) -> int:
    """Read the index of several back out of an id that `guardrail_id`, `round_id` or `call_id` made."""
    return int(hook_id.rpartition(".")[2])


def call_number_of(hook_id: str) -> int:
    """Read the number of a call back out of an id that `call_id` made with a letter of one character."""
    return int(hook_id.rpartition("_")[2][1:].partition(".")[0], 16)
