"""What tests of telemetry share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.stage import Stage
from tests.telemetry.exported import EXPORTER, provider


@pytest.fixture(autouse=True)
def _exporter() -> None:
    """Begin each test without spans."""
    provider()
    EXPORTER.clear()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Run a stage for one test."""
    made = await Stage(tmp_path).start()
    yield made
    await made.stop()
