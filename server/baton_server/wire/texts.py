"""Texts by their length in UTF-8 bytes: measured without encoding where that is possible, and cut whole."""

from __future__ import annotations

_MARK = "…"
_MOST_BYTES_A_CHARACTER = 4


def utf8_size(text: str) -> int:
    """Count the UTF-8 bytes of a text."""
    return len(text) if text.isascii() else len(text.encode())


def above(text: str, limit: int) -> bool:
    """Tell whether a text has more than `limit` UTF-8 bytes."""
    if len(text) * _MOST_BYTES_A_CHARACTER <= limit:
        return False
    return len(text) > limit or utf8_size(text) > limit


def cut(text: str, limit: int) -> str:
    """Keep the beginning of a text, at most `limit` UTF-8 bytes with the mark that says so."""
    if not above(text, limit):
        return text
    return head(text, limit - len(_MARK.encode())) + _MARK


def cut_front(text: str, limit: int) -> str:
    """Keep the end of a text, at most `limit` UTF-8 bytes with the mark that says so."""
    if not above(text, limit):
        return text
    kept = text.encode()[-(limit - len(_MARK.encode())) :]
    return _MARK + kept.decode("utf-8", "ignore")


def head(text: str, limit: int) -> str:
    """Take the longest beginning of whole characters that has at most `limit` UTF-8 bytes."""
    return text.encode()[: max(limit, 0)].decode("utf-8", "ignore")
