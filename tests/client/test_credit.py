"""Credit: what is granted never exceeds what a worker takes, and comes back in time."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from baton.hosting.credit import Credit


def test_credit_gathers_before_it_goes_back() -> None:
    """A quarter of all of it, so that one frame serves several calls."""
    credit = Credit(8)
    assert credit.opening(0, 0, 0).messages == 8
    credit.use(1)
    credit.free(1)
    assert credit.due(0) is None
    credit.use(1)
    credit.free(1)

    given_back = credit.due(0)
    assert given_back is not None and (given_back.messages, given_back.bytes) == (2, 0)


def test_a_worker_whose_bytes_are_used_up_is_not_waited_for() -> None:
    """The share of messages has not gathered, yet without bytes nothing would come any more."""
    credit = Credit(64, 1000)
    credit.opening(0, 0, 0)
    credit.use(1000)
    credit.free(1000)

    given_back = credit.due(0)
    assert given_back is not None and (given_back.messages, given_back.bytes) == (1, 1000)


def test_a_worker_without_a_limit_of_bytes_never_speaks_of_them() -> None:
    """Neither on the stream on which calls came, nor on the next one: less than none would be a wrong Hello."""
    credit = Credit(4)
    credit.opening(0, 0, 0)
    for _ in range(3):
        credit.use(100)

    assert credit.opening(3, 300, 3).bytes == 0


def test_a_worker_that_holds_too_much_opens_with_one_byte_and_no_call() -> None:
    """No byte would say that there is no limit; what is granted too much is taken off what comes back."""
    credit = Credit(4, 100)
    opened = credit.opening(1, 250, 1)
    assert (opened.messages, opened.bytes) == (0, 1)
    credit.free(250)

    given_back = credit.due(0)
    assert given_back is not None and (given_back.messages, given_back.bytes) == (4, 99)


def test_results_without_their_ack_hold_credit_back() -> None:
    """A server that takes calls' results slowly gets no more calls than the worker can keep."""
    credit = Credit(4)
    credit.opening(0, 0, 0)
    for _ in range(4):
        credit.use(0)
        credit.free(0)

    assert credit.due(5) is None
    given_back = credit.due(4)
    assert given_back is not None and given_back.messages == 4


@given(
    messages=st.integers(1, 9),
    limit=st.integers(1, 60),
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    data=st.data(),
)
def test_a_server_that_keeps_to_credit_never_exceeds_and_never_starves(
    messages: int, limit: int, sizes: list[int], data: st.DataObject
) -> None:
    """Calls of any sizes, ending in any order, over any breaks: all get through, and one at most is too large."""
    credit = Credit(messages, limit)
    busy: list[int] = []
    opened = credit.opening(0, 0, 0)
    left, left_bytes = opened.messages, opened.bytes
    waiting = deque(sizes)
    while waiting or busy:
        if waiting and left > 0 and left_bytes > 0:
            size = waiting.popleft()
            left, left_bytes = left - 1, left_bytes - size
            credit.use(size)
            busy.append(size)
        else:
            assert busy, "the server may send nothing, and nothing will change that"
            credit.free(busy.pop(data.draw(st.integers(0, len(busy) - 1))))
        assert len(busy) <= messages
        assert sum(busy) - max(busy, default=0) < limit + 1
        given_back = credit.due(len(busy))
        if given_back is not None:
            left, left_bytes = left + given_back.messages, left_bytes + given_back.bytes
        elif data.draw(st.integers(0, 9)) == 0:
            opened = credit.opening(len(busy), sum(busy), len(busy))
            left, left_bytes = opened.messages, opened.bytes
