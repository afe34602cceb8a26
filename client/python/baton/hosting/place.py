"""Where a run looks up the functions and hooks of whoever resumes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where whoever resumes a run serves its functions and hooks. Both empty: it brought none.

    `suffix`: what its hooks have behind their names.
    """

    scope: str = ""
    suffix: str = ""


NOWHERE = Place()
