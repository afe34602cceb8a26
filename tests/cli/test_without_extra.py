"""`baton` where only the client is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT_TYPER = "import sys; sys.modules['typer'] = None; from baton_server.cli import main; main()"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["health", "serve"])
def test_it_says_what_to_install(command: str) -> None:
    """One line, and the exit code of a command that was not tried."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TYPER, command], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 2
    assert done.stderr.startswith("baton: typer is missing.")
    assert "pip install 'baton-runtime[server]'" in done.stderr
    assert done.stderr.count("\n") == 1
