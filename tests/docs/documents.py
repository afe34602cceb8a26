"""Which documents print something to be done, and who does it."""

from __future__ import annotations

from tests.docs.markdown import ROOT

PAGES = (
    "docs/first-agent.md",
    "docs/hosting-functions.md",
    "docs/hooks.md",
    "docs/sessions-and-events.md",
    "docs/required-actions.md",
    "docs/approvals.md",
    "docs/from-the-agents-sdk.md",
)
"""Walked from the first block to the last, as a reader does it: test_pages.py."""

DOCUMENTS = tuple(
    name
    for name in ("README.md", "CONTRIBUTING.md", "bench/README.md", "docs/README.md", "docs/operating.md")
    if (ROOT / name).exists()
)
"""Each command is tried by itself: test_readme.py."""

TRIED_ELSEWHERE = ("docs/grpcurl.md",)
"""tests/examples runs their commands."""
