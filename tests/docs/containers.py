"""Reads commands of docker, which cannot be run without its engine: what they name must be there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs.markdown import ROOT
from tests.docs.settings_table import all_variables
from tests.image.compose import compose, service
from tests.image.dockerfile import stages

CONTAINER = "baton"
"""Name that the documents give to a container."""

OPTIONS: Mapping[str, frozenset[str]] = {
    "build": frozenset({"--tag"}),
    "run": frozenset({"--detach", "--name", "--publish", "--volume", "--env"}),
    "exec": frozenset(),
    "stop": frozenset(),
    "compose up": frozenset({"--build", "--detach", "--wait"}),
    "compose down": frozenset(),
    "compose logs": frozenset({"--follow"}),
    "compose exec": frozenset(),
    "compose cp": frozenset(),
}
"""Commands that are known here, and their options."""

ALONE = {"--detach", "--build", "--wait", "--follow"}
"""Options without a value."""

IMAGE = stages((ROOT / "Dockerfile").read_text())[-1]


async def docker_names_what_is_there(words: list[str], _folder: Path) -> None:
    """Find the files, images, services, ports, folders and variables that a command names."""
    command, options, names = _parted(words)
    for option, value in options:
        assert option in OPTIONS[command], f"{' '.join(words)!r}: {option} is not known here"
        if option in _CHECKS:
            _CHECKS[option](value)
    match command:
        case "build":
            assert (names, (ROOT / "Dockerfile").exists()) == (["."], True)
        case "run":
            assert names == [service("server")["image"]]
        case "stop":
            assert names == [CONTAINER]
        case "compose cp":
            name, _, path = names[0].partition(":")
            assert service(name)
            assert path.startswith(f"{IMAGE.one('VOLUME').value}/")
        case _:
            assert set(names) <= set(compose()["services"])


def command_inside(words: list[str]) -> list[str]:
    """Take the command out of an `exec`, with paths of the volume as files of the working folder."""
    command, options, names = _parted(words)
    assert command in ("exec", "compose exec")
    assert not options
    name, *inner = names
    assert name == CONTAINER if command == "exec" else service(name), f"{' '.join(words)!r}: there is no {name}"
    return [word.replace(f"{IMAGE.one('VOLUME').value}/", "") for word in inner]


def _parted(words: list[str]) -> tuple[str, list[tuple[str, str]], list[str]]:
    """Part a command into its name, its options with their values, and what follows them."""
    length = 2 if words[1] == "compose" else 1
    command, rest = " ".join(words[1 : 1 + length]), words[1 + length :]
    assert command in OPTIONS, f"{' '.join(words)!r}: {command} is not known here"
    options: list[tuple[str, str]] = []
    while rest and rest[0].startswith("-"):
        option, *rest = rest
        value, rest = ("", rest) if option in ALONE else (rest[0], rest[1:])
        options.append((option, value))
    return command, options, rest


def _tag(value: str) -> None:
    assert value == service("server")["image"]


def _name(value: str) -> None:
    assert value == CONTAINER


def _port(value: str) -> None:
    """Published on this machine alone, to the port that the image has."""
    assert re.fullmatch(rf"127\.0\.0\.1:\d+:{IMAGE.one('EXPOSE').value}", value), value


def _volume(value: str) -> None:
    assert re.fullmatch(rf"[a-z]+:{IMAGE.one('VOLUME').value}", value), value


def _variable(value: str) -> None:
    assert value.partition("=")[0] in all_variables(), value


_CHECKS: Mapping[str, Callable[[str], None]] = {
    "--tag": _tag,
    "--name": _name,
    "--publish": _port,
    "--volume": _volume,
    "--env": _variable,
}
