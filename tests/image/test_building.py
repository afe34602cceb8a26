"""What stands in for a container engine passes nothing over."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.image.building import Building
from tests.image.dockerfile import stages


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("RUN apt-get update", "is in neither list"),
        ("RUN useradd a && curl b", "is in neither list"),
        ("WORKDIR /srv", "is in no folder of"),
        ("ENV PATH=$PATH:/usr/games", "is in no folder of"),
        ("RUN python -m venv --without-pip /opt/x && python -m pip --python /root/x install y", "is in neither list"),
        ("COPY tests /opt", "there is no tests in what the build gets"),
        ("COPY --chown=1 server /opt", "there is no --chown=1"),
        ("COPY --from=a /opt/b /opt/c", "must stay where it is"),
    ],
)
def test_a_step_that_nobody_has_thought_of_fails(step: str, problem: str, tmp_path: Path) -> None:
    """A new command, a new folder, a new way to copy: the test must be told what to do with it."""
    building = Building(folder=tmp_path, python=Path(sys.executable), listed=["server/pyproject.toml"])

    with pytest.raises(AssertionError, match=problem):
        building.make(stages(f"FROM a\n{step}\n")[0])
