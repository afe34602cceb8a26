"""The command line: `python -m tests.conformance`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.compare import Json
from tests.conformance.house import house
from tests.conformance.scenario import ModelScripts, Rpc, check

ABOUT = """\
Runs conformance scenarios through the Python client and a Baton server, which is started for
it, against a scripted model, and prints for each scenario one line of JSON:

    {"name": NAME, "differences": [LINE, ...], "got": {...}}

`differences` says where Baton departs from the reference, the Agents SDK's own Runner; a word that
nobody knows is one too, and the scenario is not run. `got` is what Baton did, in the form of the
scenario's "expect".
"""

FORM = """\
A FILE is a list of scenarios, each with
  name, about   its name, and in a sentence what it shows
  agents        by key; the first is the start: name, instructions (a text, or {"counting": WORDS}, to which
                the number of functions called is added), handoff_description,
                tools (names), handoffs (keys, or agent, tool_name, tool_description, input_filter,
                nest_history, enabled), agent_tools (agent, name, description, needs_approval, enabled,
                max_turns), output (name, schema), model_settings (retry: max_retries, initial_delay, policy, statuses),
                tool_use_behavior, reset_tool_choice, input_guardrails, output_guardrails (name, trips, ...)
  tools         functions: name, description, parameters, strict, enabled, needs_approval, timeout_seconds,
                timeout_behavior, defer_loading, custom_data, on_failure, input_guardrails, output_guardrails, and what
                the handler does: {"sleep_ms": N} first, then {"return": TEXT}, {"return_argument": NAME} or
                {"raise": TEXT}; or {"type": "tool_search"}
  model         what the model answers, in order: the steps of tests/modelserver
  runs          one after another: input, agent (a key), from_last_agent, max_turns (null: no limit),
                memory (session, input_list, conversation, previous_response), error_handlers, decisions
                (at each pause: call_id, approve, always, message), config (RunConfig's own names), cancel
                (of a run that is streamed: mode, at the name of an event)
  enabled       of functions, handoffs and agent tools: true, false, or {"after": NAME} or {"before": NAME},
                since or until that function was called
  overlap       count how many handlers ran at once at the most
  expect        what the reference did

Exit code: 0 where nothing differs, 1 where something does, 2 where it could not be run.
"""

_log = logging.getLogger("tests.conformance")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description=ABOUT,
        epilog=FORM,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON list of scenarios")
    parser.add_argument(
        "--rpc",
        choices=("run", "run_streamed"),
        default="run_streamed",
        help="how runs are made; only run_streamed compares what is streamed (default: %(default)s)",
    )
    parser.add_argument(
        "--model-server",
        metavar="URL",
        help="address of a scripted model server that runs already, http://HOST:PORT (default: one is started)",
    )
    options = parser.parse_args(arguments)
    try:
        scenarios = [scenario for path in options.files for scenario in json.loads(path.read_text())]
    except (OSError, ValueError) as error:
        parser.error(f"cannot read the scenarios: {error}")
    return asyncio.run(_check_all(scenarios, options.rpc, options.model_server))


async def _check_all(scenarios: list[Json], rpc: Rpc, model_server: str | None) -> int:
    differ = False
    async with house(model_server) as scripts:
        for scenario in scenarios:
            line = await _checked(scenario, rpc, scripts)
            differ = differ or bool(line["differences"])
            print(json.dumps(line, ensure_ascii=False), flush=True)
    return int(differ)


async def _checked(scenario: Json, rpc: Rpc, scripts: ModelScripts) -> Json:
    """Check one scenario. The boundary between scenarios: what one raises is a difference of its own."""
    try:
        return await check(scenario, rpc, scripts)
    except Exception as error:  # noqa: BLE001 - the boundary that the docstring names
        _log.exception("the scenario %s could not be run to its end", scenario.get("name"))
        nothing: Json = {"runs": [], "requests": [], "functions_called": []}
        said = f"not run to its end: {type(error).__name__}: {error}"
        return {"name": scenario.get("name"), "differences": [said], "got": nothing}


if __name__ == "__main__":
    sys.exit(main())
