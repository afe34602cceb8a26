"""Answers that fit their peer: pages close early, runs leave out their oldest items."""

from hashlib import sha256

from baton.v1 import event_pb2, item_pb2, runner_pb2, session_pb2
from baton_server.wire.fit import close_page, fit_message

FLOOR = 65_536


def item(number: int, size: int) -> item_pb2.Item:
    """An item with a text of a size."""
    made = item_pb2.Item(item_id=f"item_{number}")
    made.message.content.add(text=chr(97 + number % 26) * size)
    return made


def run(*sizes: int) -> runner_pb2.RunResponse:
    """A run with items of some sizes, oldest first."""
    response = runner_pb2.RunResponse(session_id="sess_1", new_items=[item(n, size) for n, size in enumerate(sizes)])
    response.turn.output = "done"
    return response


def test_a_page_closes_before_it_is_too_large() -> None:
    """What is left comes with the next page."""
    items = [item(n, 20_000) for n in range(5)]

    page = close_page(items, FLOOR)

    assert page == items[:3]
    assert session_pb2.ListItemsResponse(items=page, next_page_token="t" * 500).ByteSize() <= FLOOR


def test_a_page_has_at_least_one_element() -> None:
    """One that is too large alone is made to fit, so that a list always gets on."""
    page = close_page([item(0, 200_000), item(1, 10)], FLOOR)

    assert [i.item_id for i in page] == ["item_0", "item_1"]
    assert page[0].message.content[0].omitted_text.omitted_bytes == 200_000


def test_an_empty_list_is_an_empty_page() -> None:
    """Nothing to list is nothing wrong."""
    assert close_page([], FLOOR) == []


def test_a_message_that_fits_is_not_touched() -> None:
    """Nothing is omitted without need."""
    response = run(10, 20)
    before = runner_pb2.RunResponse()
    before.CopyFrom(response)

    assert fit_message(response, FLOOR) == {}
    assert response == before


def test_a_run_leaves_out_its_oldest_items() -> None:
    """The newest items, the outcome and what is open are there; the rest is in ListItems."""
    response = run(10, 40_000, 40_000, 10)

    fit_message(response, FLOOR)

    assert response.items_left_out
    assert [i.item_id for i in response.new_items] == ["item_2", "item_3"]
    assert response.ByteSize() <= FLOOR
    assert response.turn.output == "done"


def test_a_run_omits_the_texts_of_an_item_too_large_alone() -> None:
    """The newest item is never dropped for its size."""
    response = run(10, 200_000)

    omitted = fit_message(response, FLOOR)

    assert [i.item_id for i in response.new_items] == ["item_0", "item_1"]
    assert not response.items_left_out
    digest = response.new_items[1].message.content[0].omitted_text.sha256
    assert omitted == {digest: b"b" * 200_000}
    assert response.ByteSize() <= FLOOR


def test_a_run_omits_what_is_said_once() -> None:
    """Output, arguments and the next items are read by digest where they do not fit."""
    response = run(10)
    response.turn.output = "o" * 100_000
    response.next_items_json = "n" * 100_000
    response.required_actions.add(call_id="call_1", arguments_json="a" * 100_000)

    omitted = fit_message(response, FLOOR)

    assert response.turn.output_omitted.omitted_bytes == 100_000
    assert response.next_items_omitted.sha256 == sha256(b"n" * 100_000).hexdigest()
    assert response.next_items_json == ""
    assert response.required_actions[0].arguments_omitted.omitted_bytes == 100_000
    assert len(omitted) == 3
    assert [i.item_id for i in response.new_items] == ["item_0"]
    assert response.ByteSize() <= FLOOR


def test_a_run_of_very_many_rounds_fits() -> None:
    """The oldest rounds' usage goes last of all; the turn's own sum stays."""
    response = run(10)
    response.round_usage.extend(
        runner_pb2.RoundUsage(round=n, model="gpt", response_id="resp_" + "r" * 50) for n in range(1, 5001)
    )

    fit_message(response, FLOOR)

    assert response.ByteSize() <= FLOOR
    assert response.round_usage[-1].round == 5000


def test_a_run_leaves_out_what_guardrails_told() -> None:
    """The largest reasons go first; who said what stays."""
    response = run(10)
    for name, size in (("a", 60_000), ("b", 10_000)):
        response.guardrail_results.add(name=name, info_json='"' + "i" * size + '"')

    fit_message(response, FLOOR)

    assert [(one.name, bool(one.info_json)) for one in response.guardrail_results] == [("a", False), ("b", True)]
    assert [i.item_id for i in response.new_items] == ["item_0"]
    assert response.ByteSize() <= FLOOR


def test_a_structured_output_is_omitted_like_a_text() -> None:
    """It is read by digest where it does not fit."""
    response = run(10)
    response.turn.output_json = '"' + "o" * 100_000 + '"'

    omitted = fit_message(response, FLOOR)

    assert omitted == {response.turn.output_omitted.sha256: b'"' + b"o" * 100_000 + b'"'}


def test_a_session_with_large_arguments_fits() -> None:
    """GetSession answers whatever a model has asked for."""
    session = session_pb2.Session(session_id="sess_1")
    for number in range(20):
        session.required_actions.add(call_id=f"call_{number}", arguments_json="a" * 200_000)
    response = session_pb2.GetSessionResponse(session=session)

    fit_message(response, 3 * 1024 * 1024)

    kept = [action for action in response.session.required_actions if action.arguments_json]
    assert len(response.session.required_actions) == 20
    assert 14 <= len(kept) < 20
    assert response.ByteSize() <= 3 * 1024 * 1024


def test_an_item_that_cannot_be_made_smaller_loses_its_arm() -> None:
    """It is shown as opaque, by id and status."""
    big = item_pb2.Item(item_id="item_1", status=item_pb2.ITEM_STATUS_COMPLETED)
    big.reasoning.encrypted_content = "e" * 100_000
    response = session_pb2.ListItemsResponse(items=[big, item(2, 10)])

    fit_message(response, FLOOR)

    assert response.items[0].WhichOneof("item") is None
    assert response.items[0].item_id == "item_1"
    assert response.items[1].WhichOneof("item") == "message"


def test_an_events_page_keeps_every_sequence() -> None:
    """No event is missing from a list because it is large."""
    events = [event_pb2.Event(session_id="sess_1", sequence=n) for n in (1, 2)]
    events[0].items_withdrawn.item_ids.extend("i" * 60 for _ in range(3000))
    events[1].session_idle.SetInParent()

    page = close_page(events, FLOOR)

    assert [event.sequence for event in page] == [1, 2]
    assert page[0].WhichOneof("event") is None
    assert page[1].WhichOneof("event") == "session_idle"
