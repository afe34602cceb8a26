"""Times and durations: seconds as float on our side, Timestamp and Duration on the wire.

A time is kept to the microsecond, which is what a float holds of seconds since the epoch; a duration to the
nanosecond.
"""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

_NANOS = 1_000_000_000
"""In a second. Sums are made in whole numbers, so that 12.351 s comes back as the float that it was."""


def split_time(at: float) -> tuple[int, int]:
    """Split seconds since the epoch into whole seconds and nanoseconds, to the microsecond."""
    micros = round(at * 1_000_000)
    return micros // 1_000_000, micros % 1_000_000 * 1000


def write_time(at: float) -> Timestamp:
    """Write seconds since the epoch."""
    seconds, nanos = split_time(at)
    return Timestamp(seconds=seconds, nanos=nanos)


def write_duration(seconds: float) -> Duration:
    """Write a duration in seconds; seconds and nanoseconds have one sign, as Duration demands."""
    whole = int(seconds)
    nanos = round((seconds - whole) * 1_000_000_000)
    if abs(nanos) == 1_000_000_000:
        whole, nanos = whole + (1 if nanos > 0 else -1), 0
    return Duration(seconds=whole, nanos=nanos)


def read_duration(length: Duration) -> float:
    """Read a duration in seconds."""
    return (length.seconds * _NANOS + length.nanos) / _NANOS
