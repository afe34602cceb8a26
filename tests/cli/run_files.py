"""Files that tests of `baton run` and `baton chat` name: an agent, and functions to be hosted."""

from __future__ import annotations

import json
from pathlib import Path

FUNCTIONS = '''
import threading

from baton import function_tool


@function_tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    print("asked for", city)
    return f"18 °C in {city}"


@function_tool
def sleep() -> str:
    """Sleep for ever."""
    threading.Event().wait()
    return "awake"
'''


def agent_file(folder: Path, *names: str, model: str = "") -> str:
    """Write the file of an agent that has functions of these names, which take anything."""
    tools = [{"function": {"name": name, "parameters_json": {"type": "object"}}} for name in names]
    path = folder / "agent.json"
    path.write_text(json.dumps({"name": "Guide", "model": model, "tools": tools}))
    return str(path)


def function_file(folder: Path) -> str:
    """Write a file of functions."""
    path = folder / "functions_of_run.py"
    path.write_text(FUNCTIONS)
    return str(path)
