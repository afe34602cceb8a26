"""The log: what failed is told with its place in the code, and without what the code was working on."""

from __future__ import annotations

import pytest
import structlog

from baton_server.telemetry.logging import configure


@pytest.mark.parametrize("as_json", [False, True], ids=["console", "json"])
def test_a_traceback_shows_no_local_variables(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Among them are keys, and what users said."""
    before = structlog.get_config()
    configure("INFO", as_json)
    try:
        api_key = "sk-a-secret"
        try:
            raise ValueError("it failed" + api_key[:0])
        except ValueError:
            structlog.get_logger("test").exception("a fault")
    finally:
        structlog.configure(**before)

    logged = capsys.readouterr().err
    assert "a fault" in logged
    assert "ValueError: it failed" in logged
    assert "test_a_traceback_shows_no_local_variables" in logged
    assert api_key not in logged
