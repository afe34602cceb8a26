"""Reads the files of locked requirements."""

from __future__ import annotations

import re

from tests.image.dockerfile import ROOT

HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def requirements(name: str) -> dict[str, frozenset[str]]:
    """Read a lock: each requirement, `name==version ; marker`, with the hashes of its files."""
    found: dict[str, frozenset[str]] = {}
    for entry in re.sub(r"\\\n", "", (ROOT / name).read_text()).splitlines():
        if entry.strip() and not entry.lstrip().startswith("#"):
            found[entry.partition(" --hash")[0].strip()] = frozenset(HASH.findall(entry))
    return found
