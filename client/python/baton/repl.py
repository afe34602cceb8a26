"""A conversation with an agent at a terminal, to try it."""

from __future__ import annotations

from typing import Any

from baton.agents.agent import Agent
from baton.runs.run_options import DEFAULT_MAX_TURNS
from baton.runs.runner import Runner
from baton.runs.stream_events import (
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    ResponseTextDeltaEvent,
    RunItemStreamEvent,
    StreamEvent,
)

PROMPT = " > "
ENDS = frozenset({"exit", "quit"})
"""Words that end the conversation, as the end of the input and Ctrl-C do."""


async def run_demo_loop(
    agent: Agent[Any], *, stream: bool = True, context: Any = None, max_turns: int | None = DEFAULT_MAX_TURNS
) -> None:
    """Talk with an agent, and with those that it hands over to, until "exit" or "quit" is typed.

    `stream`: show an answer while it is written. `context`, `max_turns`: of each run. `baton chat` does more.
    """
    items: list[Any] = []
    while True:
        try:
            text = input(PROMPT).strip()  # noqa: ASYNC250  # nothing else goes on here; Ctrl-C must reach it
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if text.lower() in ENDS:
            return
        if not text:
            continue
        items.append({"role": "user", "content": text})
        if stream:
            told = Runner.run_streamed(agent, items, context=context, max_turns=max_turns)
            async for event in told.stream_events():
                _show(event)
            print()
            agent, items = told.last_agent, told.to_input_list()
        else:
            result = await Runner.run(agent, items, context=context, max_turns=max_turns)
            if result.final_output is not None:
                print(result.final_output)
            agent, items = result.last_agent, result.to_input_list()


def _show(event: StreamEvent) -> None:
    match event:
        case RawResponsesStreamEvent(data=ResponseTextDeltaEvent(delta=delta)):
            print(delta, end="", flush=True)
        case RunItemStreamEvent(name="tool_called"):
            print("\n[tool called]", flush=True)
        case RunItemStreamEvent(name="tool_output", item=item):
            print(f"\n[tool output: {getattr(item, 'output', '')}]", flush=True)
        case AgentUpdatedStreamEvent(new_agent=agent):
            print(f"\n[Agent updated: {agent.name}]", flush=True)
        case _:
            pass
