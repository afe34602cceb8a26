"""The pages of docs/ are walks: everything that they print is done, in their order, as a reader does it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.documents import DOCUMENTS, PAGES, TRIED_ELSEWHERE
from tests.docs.known import how_to_try, means_something, try_command
from tests.docs.markdown import ROOT, Printed, blocks, commands_in_text, expressions, odd_blocks
from tests.docs.walk import Walk, check, commands_of


@pytest.mark.slow
@pytest.mark.parametrize("document", PAGES)
async def test_page_can_be_walked(document: str, tmp_path: Path) -> None:
    """Every file is written, every command is run, every output is as the page shows it."""
    await Walk(tmp_path).go(blocks(document))


@pytest.mark.parametrize("document", PAGES)
def test_page_holds_nothing_that_the_walk_passes_over(document: str) -> None:
    """No block is of another kind, and no code stands in a form that is not read as a block."""
    check(blocks(document))

    assert odd_blocks(document) == []


@pytest.mark.parametrize("document", PAGES)
def test_page_names_its_files(document: str) -> None:
    """Readers do not see the words behind a block's language: the text before a file says what it is called."""
    files = [block for block in blocks(document) if "file" in block.options]

    assert [block.place for block in files if f"`{block.options['file']}`" not in block.before] == []


@pytest.mark.slow
@pytest.mark.parametrize("document", PAGES)
async def test_command_in_a_pages_text_exists(document: str, tmp_path: Path) -> None:
    """A command in running text is the beginning of one that the walk runs, or is tried by itself."""
    walked = [c.text for block in blocks(document) if block.language == "sh" for c in commands_of(block)]

    for printed in commands_in_text(document):
        if not any(f"{command} ".startswith(f"{printed.command} ") for command in walked):
            assert how_to_try(printed.command), f"{printed.place}: no test knows how to try {printed.command!r}"
            await try_command(printed.command, tmp_path)


@pytest.mark.parametrize(
    "printed", [p for document in PAGES for p in expressions(document)], ids=lambda printed: printed.place
)
def test_expression_in_a_pages_text_means_something(printed: Printed) -> None:
    """A call in running text is one that the package takes."""
    assert means_something(printed.command)


def test_every_page_is_tried() -> None:
    """A page that nobody tries would go stale."""
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}

    assert found == {name for name in (*PAGES, *DOCUMENTS, *TRIED_ELSEWHERE) if name.startswith("docs/")}
