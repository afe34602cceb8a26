"""Refuses options that this version does not have, all of them by name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def refuse(owner: str, names: Iterable[str], known: Iterable[str] = ()) -> None:
    """Raise a TypeError that names what `owner` does not support. Nothing is raised for no names.

    `known`: what it does; one that is like a refused name is named beside it.
    """
    refused, there = list(names), list(known)
    if not refused:
        return
    close = {name: difflib.get_close_matches(name, there, n=1) for name in refused}
    meant = [f"did you mean {found[0]!r} by {name!r}?" for name, found in close.items() if found]
    hint = "; ".join(meant) or "leave it out"
    raise TypeError(f"{owner} does not support {', '.join(refused)} in this version of Baton; {hint}")


def refusing_unknown(owner: str, more: Iterable[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function refuse unknown keywords by name, where Python would name only the first.

    `more`: those that its `**` stands for.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = frozenset(inspect.signature(function).parameters) | frozenset(more)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            refuse(owner, (name for name in kwargs if name not in known), known)
            return function(*args, **kwargs)

        return checked

    return decorate


def options(cls: C) -> C:
    """Make a class of options refuse unknown ones by name."""
    made: Any = cls  # `__init__` is assigned to, which mypy allows on no class
    made.__init__ = refusing_unknown(cls.__name__)(made.__init__)
    return cls
