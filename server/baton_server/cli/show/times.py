"""Times as people read them. Exact ones are in the JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

_STEPS = (
    (timedelta(minutes=1), timedelta(seconds=1), "s"),
    (timedelta(hours=1), timedelta(minutes=1), "min"),
    (timedelta(days=1), timedelta(hours=1), "h"),
    (timedelta(days=30), timedelta(days=1), "d"),
)
"""Below how long a distance is counted in what."""


def now() -> datetime:
    """Read this machine's clock."""
    return datetime.now(UTC)


def ago(when: Timestamp, at: datetime) -> str:
    """Say how long before `at` something was: `2 min ago`; after 30 days: the date."""
    passed = at - _instant(when)
    if passed < timedelta(seconds=1):  # also where the server's clock is ahead of ours
        return "now"
    words = _distance(passed)
    return f"{words} ago" if words else day(when)


def ahead(when: Timestamp, at: datetime) -> str:
    """Say how long after `at` something will be: `in 25 s`; after 30 days: the date."""
    left = _instant(when) - at
    if left < timedelta(seconds=1):
        return "now"
    words = _distance(left)
    return f"in {words}" if words else f"on {day(when)}"


def clock(when: Timestamp) -> str:
    """Write a time of day as this machine's clocks show it: `14:03:22`."""
    return f"{_instant(when).astimezone():%H:%M:%S}"


def day(when: Timestamp) -> str:
    """Write a day by this machine's calendar: `2026-11-30`."""
    return f"{_instant(when).astimezone():%Y-%m-%d}"


def seconds(duration: Duration) -> str:
    """Write how long something took: `1.2 s`."""
    return f"{duration.ToTimedelta().total_seconds():.1f} s"


def _distance(long: timedelta) -> str:
    """Count in the largest unit that fits; empty: it is too long for that."""
    return next((f"{long // unit} {name}" for below, unit, name in _STEPS if long < below), "")


def _instant(when: Timestamp) -> datetime:
    return when.ToDatetime(tzinfo=UTC)
