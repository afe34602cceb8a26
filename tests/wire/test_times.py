"""Times and durations come through as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton_server.wire.times import read_duration, split_time, write_duration, write_time


@given(st.integers(-3_600_000_000, 3_600_000_000))
def test_a_duration_is_read_back_equal(micros: int) -> None:
    """To the microsecond, and in the form that Duration demands."""
    seconds = micros / 1_000_000

    written = write_duration(seconds)

    assert read_duration(written) == seconds
    assert written.seconds * written.nanos >= 0
    assert abs(written.nanos) < 1_000_000_000


@pytest.mark.parametrize(("seconds", "whole"), [(1.9999999999, 2), (-1.9999999999, -2)])
def test_a_duration_is_rounded_into_the_next_second(seconds: float, whole: int) -> None:
    """A billion nanoseconds are a second."""
    written = write_duration(seconds)

    assert (written.seconds, written.nanos) == (whole, 0)


@given(st.floats(0, 4e9))
def test_a_time_keeps_its_microseconds(at: float) -> None:
    """Nanoseconds stay within their second."""
    seconds, nanos = split_time(at)

    assert 0 <= nanos < 1_000_000_000
    assert seconds + nanos / 1e9 == pytest.approx(at, abs=1e-6)
    assert write_time(at).ToMicroseconds() == round(at * 1_000_000)
