"""`baton serve` and its settings, as a person at a terminal meets them."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tests.support.server import ServerProcess

from baton_server.config import Settings


async def _baton(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run the command to its end; returns exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "baton_server",
        *arguments,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "80", **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_one_line_at_start_says_address_store_and_model(tmp_path: Path) -> None:
    """Who starts a server sees where it is, what it keeps and who answers."""
    server = ServerProcess(tmp_path / "b.db")

    line = await server.start()

    assert server.address in line
    assert str(tmp_path / "b.db") in line
    assert "demo (no OPENAI_API_KEY)" in line
    assert await server.terminate() == 0


async def test_a_key_is_never_shown(tmp_path: Path) -> None:
    """The line names the model API, not the key; nor does any view of the settings."""
    secret = "sk-very-secret"
    server = ServerProcess(tmp_path / "b.db", {"OPENAI_API_KEY": secret, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})

    line = await server.start()
    await server.terminate()

    assert "127.0.0.1:9" in line
    assert secret not in line
    settings = Settings(openai_api_key=secret)  # type: ignore[arg-type]  # a text, as the environment gives it
    assert secret not in repr(settings) + str(settings.shown())


async def test_wrong_settings_are_named_with_their_values(tmp_path: Path) -> None:
    """Every wrong setting is told at once; nothing is started or made."""
    store = tmp_path / "b.db"

    code, _, errors = await _baton(
        "serve", "--log-level", "LOUD", "--store", str(store), environment={"BATON_LEASE_S": "-1"}
    )

    assert code == 2
    assert "log_level = 'LOUD'" in errors
    assert "lease_s = '-1'" in errors
    assert not store.exists()


async def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    """The second server on a port says so in one line and stops; no store of its own is left behind."""
    async with ServerProcess(tmp_path / "a.db") as first:
        code, _, errors = await _baton("serve", "--address", first.address, "--store", str(tmp_path / "b.db"))

    assert code == 1
    assert first.address in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "b.db").exists()


async def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is flags, environment, file, defaults."""
    file = tmp_path / "baton.toml"
    file.write_text('address = "127.0.0.1:1"\nlease_s = 7\nheartbeat_s = 3\n')
    monkeypatch.setenv("BATON_CONFIG", str(file))
    monkeypatch.setenv("BATON_LEASE_S", "8")

    settings = Settings(address="127.0.0.1:2")

    assert (settings.address, settings.lease_s, settings.heartbeat_s) == ("127.0.0.1:2", 8, 3)
    assert settings.drain_s == 5


async def test_an_unknown_setting_in_the_file_is_refused(tmp_path: Path) -> None:
    """A misspelt line is told, not passed over."""
    file = tmp_path / "baton.toml"
    file.write_text("leese_s = 7\n")

    code, _, errors = await _baton("serve", "--config", str(file))

    assert code == 2
    assert "'leese_s'; did you mean 'lease_s'?" in errors


@pytest.mark.parametrize("line", ['openai_key = "sk-secret"', 'openai_api_key = ["sk-secret"]'])
async def test_a_key_that_stands_wrong_in_the_file_is_not_shown(tmp_path: Path, line: str) -> None:
    """What is refused may be a secret: only values of settings that are known to be none are printed."""
    file = tmp_path / "baton.toml"
    file.write_text(line)

    code, out, errors = await _baton("serve", "--config", str(file))

    assert code == 2
    assert "openai" in errors.lower()
    assert "sk-secret" not in out + errors


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1", "nonsense", "unix:/tmp/b", ":50051"])
async def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    """A server never listens somewhere else than it was told to."""
    code, _, errors = await _baton("serve", "--address", address, "--store", str(tmp_path / "b.db"))

    assert code == 2
    assert f"address = {address!r}: write HOST:PORT" in errors


@pytest.mark.parametrize("variables", [{"OPENAI_BASE_URL": "nonsense"}, {"OPENAI_API_KEY": "sk-ключ"}])
async def test_access_to_the_model_that_cannot_work_is_told_at_start(tmp_path: Path, variables: dict[str, str]) -> None:
    """One line says what is wrong; there is no traceback, and no key."""
    code, _, errors = await _baton("serve", "--store", str(tmp_path / "b.db"), environment=variables)

    assert code == 2
    assert "the model API cannot be used" in errors
    assert "Traceback" not in errors
    assert "ключ" not in errors


async def test_clocks_that_are_no_numbers_are_refused() -> None:
    """Infinity would break every worker's Welcome."""
    code, _, errors = await _baton("serve", environment={"BATON_HEARTBEAT_S": "inf"})

    assert code == 2
    assert "heartbeat_s" in errors


async def test_a_file_of_settings_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A misspelt path is not passed over."""
    code, _, errors = await _baton("serve", environment={"BATON_CONFIG": str(tmp_path / "none.toml")})

    assert code == 2
    assert "none.toml cannot be read" in errors


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["demo", "--help"], ["version", "--help"]])
async def test_help_reads_well_on_eighty_columns(arguments: list[str]) -> None:
    """Every command explains itself, and no line is wider than a terminal."""
    code, out, _ = await _baton(*arguments)

    assert code == 0
    assert "Usage" in out
    assert max(len(line) for line in out.splitlines()) <= 80


async def test_version_prints_the_version() -> None:
    """A script can read it."""
    code, out, _ = await _baton("version")

    assert code == 0
    assert out.strip().count(".") == 2
