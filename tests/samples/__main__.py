"""Runs a sample as its reader would: `python -m tests.samples NAME`.

A sample that is a script runs by being imported; one that has a `main` is given an event loop. One that reads lines
for ever ends with its input.
"""

import asyncio
import contextlib
import importlib
import sys

if __name__ == "__main__":
    with contextlib.suppress(EOFError):
        sample = importlib.import_module(f"tests.samples.{sys.argv[1]}")
        if hasattr(sample, "main"):
            asyncio.run(sample.main())
