"""The programs that the pages are written for, where `make tools` puts them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.markdown import ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program at the version that the Makefile names. `source`: what installs it."""

    name: str
    source: str
    folder: str = ""

    @property
    def path(self) -> Path:
        """Where it is, or is to be."""
        found = re.search(rf"^{self.name.upper()}_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert found, f"the Makefile names no version of {self.name}"
        return ROOT / ".tools" / f"{self.name}-{found[1]}" / self.folder / self.name


GRPCURL = Tool(name="grpcurl", source="go")
BUF = Tool(name="buf", source="npm", folder="node_modules/.bin")


def need(*tools: Tool) -> list[Path]:
    """Find tools' folders. Without one of them the test is skipped; in CI it fails."""
    missing = [tool for tool in tools if not tool.path.exists()]
    if missing:
        names = ", ".join(f"{tool.name} (which needs {tool.source})" for tool in missing)
        problem = f"`make tools` has not installed {names}"
        if os.environ.get("CI") == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    return [tool.path.parent for tool in tools]
