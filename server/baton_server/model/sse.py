"""Server-sent events: a stream of bytes cut into the data of its events, whatever the cuts it arrives in.

Only the `data` of an event is read: the Responses API repeats the event's name in it, as `type`. Line ends
(LF, CRLF, CR), comments, several `data` lines and a byte order mark are as the WHATWG's specification has
them; the one departure is `finish`.
"""

from __future__ import annotations

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventCutter:
    """Cuts one stream. Bytes are never decoded, so a character may arrive in two chunks."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the event under way; joined once, however many they are
        self._line_ended = False
        self._carriage_return = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes and return the data of each event that they complete, in order."""
        if self._carriage_return or b"\r" in chunk:
            chunk = self._with_line_feeds(chunk)
        if not chunk:
            return []
        self._parts.append(chunk)
        completes = b"\n\n" in chunk or (self._line_ended and chunk.startswith(b"\n"))
        self._line_ended = chunk.endswith(b"\n")
        if not completes:
            return []
        *blocks, rest = b"".join(self._parts).split(b"\n\n")
        self._parts = [rest] if rest else []
        return [data for block in blocks if (data := _data(block))]

    def finish(self) -> list[bytes]:
        """Return the data of an event that the stream ended in before its blank line, at most one.

        The specification drops it; some servers leave out the last blank line.
        """
        data = _data(b"".join(self._parts))
        self._parts = []
        return [data] if data else []

    def _with_line_feeds(self, chunk: bytes) -> bytes:
        if not chunk:
            return chunk
        if self._carriage_return and chunk.startswith(b"\n"):  # the second half of a CRLF
            chunk = chunk[1:]
            self._carriage_return = False
        if chunk:
            self._carriage_return = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data(block: bytes) -> bytes:
    lines = block.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
    return b"\n".join([line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")])
