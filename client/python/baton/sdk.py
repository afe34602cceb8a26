"""What this library calls itself."""

from __future__ import annotations

import platform
from importlib import metadata

from baton.v1 import handler_pb2


def sdk() -> handler_pb2.Sdk:
    """Say which library speaks, for ListWorkers and logs."""
    return handler_pb2.Sdk(
        name="baton-python",
        version=_version(),
        language=f"python {platform.python_version()}",
    )


def _version() -> str:
    try:
        return metadata.version("baton-runtime")
    except metadata.PackageNotFoundError:
        return "unknown"  # run from a source tree that was not installed
