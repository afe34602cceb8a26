"""Omission at rest: a text above `INLINE_BYTES` stands in its message as length and digest.

The text itself is collected by digest, for the store to keep beside the log and for ReadContent to stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256

from baton.v1 import item_pb2
from baton_server.wire.texts import above

INLINE_BYTES = 262_144
"""Texts up to this many UTF-8 bytes stay in place (PROTOCOL.md §5)."""


Omission = Callable[[str], "item_pb2.Omitted | None"]
"""Says what stands in place of a text; None: the text itself."""


class Omit:
    """Collects what was omitted: `contents` has the texts in UTF-8 by their SHA-256 digest."""

    def __init__(self, limit: int = INLINE_BYTES) -> None:
        self._limit = limit
        self.contents: dict[str, bytes] = {}

    def __call__(self, text: str) -> item_pb2.Omitted | None:
        """Omit a text if it is too large; None: it may stay."""
        if not above(text, self._limit):
            return None
        data = text.encode()
        omitted = omitted_of(data)
        self.contents[omitted.sha256] = data
        return omitted


def omitted_of(data: bytes) -> item_pb2.Omitted:
    """Make what stands in place of a text of these bytes."""
    return item_pb2.Omitted(omitted_bytes=len(data), sha256=sha256(data).hexdigest())


def stays(_text: str) -> None:
    """Omit nothing: in place of an `Omit`."""


def resolve(omitted: item_pb2.Omitted, contents: Mapping[str, bytes]) -> str:
    """Read what was omitted. Raises LookupError with the digest if `contents` does not have it."""
    try:
        return contents[omitted.sha256].decode()
    except KeyError:
        raise LookupError(f"the content {omitted.sha256} is not at hand") from None
