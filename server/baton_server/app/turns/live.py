"""The text that a model is writing at the moment: for watchers who come in the middle, and for a cancel.

Fragments are a side channel. Here they get their place (byte offsets), are gathered (a first one at once, then
one per 30 ms or 1 KiB) and are kept until the reply is committed, so that a newcomer gets all so far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from baton_server.app.runtime import Limits
from baton_server.core import ids
from baton_server.ports.bus import Part, Parts, Place
from baton_server.ports.model import TextDelta


@dataclass(slots=True)
class _Text:
    """One growing part of a message. `sent` bytes of `size` were published; `waiting` were not."""

    place: Place
    pieces: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    size: int = 0
    sent: int = 0


class LiveRound:
    """What one model request has written so far. `emit` publishes parts; it is not called when nobody listens."""

    def __init__(
        self,
        *,
        at: Place,
        first_number: int,
        parts: Parts,
        limits: Limits,
        emit: Callable[[Sequence[Part]], None],
        heard: Callable[[], bool],
    ) -> None:
        self._at, self._first_number = at, first_number
        self._parts, self._limits, self._emit, self._heard = parts, limits, emit, heard
        self._texts: dict[tuple[int, int], _Text] = {}
        self._last_sent = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def add(self, delta: TextDelta) -> None:
        """Take in a fragment, and publish what is due."""
        if self._stopped:
            return
        text = self._text(delta)
        text.pieces.append(delta.text)
        text.waiting.append(delta.text)
        text.size += len(delta.text.encode())
        if not self._heard():
            return
        loop = asyncio.get_running_loop()
        quiet = loop.time() - self._last_sent
        if quiet >= self._limits.delta_interval_s or text.size - text.sent >= self._limits.delta_bytes:
            self.flush()
        elif self._timer is None:
            self._timer = loop.call_later(self._limits.delta_interval_s - quiet, self.flush)

    def stop(self) -> None:
        """Take in nothing more, and publish nothing more by itself: what was written so far counts."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def flush(self) -> None:
        """Publish what is held back."""
        parts = self.held_back()
        if parts:
            self._emit(parts)

    def held_back(self) -> list[Part]:
        """Take out what was not published yet, as parts."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._last_sent = asyncio.get_running_loop().time()
        made = []
        for text in self._texts.values():
            if text.waiting:
                made.append(self._part(self._parts.delta_part(_at(text, text.sent), "".join(text.waiting))))
                text.waiting.clear()
                text.sent = text.size
        return made

    def reset(self, reason: str) -> Part:
        """Make the reset that a newcomer needs: all so far. What was held back is published first."""
        self.flush()
        texts = [(text.place, "".join(text.pieces)) for text in self._texts.values()]
        return self._part(self._parts.reset_part(self._at, texts, reason))

    def again(self) -> None:
        """Begin anew: the request failed and is made again, so that all fragments so far are void."""
        wrote = bool(self._texts)
        self.held_back()
        self._texts.clear()
        self._at = replace(self._at, model_attempt=self._at.model_attempt + 1)
        if wrote and not self._stopped:
            self._emit((self._part(self._parts.reset_part(self._at, [], "RETRIED")),))

    def text(self) -> str:
        """Join all that was written so far."""
        return "".join("".join(text.pieces) for text in self._texts.values())

    def _text(self, delta: TextDelta) -> _Text:
        key = (delta.output_index, delta.part_index)
        if key not in self._texts:
            number = self._first_number + delta.output_index
            item_id = ids.item_id(self._at.turn_id, number)
            part = replace(self._at, output_index=delta.output_index, part_index=delta.part_index)
            self._texts[key] = _Text(replace(part, item_id=item_id, offset=0))
        return self._texts[key]

    def _part(self, data: bytes) -> Part:
        return Part(sequence=0, turn_id=self._at.turn_id, data=data)


def _at(text: _Text, offset: int) -> Place:
    return replace(text.place, offset=offset)
