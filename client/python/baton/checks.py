"""Checks of what a program says: TypeError for a value of another kind, UserError for one out of bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from baton.errors import UserError


def check_bool(what: str, value: object, *, none: bool = False) -> None:
    """Check a flag. `none`: None is as good."""
    if not isinstance(value, bool) and not (none and value is None):
        raise TypeError(f"{what} must be True{', False or None' if none else ' or False'}, not {value!r}")


def check_whole(what: str, value: object, least: int, most: int | None = None) -> None:
    """Check a whole number, or None. `most` None: no bound."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be a whole number, not {value!r}")
    if value < least or (most is not None and value > most):
        raise UserError(f"{what} must be {_range(least, most)}, not {value}")


def check_number(what: str, value: object, least: float, most: float | None = None) -> None:
    """Check a number, or None. `most` None: no bound but infinity."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number, not {value!r}")
    if not least <= value <= (math.inf if most is None else most) or math.isinf(value):
        raise UserError(f"{what} must be {_range(least, most)}, not {value!r}")


def check_text(what: str, value: object, *, most: int | None = None, none: bool = True) -> None:
    """Check a text that is not empty. `most`: characters. `none`: None is as good."""
    if none and value is None:
        return
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text, not {value!r}"[:500])
    if not value or (most is not None and len(value) > most):
        bounds = "that is not empty" if most is None else f"of 1 to {most} characters"
        raise UserError(f"{what} must be a text {bounds}, not {value[:80]!r}")


def _range(least: float, most: float | None) -> str:
    return f"at least {least:g}" if most is None else f"{least:g} to {most:g}"


def check_list(what: str, given: object) -> None:
    """Check that something is a list, or another sequence. Raises TypeError."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise TypeError(f"{what} must be a list, not {given!r}")
