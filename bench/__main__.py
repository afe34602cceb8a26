"""The command line: `python -m bench`."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from bench.first import FULL, PACED, QUICK, Plan, first
from bench.processes import BenchFailed
from bench.report import as_json, as_text

DELTA_DELAY_MS = 5
"""Between two words of a paced model."""

app = typer.Typer(name="bench", no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def bench() -> None:
    """Measure what Baton costs, as ratios to the bare I/O of the same work, in one run on this machine."""


@app.command(name="first")
def first_command(
    rounds: Annotated[int, typer.Option(min=1, max=50, help="Interleaved rounds; figures are their medians.")] = 3,
    words: Annotated[list[int] | None, typer.Option(help="Words of the answer; may be given twice. [20]")] = None,
    paced: Annotated[bool, typer.Option("--paced", help="The model pauses 5 ms before each word.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A glance: one short round.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the stores go: the disk that is measured. Default: that of temporary files."),
    ] = None,
) -> None:
    """Measure the server's CPU per run, and the round trip of a function call, each beside its floor."""
    plan = Plan(
        size=QUICK if quick else PACED if paced else FULL,
        rounds=1 if quick else rounds,
        words=tuple(words or [20]),
        delta_delay_ms=DELTA_DELAY_MS if paced else 0,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="baton-bench-", dir=folder) as made:
            report = asyncio.run(first(plan, Path(made), _tell))
    except BenchFailed as failed:
        typer.echo(f"bench: {failed}", err=True)
        raise typer.Exit(1) from failed
    typer.echo(json.dumps(as_json(report), indent=2) if json_ else as_text(report))


def _tell(progress: str) -> None:
    print(f"bench: {progress}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    app()
