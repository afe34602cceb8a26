"""Does what the Dockerfile says, without a container engine: in a folder that stands for the image's file system.

A path of the image is a path below that folder. Which ones are is listed, and so is every command that is run and
every one that is not: a step that nobody has thought of fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.image.dockerfile import ROOT, Instruction, Stage, sent

MAPPED = ("/build", "/data", "/opt")
"""Folders of the image that are folders below the root here. Each must occur."""

RUN = (
    r"python -m venv --without-pip /opt/[a-z-]+",
    r"python -m pip --python /opt/[a-z-]+/bin/python install .*",
    r"python -m pip --python /opt/[a-z-]+/bin/python check",
    r"/opt/wheel-maker/bin/python -m hatchling build .*",
)
"""Commands that are run as they are written, but for their paths."""

NOT_RUN = (
    r"groupadd .*",  # needs root, and would change this machine
    r"useradd .*",
    r"install --directory --owner \d+ --group \d+ --mode \d+ /data",  # only root gives folders away; made in its place
)
"""Commands that are not run here."""

OWN = {"PIP_NO_CACHE_DIR"}
"""Variables of the build that are left out: downloads may be this machine's earlier ones, whose hashes are checked."""

STEP_S = 240
"""How long a command may take; the longest one downloads."""

_PATH = re.compile(r"(?<![\w./-])/[a-z][\w./-]*")


@dataclass(slots=True, kw_only=True)
class Building:
    """One build. `folder`: of this build alone; `python`: stands for the base image's, and has pip."""

    folder: Path
    python: Path
    listed: list[str]
    applied: set[str] = field(default_factory=set)
    skipped: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """What stands for the file system of the stage that is made."""
        return self.folder / "root"

    def mapped(self, text: str) -> str:
        """Put the root before each path of the image. Raises AssertionError for one that is not listed."""

        def put(found: re.Match[str]) -> str:
            top = "/" + found[0].split("/")[1]
            assert top in MAPPED, f"{found[0]} in {text!r} is in no folder of {MAPPED}"
            self.applied.add(top)
            return f"{self.root}{found[0]}"

        return _PATH.sub(put, text)

    def make(self, stage: Stage) -> Path:
        """Make a stage from nothing; what a former one left is beside it, under that one's name."""
        self.root.mkdir()
        place, environment = self.root, _outside(self.python)
        for one in stage.instructions:
            match one.keyword:
                case "WORKDIR":
                    place = Path(self.mapped(one.value))
                    place.mkdir(parents=True, exist_ok=True)
                case "ENV":
                    given = {name: self.mapped(value) for name, value in one.pairs.items() if name not in OWN}
                    environment |= {k: v.replace("$PATH", environment["PATH"]) for k, v in given.items()}
                case "COPY":
                    self._copy(one, place)
                case "RUN":
                    self._run(one, place, environment)
        return self.root

    def put_away(self, stage: Stage) -> None:
        """Take a stage that is made out of the way of the next one."""
        self.root.rename(self.folder / stage.name)

    def _copy(self, one: Instruction, place: Path) -> None:
        *sources, target = one.words
        if sources[0].startswith("--from="):
            origin, path = sources
            # A virtual environment holds its own path.
            assert path == target, f"line {one.line}: {path} must stay where it is"
            other = self.folder / origin.removeprefix("--from=")
            shutil.copytree(f"{other}{path}", self.mapped(target), symlinks=True)
            return
        files = sent(ROOT, self.listed, (ROOT / ".dockerignore").read_text())
        for source in sources:
            chosen = [path for path in files if path == source or path.startswith(f"{source}/")]
            assert chosen, f"line {one.line}: there is no {source} in what the build gets"
            for path in chosen:
                inside = path.removeprefix(source).lstrip("/") or Path(path).name
                to = place / target / inside
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, to)

    def _run(self, one: Instruction, place: Path, environment: Mapping[str, str]) -> None:
        for command in one.value.split(" && "):
            if any(re.fullmatch(pattern, command) for pattern in NOT_RUN):
                self.skipped.append(command)
                continue
            assert any(re.fullmatch(pattern, command) for pattern in RUN), (
                f"line {one.line}: {command!r} is in neither list: say in RUN or NOT_RUN what the test does with it"
            )
            done = subprocess.run(
                ["sh", "-c", self.mapped(command)],
                cwd=place,
                env=environment,
                capture_output=True,
                text=True,
                timeout=STEP_S,
                check=False,
            )
            assert done.returncode == 0, f"line {one.line}: {command}\n{done.stdout}{done.stderr}"


def base_python(folder: Path) -> Path:
    """Make what stands for the base image's Python, which has pip, so that no step can change the tests' own."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=STEP_S)
    return folder / "bin" / "python"


def _outside(python: Path) -> dict[str, str]:
    """Say what a step sees of this machine: how to reach the package index, and the base's programs first."""
    hidden = ("BATON_", "OPENAI_", "PYTHON", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "PATH": f"{python.parent}:/usr/bin:/bin"}
