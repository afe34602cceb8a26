"""The latest of something, within a bound: what was not used for the longest time goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key, whose weights together stay within a bound. One that is heavier than all of it is not kept."""

    def __init__(self, bound: int) -> None:
        self._bound, self._weight = bound, 0
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """Find a value, which counts as a use; None: it is not kept."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, weight: int = 1) -> None:
        """Keep a value in place of any other of the key."""
        self.discard(key)
        self._kept[key] = (value, weight)
        self._weight += weight
        while self._weight > self._bound:
            _, (_, lighter) = self._kept.popitem(last=False)
            self._weight -= lighter

    def discard(self, key: Key) -> None:
        """Forget a value; one that is not kept is passed over."""
        found = self._kept.pop(key, None)
        if found is not None:
            self._weight -= found[1]


__all__ = ["Recent"]
