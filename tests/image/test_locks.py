"""The image is built from locks of its own, which say nothing else than the one that the tests run on."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.image.dockerfile import ROOT
from tests.image.locks import requirements

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SERVER = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["server"]]
BUILD = PROJECT["dependency-groups"]["build"]


@pytest.mark.parametrize("lock", ["requirements.server.lock", "requirements.build.lock"])
def test_what_the_image_installs_is_what_the_tests_run_on(lock: str) -> None:
    """Each requirement stands in requirements.lock too, at the same version and with the same hashes."""
    tested, installed = _pins("requirements.lock"), _pins(lock)

    assert installed.items() <= tested.items()
    assert all(hashes for hashes in requirements(lock).values())


@pytest.mark.parametrize(("lock", "wanted"), [("requirements.server.lock", SERVER), ("requirements.build.lock", BUILD)])
def test_the_lock_has_what_pyproject_asks_for(lock: str, wanted: list[str]) -> None:
    """A requirement that was added without `make lock` is missing, or at a version that is not meant."""
    locked = {canonicalize_name(one.name): one for one in map(Requirement, requirements(lock))}

    for asked in map(Requirement, wanted):
        pinned = locked.get(canonicalize_name(asked.name))
        assert pinned is not None, f"{lock} lacks {asked.name}: make lock"
        (version,) = [one.version for one in pinned.specifier]
        assert asked.specifier.contains(version), f"{lock} has {pinned}, and {asked} is asked for: make lock"


def test_tools_are_not_on_the_server() -> None:
    """The development group stays out, but for what the server needs itself."""
    tools = {
        canonicalize_name(Requirement(one).name) for one in PROJECT["dependency-groups"]["dev"] if type(one) is str
    }
    asked = {canonicalize_name(Requirement(one).name) for one in SERVER}

    assert not (tools - asked) & _names(requirements("requirements.server.lock"))


def test_the_wheel_is_made_by_what_pyproject_names() -> None:
    """The group that the image installs is the build system that pip would."""
    assert PROJECT["build-system"]["requires"] == BUILD


def _pins(lock: str) -> dict[tuple[str, str], frozenset[str]]:
    """Key a lock by name and version; where a marker says more is no matter here."""
    parsed = ((Requirement(text), hashes) for text, hashes in requirements(lock).items())
    return {(one.name, str(one.specifier)): hashes for one, hashes in parsed}


def _names(found: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in found}
