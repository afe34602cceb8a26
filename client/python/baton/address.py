"""Where the server is: an argument, else `set_default_address`, else BATON_ADDRESS, else this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass

ENVIRONMENT = "BATON_ADDRESS"
FALLBACK = "127.0.0.1:50051"


@dataclass(slots=True)
class _Default:
    address: str | None = None


_default = _Default()


def set_default_address(address: str | None) -> None:
    """Set the `host:port` that is used where none is given; None: back to the environment's."""
    _default.address = address


def resolve_address(address: str | None = None) -> str:
    """Say which server is meant, as `host:port`."""
    return address or _default.address or os.environ.get(ENVIRONMENT) or FALLBACK
