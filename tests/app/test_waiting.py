"""The queue of calls that wait: oldest first, whatever comes, goes, is put off or comes back."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from baton_server.app.calls.waiting import WaitingCall, WaitingCalls

NAMES = ("f", "g")
SCOPES = (("",), ("a", ""))
VERSIONS = ("", "2")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 15), st.sampled_from((0.0, 5.0, 9.0))),
        st.tuples(st.just("discard"), st.integers(0, 15), st.none()),
        st.tuples(st.just("pass"), st.integers(1, 4), st.none()),
        st.tuples(st.just("take"), st.integers(1, 4), st.sets(st.sampled_from(NAMES))),
    ),
    max_size=60,
)


def call(number: int, available_at: float = 0.0) -> WaitingCall:
    """Make a call: its number says its place, its name, its scopes and its version."""
    return WaitingCall(
        call_id=f"call_{number}",
        name=NAMES[number % 2],
        scopes=SCOPES[number // 2 % 2],
        place=number,
        version=VERSIONS[number // 4 % 2],
        available_at=available_at,
    )


@given(STEPS)
@example([("add", 0, 0.0), ("discard", 0, None), ("add", 0, 5.0), ("take", 1, {"f"})])  # its former place is void
def test_it_gives_what_a_plain_list_would_give(steps: list[tuple[str, int, object]]) -> None:
    """Sorting all calls by place and looking at each gives the same, only slower."""
    queue, plain, now = WaitingCalls(), dict[str, WaitingCall](), 0.0
    for what, number, more in steps:
        match what, more:
            case "add", float(until):
                added = call(number, until)
                if added.call_id not in queue:
                    queue.add(added, now)
                    plain[added.call_id] = added
            case "discard", _:
                queue.discard(f"call_{number}")
                plain.pop(f"call_{number}", None)
            case "pass", _:
                now += number
                queue.release_due(now)
            case "take", set(names):
                taken = take(queue, number, names)
                due = [one for one in plain.values() if one.available_at <= now and one.name in names]
                expected = sorted(one.place for one in due)[:number]
                assert taken == expected
                for place in expected:
                    del plain[f"call_{place}"]
        assert len(queue) == len(plain)


def take(queue: WaitingCalls, room: int, names: set[object]) -> list[int]:
    """Take as many calls as there is room for; returns their places, in the order in which they came."""
    left = [room]

    def choose(_call: WaitingCall) -> bool | None:
        left[0] -= 1
        return True if left[0] >= 0 else None

    return [taken.place for taken, _ in queue.take([str(name) for name in sorted(map(str, names))], choose)]


def test_a_group_that_finds_no_taker_holds_up_no_other() -> None:
    """Calls of one name wait; those of another go out, in their order."""
    queue = WaitingCalls()
    for number in range(8):
        queue.add(call(number), 0.0)

    taken = [one.place for one, _ in queue.take(None, lambda waiting: waiting.name == "g" or None)]

    assert taken == [1, 3, 5, 7]
    assert len(queue) == 4


def test_a_version_that_finds_no_taker_holds_up_no_other() -> None:
    """Calls of one function for a version that nobody serves do not stand before those that somebody can take."""
    queue = WaitingCalls()
    for number in range(8):
        queue.add(call(number), 0.0)

    taken = [one.place for one, _ in queue.take(["f"], lambda waiting: waiting.version == "2" or None)]

    assert taken == [4, 6]
