"""Hooks that are told of moments and waited for: which methods hear of what, with what in their hands."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from tests.client.own_hooks import ask

from baton import Agent, AgentHooks, RunHooks, function_tool
from baton.runs.run_options import RunOptions

MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}


class Recipe(BaseModel):
    """An output type."""

    ingredients: list[str]


def tool() -> Any:
    """Make the function `f`."""
    return function_tool(name_override="f")(lambda: "")


class Told(RunHooks[Any]):
    """Remembers all moments of a run."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Hear."""
        self.heard.append(("start", context.context, agent.name))

    def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:  # type: ignore[override]
        """Hear, without a coroutine."""
        self.heard.append(("end", agent.name, output))

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Hear."""
        self.heard.append(("handoff", from_agent.name, to_agent.name))

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Hear."""
        self.heard.append(("tool", tool.name, context.tool_call_id, context.tool_arguments))

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Hear."""
        self.heard.append(("tool end", tool.name, context.tool_name, result))

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        """Hear."""
        self.heard.append(("llm", system_prompt, input_items))

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Hear."""
        self.heard.append(("llm end", response.response_id, response.output))


async def test_run_hooks_hear_every_moment_by_its_method() -> None:
    """With agents and functions as the program has them."""
    hooks = Told()
    agent: Agent[Any] = Agent(name="A", tools=[tool()], handoffs=[Agent(name="B")], output_type=Recipe)
    moments: list[dict[str, Any]] = [
        {"moment": "agent_start"},
        {"moment": "model_start", "round": 1, "instructions": "Be brief", "input": [MESSAGE]},
        {"moment": "model_end", "round": 1, "model": "m", "response_id": "r1", "output": [CALL]},
        {"moment": "function_start", "call_id": "call_1", "tool": "f", "arguments_json": "{}"},
        {"moment": "function_end", "call_id": "call_1", "tool": "f", "output": "sun", "settlement": "x"},
        {"moment": "handoff", "from_agent": "A", "to_agent": "B"},
        {"moment": "agent_end", "output": {"ingredients": []}},
    ]
    for moment in moments:
        assert await ask("lifecycle", {"agent": "A", **moment}, agent, options=RunOptions(hooks=hooks)) == {}

    assert hooks.heard == [
        ("start", "basket", "A"),
        ("llm", "Be brief", [MESSAGE]),
        ("llm end", "r1", [CALL]),
        ("tool", "f", "call_1", "{}"),
        ("tool end", "f", "f", "sun"),
        ("handoff", "A", "B"),
        ("end", "A", Recipe(ingredients=[])),
    ]


async def test_agent_hooks_hear_of_their_agent() -> None:
    """Of a handoff they get the receiver first, as with the Agents SDK."""
    heard: list[Any] = []

    class Own(AgentHooks[Any]):
        async def on_start(self, context: Any, agent: Any) -> None:
            heard.append(("start", agent.name))

        async def on_end(self, context: Any, agent: Any, output: Any) -> None:
            heard.append(("end", output))

        async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
            heard.append((agent.name, "from", source.name))

    agent: Agent[Any] = Agent(name="A", hooks=Own(), handoffs=[Agent(name="B")])
    await ask("lifecycle", {"moment": "agent_start"}, agent)
    await ask("lifecycle", {"moment": "handoff", "from_agent": "A", "to_agent": "B"}, agent)
    await ask("lifecycle", {"moment": "agent_end", "output": "Bye"}, agent)

    assert heard == [("start", "A"), ("B", "from", "A"), ("end", "Bye")]
