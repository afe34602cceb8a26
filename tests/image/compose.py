"""Reads compose.yaml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from tests.image.dockerfile import ROOT

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def compose() -> dict[str, Any]:
    """Read the file."""
    read: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return read


def service(name: str) -> dict[str, Any]:
    """Find a service."""
    found: dict[str, Any] = compose()["services"][name]
    return found


def seconds(duration: str) -> float:
    """Read a duration of compose, such as 1m30s."""
    assert re.fullmatch(r"(\d+(ms|s|m|h))+", duration), duration
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)(ms|s|m|h)", duration))


def grace_s(of: dict[str, Any]) -> float:
    """Say how long a service may take to stop before it is killed."""
    return seconds(of["stop_grace_period"])


def mounts(of: dict[str, Any]) -> list[tuple[str, str, str]]:
    """List the volumes of a service: source, target, mode."""
    return [(source, target, "".join(mode)) for source, target, *mode in (v.split(":") for v in of.get("volumes", []))]


def command_in_image(of: dict[str, Any]) -> list[str]:
    """Give the command of a service, with the paths of this machine in place of those that it mounts."""
    words: list[str] = of["command"]
    for source, target, _ in mounts(of):
        assert any(word.startswith(f"{target}/") for word in words), f"nothing in {words} is below {target}"
        words = [re.sub(rf"^{re.escape(target)}(?=/)", str((ROOT / source).resolve()), word) for word in words]
    assert not any(word.startswith("/") and not Path(word).exists() for word in words), words
    return words
