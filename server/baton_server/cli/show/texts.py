"""Texts that come from elsewhere, made fit for a terminal.

Texts of models, functions and other people may hold anything. Whatever is printed for people goes through `safe`
(or `one_line`, `shortened`, which use it); lines of JSON through `safe_json`.
"""

from __future__ import annotations

import re

LINE = 200
"""Characters of an argument text or a result that are shown where one line must do."""

# All that moves a cursor, colours, or turns the order of what is read: C0 but tab and newline, DEL, C1, the marks
# of bidirectional text, the line ends that only some programs know; and what cannot be encoded at all.
_DRIVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_BREAK = re.compile(r"[ \t]*\n\s*")


def safe(text: str) -> str:
    r"""Show what would drive a terminal as an escape, `\x1b`. Newlines and tabs pass."""
    return _DRIVING.sub(_escaped, text.replace("\r\n", "\n"))


def safe_json(line: str) -> str:
    """Escape in a line of JSON what would drive a terminal and JSON lets pass, such as C1; it says the same."""
    return _DRIVING.sub(lambda found: f"\\u{ord(found.group()):04x}", line)


def shortened(text: str, most: int) -> str:
    """Cut a text after so many characters, and say how long it is. Safe."""
    if len(text) <= most:
        return safe(text)
    return f"{safe(text[:most])}… ({len(text):,} characters)"


def one_line(text: str, most: int = LINE) -> str:
    """Put a text on one line, shortened; ends of lines are shown as ↵. Safe."""
    # Cut generously before the look at each character: a result may have megabytes.
    head = _BREAK.sub(" ↵ ", text[: most * 4].strip().replace("\r\n", "\n")).replace("\t", " ")
    if len(text) <= most * 4 and len(head) <= most:
        return safe(head)
    return f"{safe(head[:most])}… ({len(text):,} characters)"


def counted(number: int, noun: str) -> str:
    """Count things: `1 round`, `1,234 rounds`."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
