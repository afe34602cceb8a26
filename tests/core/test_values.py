"""Small values: ids that follow from a turn, failures, usage."""

from hypothesis import given
from hypothesis import strategies as st

from baton_server.core import ids
from baton_server.core.errors import RETRYABLE, Failure, Reason, clip, refuse
from baton_server.core.items import Usage

NUMBERS = st.integers(0, 16**6 - 1)


@given(NUMBERS, NUMBERS)
def test_ids_of_a_turn_sort_as_their_numbers_do(one: int, other: int) -> None:
    """As text, so that a store may order by id; the number can be read back."""
    first, second = ids.item_id("turn_01ab", one), ids.item_id("turn_01ab", other)

    assert (first < second) == (one < other)
    assert ids.number_of(first) == ids.number_of(ids.call_id("turn_01ab", one)) == one


def test_items_and_calls_of_one_number_have_the_turns_name() -> None:
    """The turn's part carries the time."""
    assert ids.item_id("turn_01ab", 10) == "item_01ab_00000a"
    assert ids.call_id("turn_01ab", 10) == "call_01ab_00000a"


@given(st.text(), st.integers(0, 40))
def test_a_clipped_text_fits_and_is_a_beginning(text: str, limit: int) -> None:
    """Never in the middle of a character."""
    clipped = clip(text, limit)

    assert len(clipped.encode()) <= limit
    assert text.startswith(clipped)
    assert clipped == text or len(clipped.encode()) > limit - 4


def test_a_failure_knows_whether_to_try_again() -> None:
    """Programs ask the failure, not a list of their own."""
    for reason in Reason:
        assert Failure(reason=reason, message="").retryable == (reason in RETRYABLE)


def test_a_refusal_carries_its_facts() -> None:
    """Reason and metadata for programs, the message for people."""
    refused = refuse(Reason.TURN_NOT_FOUND, "There is no such turn.", turn_id="turn_1")

    assert str(refused) == "There is no such turn."
    assert (refused.failure.reason, refused.failure.metadata) == (Reason.TURN_NOT_FOUND, {"turn_id": "turn_1"})
    assert refused.violations == ()


def test_usage_adds_every_field() -> None:
    """None is forgotten."""
    one = Usage(
        requests=1,
        input_tokens=2,
        cached_input_tokens=3,
        output_tokens=4,
        reasoning_tokens=5,
        total_tokens=6,
    )

    assert one + Usage() == one
    assert one + one == Usage(
        requests=2,
        input_tokens=4,
        cached_input_tokens=6,
        output_tokens=8,
        reasoning_tokens=10,
        total_tokens=12,
    )
