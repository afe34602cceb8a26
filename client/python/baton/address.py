"""Where the server is: an argument, else `set_default_address`, else BATON_ADDRESS, else this machine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from baton.errors import UserError

ENVIRONMENT = "BATON_ADDRESS"
FALLBACK = "127.0.0.1:50051"

_HOST_AND_PORT = re.compile(r"(\[[^\]\s]+\]|[^:/\s\[\]]+):\d{1,5}")
_TARGET = re.compile(r"(unix|unix-abstract|vsock|dns|ipv4|ipv6|xds):.+")
"""What gRPC takes besides, by its schemes."""


@dataclass(slots=True)
class _Default:
    address: str | None = None


_default = _Default()


def set_default_address(address: str | None) -> None:
    """Set the `host:port` that is used where none is given; None: back to the environment's. Raises UserError."""
    _default.address = _checked("set_default_address", address) if address else address


def resolve_address(address: str | None = None) -> str:
    """Say which server is meant, as `host:port`. Raises UserError for what is none, which nobody could ever reach."""
    if address:
        return _checked("address", address)
    return _default.address or _checked(ENVIRONMENT, os.environ.get(ENVIRONMENT) or FALLBACK)


def _checked(where: str, address: str) -> str:
    if not isinstance(address, str):
        raise TypeError(f"{where} must be a text such as {FALLBACK!r}, not {address!r}")
    if not (_HOST_AND_PORT.fullmatch(address) or _TARGET.fullmatch(address)):
        raise UserError(f"{where}: {address!r} is no address of a server; write HOST:PORT, for example {FALLBACK}")
    return address
