"""The same inputs give the same events: now, again, and in another process with other hashes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.core.story import story, told

ROOT = Path(__file__).parents[2]


def test_the_same_inputs_give_the_same_events() -> None:
    """Two turns that were told the same are the same, event by event and as states."""
    one, other = story(), story()

    assert one.log == other.log
    assert told(one) == told(other)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "4242"])
def test_another_process_with_other_hashes_records_the_same(seed: str) -> None:
    """Nothing depends on the order of a set or on where things lie in memory."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.story"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.strip() == told(story())
