"""What the Dockerfile and .dockerignore must keep to, read and not run; what is run: test_image.py."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.image.dockerfile import ROOT, exec_form, files, health_check, instructions, sent, stages

from baton_server.cli.commands.health import DEFAULT_ADDRESS
from baton_server.config import Settings
from baton_server.main import LAST_WORDS_S

TEXT = (ROOT / "Dockerfile").read_text()
LAST = stages(TEXT)[-1]
KILLED_AFTER_S = 10
"""What an engine waits between SIGTERM and SIGKILL if nobody says otherwise."""


def test_hadolint_finds_nothing() -> None:
    """No rule of the linter is ignored, neither here nor by a comment."""
    found = subprocess.run(
        [str(Path(sys.executable).parent / "hadolint"), "--no-color", str(ROOT / "Dockerfile")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (found.returncode, found.stdout) == (0, "")
    assert "hadolint ignore" not in TEXT
    assert not list(ROOT.glob(".hadolint*"))


def test_the_base_is_pinned_to_a_patch_version_that_the_project_runs_on() -> None:
    """One tag, said once, and in the label; never `latest`, never a minor version."""
    base, *others = stages(TEXT)
    name, _, tag = base.base.partition(":")

    assert name == "python"
    assert [part.isdecimal() for part in tag.partition("-")[0].split(".")] == [True] * 3
    assert {stage.base for stage in others} == {base.name}
    assert LAST.one("LABEL").pairs["org.opencontainers.image.base.name"] == f"docker.io/library/{base.base}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tag.startswith(project["requires-python"].removeprefix(">=") + ".")


def test_labels_say_what_pyproject_says() -> None:
    """A release that forgets the label is seen."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = LAST.one("LABEL").pairs

    assert labels["org.opencontainers.image.version"] == project["version"]
    assert labels["org.opencontainers.image.licenses"] == project["license"]


def test_every_download_is_checked_by_its_hash_and_never_built() -> None:
    """Code of strangers runs at the earliest when the server imports it."""
    installs = [
        command
        for stage in stages(TEXT)
        for one in stage.all("RUN")
        for command in one.value.split(" && ")
        if "pip" in command.split() and "install" in command.split()
    ]

    assert len(installs) == 3
    for command in installs:
        assert {"--require-hashes", "--only-binary"} <= set(command.split()) or "--no-index" in command.split()


def test_the_server_is_not_root_and_owns_nothing_but_its_data() -> None:
    """The user is a number, the same that the user and the folder were made with; what it runs belongs to root."""
    uid, gid = LAST.one("USER").value.split(":")
    made = LAST.one("RUN").value

    assert int(uid) >= 10_000  # below are those of machines
    assert f"--uid {uid} --gid {gid} " in made
    assert f"--owner {uid} --group {gid} " in made
    assert "--chown" not in TEXT


def test_the_environment_holds_settings_that_fit_the_rest() -> None:
    """The address is the exposed port on all interfaces of the container, the store is on the volume."""
    environment = LAST.one("ENV").pairs
    volume, port = LAST.one("VOLUME").value, LAST.one("EXPOSE").value

    assert {name for name in environment if name.startswith("BATON_")} == {"BATON_ADDRESS", "BATON_STORE"}
    assert environment["BATON_ADDRESS"] == f"0.0.0.0:{port}"
    assert DEFAULT_ADDRESS.endswith(f":{port}")
    assert environment["BATON_STORE"].startswith(f"{volume}/")
    assert LAST.one("WORKDIR").value == volume
    assert Settings(address=environment["BATON_ADDRESS"], store=Path(environment["BATON_STORE"]))


def test_signals_reach_the_server_and_it_has_the_time_to_drain() -> None:
    """There is no shell between the engine and the server."""
    assert LAST.one("ENTRYPOINT").command == ["baton"]
    assert LAST.one("CMD").command == ["serve"]
    assert LAST.one("STOPSIGNAL").value == "SIGTERM"
    assert Settings.model_fields["drain_s"].default + 2 * LAST_WORDS_S < KILLED_AFTER_S


def test_the_health_check_ends_by_itself_before_it_is_ended() -> None:
    """Then its words are in the engine's log, and not only that it took too long."""
    options, command = health_check(LAST.one("HEALTHCHECK"))

    assert command[:2] == ["baton", "health"]
    assert float(command[command.index("--timeout") + 1]) < float(options["timeout"].removesuffix("s"))


@pytest.mark.slow
def test_the_build_gets_what_the_dockerfile_copies_and_nothing_else() -> None:
    """Neither secrets nor stores nor caches can get into a layer."""
    copied = [
        source
        for stage in stages(TEXT)
        for one in stage.all("COPY")
        if not one.value.startswith("--from=")
        for source in one.words[:-1]
    ]
    got = sent(ROOT, files(ROOT), (ROOT / ".dockerignore").read_text())

    assert got
    assert [path for path in got if not any(path == c or path.startswith(f"{c}/") for c in copied)] == []
    for source in copied:
        assert any(path == source or path.startswith(f"{source}/") for path in got), source
    assert not [path for path in got if "__pycache__" in path]


def test_what_is_not_named_is_not_sent(tmp_path: Path) -> None:
    """A key, a store and a cache that lie about stay where they are."""
    paths = [
        ".env",
        "baton.db",
        "server/x.db-wal",
        "server/a/__pycache__/b.pyc",
        ".git/config",
        "server/a/b.py",
        "LICENSE",
    ]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()

    assert sent(tmp_path, paths, (ROOT / ".dockerignore").read_text()) == ["server/a/b.py", "LICENSE"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FROM a\nADD b c", "ADD is not known"),
        ("FROM a\nRUN <<EOF\necho\nEOF", "here-documents"),
        ("RUN a\nFROM b", "before the first FROM"),
        ("FROM a\nRUN b \\\n", "has no end"),
    ],
)
def test_what_the_reader_does_not_know_is_refused(text: str, problem: str) -> None:
    """Passed over, it would be a step that no test does."""
    with pytest.raises(AssertionError, match=problem):
        stages(text)


def test_the_reader_joins_lines_and_leaves_comments_out() -> None:
    """A comment may stand between the lines of one instruction."""
    found = list(instructions("# one\nFROM a AS b\nRUN c \\\n  # two\n  && d\n"))

    assert [(one.line, one.keyword, one.value) for one in found] == [(2, "FROM", "a AS b"), (3, "RUN", "c && d")]
    with pytest.raises(AssertionError, match="shell"):
        exec_form("baton serve")
