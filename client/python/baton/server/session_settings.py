"""How much of a session a run remembers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from baton.checks import check_whole
from baton.options import options


@options
@dataclass(frozen=True)
class SessionSettings:
    """`limit`: only so many of the newest items, at least 0; None: all."""

    limit: int | None = None

    def __post_init__(self) -> None:
        check_whole("SessionSettings: limit", self.limit, 0)

    def resolve(self, override: SessionSettings | None) -> SessionSettings:
        """Lay others over these; None in them leaves what is here."""
        return self if override is None or override.limit is None else override

    def to_dict(self) -> dict[str, int | None]:
        """Write it as a dict."""
        return dataclasses.asdict(self)


def read_session_settings(given: object) -> SessionSettings | None:
    """Take settings as they may be given: an object, a dict of its fields, or none. Raises TypeError."""
    if given is None or isinstance(given, SessionSettings):
        return given
    if isinstance(given, Mapping):
        return SessionSettings(**given)
    raise TypeError(f"session_settings must be a SessionSettings or a dict, not {given!r}")
