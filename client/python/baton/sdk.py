"""What this library calls itself."""

from __future__ import annotations

import platform
from importlib import metadata

from baton.v1 import handler_pb2


def sdk() -> handler_pb2.Sdk:
    """Say which library speaks, for ListWorkers and logs."""
    return handler_pb2.Sdk(
        name="baton-python",
        version=library_version(),
        language=f"python {platform.python_version()}",
    )


def library_version() -> str:
    """Say which version of this library is installed; "unknown": none is."""
    try:
        return metadata.version("baton-runtime")
    except metadata.PackageNotFoundError:
        return "unknown"  # run from a source tree that was not installed
