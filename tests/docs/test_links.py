"""A link in a document leads somewhere."""

from __future__ import annotations

import subprocess

import pytest
from tests.docs.markdown import ROOT, anchors, links


def documents() -> list[str]:
    """List the repository's Markdown files, new ones included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted({path for path in listed.stdout.splitlines() if (ROOT / path).exists()})


LINKS = [(document, target) for document in documents() for target in dict.fromkeys(links(document))]


@pytest.mark.parametrize(("document", "target"), LINKS)
def test_link_leads_to_something(document: str, target: str) -> None:
    """The file or folder is there, and so is the heading."""
    path, _hash, anchor = target.partition("#")
    found = ((ROOT / document).parent / path).resolve() if path else ROOT / document

    assert found.is_relative_to(ROOT), f"{document} leads out of the repository: {target}"
    assert found.exists(), f"{document}: {target} is not there"
    if anchor:
        assert anchor in anchors(str(found.relative_to(ROOT))), f"{document}: {path} has no heading for #{anchor}"


def test_links_are_found() -> None:
    """The README's own links are among those that are tried."""
    assert ("README.md", "CONTRIBUTING.md") in LINKS
