"""Words for the instructions of agents that hand over to one another."""

from __future__ import annotations

__all__ = ["RECOMMENDED_PROMPT_PREFIX", "prompt_with_handoff_instructions"]

RECOMMENDED_PROMPT_PREFIX = """\
# How you work with others
You are one of several agents who share a conversation. Each has instructions and functions of its own. Where another
one is better placed to help, hand the conversation over by calling its function, whose name begins with `transfer_to_`.
Whoever receives it sees what was said. The user talks with one assistant: do not mention agents or handovers.
"""
"""What an agent should know of handoffs. The words are not the Agents SDK's own; they say the same."""


def prompt_with_handoff_instructions(prompt: str) -> str:
    """Put what an agent should know of handoffs before its own instructions."""
    return f"{RECOMMENDED_PROMPT_PREFIX}\n{prompt}"
