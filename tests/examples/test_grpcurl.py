"""What is done by hand can be done: every command of the pages is run with the real grpcurl and buf, in their order."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.docs import markdown
from tests.docs.markdown import ROOT, blocks
from tests.docs.programs import BIN, environment
from tests.docs.terminal import KEYS, Terminal
from tests.docs.walk import PRINTED_ADDRESS, pattern_of
from tests.examples import tools
from tests.examples.page import Page, check
from tests.examples.tools import BUF, GRPCURL, need
from tests.support.server import free_port, server

FOLDER = "examples/grpcurl"

PAGES = {f"{FOLDER}/README.md": (FOLDER, [GRPCURL, BUF]), "docs/grpcurl.md": (".", [GRPCURL])}
"""Pages, the folder in which their commands are typed, and the tools that they need."""


@pytest.mark.slow
@pytest.mark.parametrize("document", PAGES)
async def test_every_command_does_what_the_page_shows(document: str, tmp_path: Path) -> None:
    """Run as printed, but for the server's address; outputs are compared where they are shown."""
    folder, tools_of_page = PAGES[document]
    folders = need(*tools_of_page)
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    address = f"127.0.0.1:{free_port()}"

    await Page(document, address).walk(tmp_path / folder, reader(tmp_path, address, *folders))


@pytest.mark.slow
async def test_frames_can_be_typed(tmp_path: Path) -> None:
    """In a terminal grpcurl sends what is typed, a line at a time, and Ctrl-D hangs up in good order."""
    folders = need(GRPCURL)
    async with server(tmp_path) as at:
        terminal = Terminal(f"grpcurl -plaintext -d @ {at.address} baton.v1.HandlerService/Connect")
        try:
            await terminal.start(tmp_path, reader(tmp_path, at.address, *folders))
            terminal.press((ROOT / FOLDER / "hello.json").read_text())
            assert await terminal.expect(pattern_of('…\n  "welcome": {\n…\n}\n', at.address))
            terminal.press(KEYS["^D"])
            assert await terminal.ended()
            assert terminal.code == 0
        finally:
            await terminal.close()


@pytest.mark.parametrize("document", PAGES)
def test_nothing_is_printed_that_is_not_run(document: str) -> None:
    """No block is of another kind, and no command stands in the text that no block runs."""
    check(document)


def test_every_request_is_sent_by_the_page() -> None:
    """A file that no command reads would go stale."""
    page = "\n".join(block.text for block in blocks(f"{FOLDER}/README.md") if block.language == "sh")

    for path in (ROOT / FOLDER).glob("*.json"):
        assert path.name in page, f"no command sends {path.name}"


# --- the test sees what is not so -------------------------------------------------------------------------

RIGHT = """Say `echo one`.

```sh
word=one
echo $word; echo $word >&2
```
```text
one
…
```
```sh terminal=2
until test -e go; do :; done; echo 127.0.0.1:50051; exit 3
```
```sh
touch go
false  # exits with 1
```
```text terminal=2
127.…:50…
```
"""

WRONG = {
    "another output": ("```sh\necho one\n```\n```text\ntwo\n```\n", "the page shows"),
    "another exit code": ("```sh\nfalse\n```\n", "exited with 1, not 0"),
    "another output of a terminal": ("```sh terminal=2\necho one\n```\n```text terminal=2\ntwo\n```\n", "one"),
    "an output of nothing": ("```text\none\n```\n", "no commands stand before"),
    "an output of what is not run": ("```sh in=checkout\nmake tools\n```\n```text\none\n```\n", "no commands stand"),
    "a block of another kind": ("```json\n{}\n```\n", "nothing knows how to do 'json'"),
    "a picture": ("```\n→\n```\n", "nothing knows how to do 'a picture'"),
    "two commands in a terminal": ("```sh terminal=2\ntrue\ntrue\n```\n", "2 commands"),
    "another version": (
        "```sh in=checkout\ngo install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.0\n```\n",
        "GRPCURL_VERSION is not 1.0",
    ),
    "another folder": (
        '```sh in=checkout\nexport PATH="$PWD/.tools/grpcurl-1.0:$PATH"\n```\n',
        "is no folder of the checkout's programs",
    ),
    "another tool": ("```sh in=checkout\nnpm install --global grpcui@1.75.0\n```\n", "the Makefile has no"),
    "what is not installed": ("```sh in=checkout\nrm -r .\n```\n", "installs nothing"),
    "a command in the text": ("Say `grpcurl -plaintext nowhere list`.\n", "is run in no block"),
}


async def test_a_page_that_is_right_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables last from block to block, errors are shown too, and a terminal goes on beside the first."""
    page(RIGHT.replace("; exit 3", ""), tmp_path, monkeypatch)

    await Page("page.md", "127.0.0.1:50059").walk(tmp_path, reader(tmp_path, "127.0.0.1:50059"))


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG.keys())
async def test_what_is_not_so_is_seen(text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that says something else than what happens fails, and so does one that says what is not tried."""
    page(text, tmp_path, monkeypatch)

    with pytest.raises(AssertionError, match=problem):
        await Page("page.md", PRINTED_ADDRESS).walk(tmp_path, reader(tmp_path, PRINTED_ADDRESS))


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_the_tools_only_ci_fails(
    ci: str, outcome: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A contributor without go or npm is told why nothing was tried; CI must try it."""
    (tmp_path / "Makefile").write_text("GRPCURL_VERSION := 1\n")
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    monkeypatch.setenv("CI", ci)

    with pytest.raises(outcome, match=r"make tools.* grpcurl .*go"):
        need(GRPCURL)


def reader(home: Path, address: str, *folders: Path) -> dict[str, str]:
    """Make the environment of a reader whose server is at an address."""
    path = ":".join(map(str, (*folders, BIN, os.environ["PATH"])))
    return environment(BATON_ADDRESS=address, HOME=str(home), PATH=path, NO_COLOR="1", PYTHONDONTWRITEBYTECODE="1")


def page(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a page into a folder of the test."""
    (folder / "page.md").write_text(text)
    monkeypatch.setattr(markdown, "ROOT", folder)
