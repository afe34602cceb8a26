"""The command line: `python -m tests.faults`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.faults.harness import FULL_LENGTH_S, Report, Run
from tests.faults.house import Plan
from tests.faults.processes import HarnessFailed, Nursery
from tests.faults.sabotaged import MATCHING

ABOUT = """\
Runs many sessions over several workers while it kills workers and the server,
restarts it, cuts connections in all ways, and sends results twice and late;
then counts what was broken, from the journals of the workers and from the
store, and prints one line of JSON.

  calls_made, calls_settled        calls of the log; those with an output
  turns_started, turns_finished    turns of callers and store; those that ended
  redelivered                      bodies that began with an attempt above 1
  late_discarded                   results that came too late, as recorded
  injected                         faults by kind
and of the following none may be:
  calls_lost                       a call without an output; a result that was
                                   called durable and is not in the log, or of
                                   which its worker was never told anything
  settled_twice                    a second output of a call, or an attempt
                                   that began twice
  executed_again_although_ask      a body that must run at most once began again
  executed_without_leave           a body began that nobody had allowed
  decided_twice                    a second decision, or answer of a hook
  order_broken                     a gap in a log or in what a reader saw,
                                   outputs that do not follow their calls in
                                   order, an output of another call, a key or
                                   a request that took effect twice
  turns_stuck                      a turn that has not ended
  turns_failed, processes_died     what nothing here is a reason for
"""

CODES = """\
Exit code: 0 where every promise was kept; 1 where one was broken, or a run of
60 s or more made too little to say so; 2 where the harness itself failed.

A sabotage breaks a promise on purpose; the count that shows it:
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description=ABOUT,
        epilog=CODES + "".join(f"  {name:19} {count}\n" for name, count in MATCHING.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=FULL_LENGTH_S, help="of faults (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="of chance (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=3, help="processes beside the raw one (default: %(default)s)")
    parser.add_argument("--sessions", type=int, default=12, help="at once (default: %(default)s)")
    parser.add_argument("--sabotage", choices=tuple(MATCHING), default="", help="break the server on purpose")
    parser.add_argument("--keep", action="store_true", help="keep the folder, and say where it is")
    parser.add_argument("--json", action=argparse.BooleanOptionalAction, default=True, help="print JSON, or a table")
    options = parser.parse_args(arguments)
    if options.seconds <= 0 or options.workers < 1 or options.sessions < 1:
        parser.error("--seconds, --workers and --sessions must be above 0")
    plan = Plan(
        seconds=options.seconds,
        seed=options.seed,
        workers=options.workers,
        sessions=options.sessions,
        sabotage=options.sabotage,
    )
    folder = Path(tempfile.mkdtemp(prefix="baton-faults-"))
    logging.basicConfig(filename=folder / "harness.err", level=logging.INFO)
    if options.keep:
        _tell(f"the folder is {folder}")
    try:
        report = asyncio.run(_run(plan, folder))
    except HarnessFailed as failed:
        _tell(f"failed: {failed}")
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        _tell("interrupted")
        return 130
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    _show(report, as_json=options.json)
    return 0 if report.ok else 1


async def _run(plan: Plan, folder: Path) -> Report:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Nursery() as nursery:
        return await Run(plan, nursery, folder, _tell).run()


def _show(report: Report, *, as_json: bool) -> None:
    made = report.as_json()
    if as_json:
        print(json.dumps(made), flush=True)
    else:
        print("\n".join(f"{name:29}{value}" for name, value in made.items()), flush=True)
    findings = [f"{name}: {what}" for name, found in report.counted.broken.items() for what in found]
    died = [f"died: {what}" for what in report.died]
    few = [f"a run of this length must have more than {what}" for what in report.shortfalls()]
    for line in (*findings, *died, *few):
        _tell(line)


def _tell(line: str) -> None:
    print(f"faults: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
