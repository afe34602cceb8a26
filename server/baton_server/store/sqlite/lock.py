"""The lock that keeps a database file to one store: a file beside it, held by flock and naming the holder.

The kernel lets go of a flock with the process that held it, however it ended; so a lock that was left behind
is taken over, and one that is held is really held. The file itself stays: removing it would let two processes
hold two files of one name.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from baton_server.ports.store import StoreUnavailable


class StoreHeld(StoreUnavailable):
    """Another store has the file open: another process, or another one in this process.

    `holder`: what it said of itself, with `pid`, `host` and `since` (seconds since the epoch, as text); empty:
    it has not said it yet.
    """

    def __init__(self, path: Path, holder: Mapping[str, str]) -> None:
        self.path, self.holder = path, dict(holder)
        super().__init__(
            f"{path} is held by {_described(holder)}. One process at a time can use a SQLite store: stop "
            "that one, or give this one a file of its own."
        )


def _described(holder: Mapping[str, str]) -> str:
    if "pid" not in holder:
        return "another process, which is only starting"
    rest = ", ".join(f"{name} {value}" for name, value in holder.items() if name not in ("pid", "host", "since"))
    since = datetime.fromtimestamp(float(holder.get("since", "0")), UTC).isoformat(timespec="seconds")
    said = f" ({rest})" if rest else ""
    return f"process {holder['pid']} on {holder.get('host', 'an unknown host')}{said}, since {since}"


class FileLock:
    """The lock of one database file, held from `take` to `release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, database: Path, said: Mapping[str, str]) -> FileLock:
        """Take the lock of a database file. Raises StoreHeld; OSError if the lock file cannot be made."""
        descriptor = os.open(f"{database}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(descriptor)
            os.close(descriptor)
            raise StoreHeld(database, holder) from None
        except OSError:
            os.close(descriptor)
            raise
        _write(
            descriptor,
            {"pid": str(os.getpid()), "host": socket.gethostname(), "since": f"{time.time():.3f}", **said},
        )
        return cls(descriptor)

    def release(self) -> None:
        """Let the next one take it. Later calls do nothing."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def _read(descriptor: int) -> dict[str, str]:
    try:
        said = json.loads(os.pread(descriptor, 64 * 1024, 0))
    except ValueError:
        return {}  # caught between taking the lock and naming itself
    return {str(name): str(value) for name, value in said.items()} if isinstance(said, dict) else {}


def _write(descriptor: int, holder: Mapping[str, str]) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)
