"""The walk itself: it does what a page says, and sees what is not so."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs import markdown
from tests.docs.walk import PageWrong, Walk, check

ASKING = """```python file=asking.py
print("name?", end=" ", flush=True)
print("hello", input())
input()
```

```sh terminal=2
python asking.py
```
"""


def page(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[markdown.Block]:
    """Read a page that stands in a folder of the test."""
    (folder / "page.md").write_text(text)
    monkeypatch.setattr(markdown, "ROOT", folder)
    return markdown.blocks("page.md")


GOOD = {
    "a file that a command uses": "```python file=hello.py\nprint('hello')\n```\n```sh\npython hello.py\n```\n",
    "the output of all commands of a block": "```sh\necho one\necho two\n```\n```text\none\ntwo\n```\n",
    "a command of several lines": "```sh\nprintf '%s\\n' one \\\n  two\n```\n```text\none\ntwo\n```\n",
    "a quotation of several lines": "```sh\necho 'one\ntwo'\n```\n```text\none\ntwo\n```\n",
    "an exit code": "```sh\ntest 1 = 2  # exits with 1\n```\n",
    "gaps": "```sh\nseq 9\n```\n```text\n1\n…\n9\n```\n```sh\necho sess_1 made\n```\n```text\nsess_… made\n```\n",
    "the server's address": '```sh\necho "$BATON_ADDRESS"\n```\n```text\n127.0.0.1:50051\n```\n',
    "typed words and a key": ASKING + "```text terminal=2 prompt=name?\nname? you\nhello you\n^D\n…\nEOFError\n```\n",
    "a terminal that is stopped, and used again": "```sh terminal=2\necho on; sleep 600\n```\n"
    "```text terminal=2\non\n^C\n```\n```sh terminal=2\necho again\n```\n```text terminal=2\nagain\n```\n",
}

BAD = {
    "another output": ("```sh\necho one\n```\n```text\ntwo\n```\n", "the page shows"),
    "more output": ("```sh\nseq 3\n```\n```text\n1\n```\n", "the page shows"),
    "another exit code": ("```sh\nfalse\n```\n", "exited with 1, not 0"),
    "an exit code that does not come": ("```sh\ntrue  # exits with 5\n```\n", "exited with 0, not 5"),
    "another output of a terminal": ("```sh terminal=2\ntrue\n```\n```text terminal=2\n1\n```\n", "the page shows"),
    "a terminal's exit code": ("```sh terminal=2\nexit 3\n```\n```sh terminal=2\ntrue\n```\n", "exited with 3, not 0"),
    "a key before anything is printed": (
        "```sh terminal=2\ncat\n```\n```text terminal=2\n^C\n```\n",
        "must be printed",
    ),
    "a terminal that was never used": ("```text terminal=2\none\n```\n", "nothing runs in terminal 2"),
    "a make target that is not there": ("```sh in=checkout\nmake nothing\n```\n", "no target"),
}

UNDOABLE = {
    "a program without a file": ("```python\nprint(1)\n```\n", "nothing knows how to do 'python'"),
    "a picture": ("```\n1 → 2\n```\n", "nothing knows how to do 'a picture'"),
    "an unknown word": ("```sh later\ntrue\n```\n", "nothing knows how to do 'sh later'"),
    "a file that nobody uses": ("```yaml file=agent.yaml\nname: A\n```\n", "no command and no program uses agent.yaml"),
    "a file elsewhere": ("```yaml file=../agent.yaml\n```\n```sh\ncat ../agent.yaml\n```\n", "no file of the walk's"),
    "a command without an end": ("```sh\necho 'one\n```\n", "has no end"),
    "no command": ("```sh\n# later\n```\n", "0 commands"),
    "two commands in a terminal": ("```sh terminal=2\ntrue\ntrue\n```\n", "2 commands"),
    "another folder": ("```sh\ncd elsewhere\n```\n", "forgotten by the next command"),
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
async def test_what_a_page_says_is_done(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is right is walked to its end."""
    await Walk(tmp_path).go(page(text, tmp_path, monkeypatch))


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD.keys())
async def test_what_is_not_so_is_seen(text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that says something else than what happens fails, and says where."""
    with pytest.raises(AssertionError, match=problem):
        await Walk(tmp_path).go(page(text, tmp_path, monkeypatch))


@pytest.mark.parametrize(("text", "problem"), UNDOABLE.values(), ids=UNDOABLE.keys())
def test_what_no_walk_would_do_is_seen(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that would stand there untried fails before anything is run."""
    with pytest.raises(PageWrong, match=rf"page\.md:1: .*{problem}"):
        check(page(text, tmp_path, monkeypatch))


@pytest.mark.parametrize(
    "text", ["    true\n", "- one\n  ```sh\n  true\n  ```\n", "> ```\n", "~~~\ntrue\n~~~\n", "````\n", "<pre>\n"]
)
def test_code_that_is_no_block_is_seen(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Markdown has more ways to write code than the walk reads; those are found, so that they can be refused."""
    page(f"One.\n\n{text}", tmp_path, monkeypatch)

    assert markdown.odd_blocks("page.md")
