"""What a SubmitInput or a Run brings, as the core's values."""

import pytest

from baton.v1 import event_pb2, item_pb2, runner_pb2, session_pb2
from baton_server.core.events import CancelMode, Decision
from baton_server.core.inputs import CancelAsked, DecisionMade
from baton_server.core.items import FunctionCallOutput, ImagePart, Message, Role, Settlement, TextPart
from baton_server.core.submissions import CancelOf, ContinueOf, DecisionOf, NewMessages, ResultFor, Submission
from baton_server.wire.inputs import read_inputs, read_new_items


def submitted(given: session_pb2.Input) -> Submission:
    """Reads a batch of one."""
    (read,) = read_inputs(session_pb2.SubmitInputRequest(inputs=[given]))
    return read


def test_a_text_is_a_users_message() -> None:
    """It goes to the model as the Agents SDK would write it."""
    read = submitted(session_pb2.Input(text="hello"))

    assert isinstance(read, NewMessages)
    assert read.items[0].body == Message(role=Role.USER, content=(TextPart(text="hello"),))
    assert read.items[0].json == '{"content":"hello","role":"user"}'


def test_parts_are_one_message() -> None:
    """Text and picture stay together, in order."""
    content = [
        item_pb2.ContentPart(text="what is this?"),
        item_pb2.ContentPart(image=item_pb2.ImagePart(url="https://example.com/a.png", detail="low")),
    ]

    read = submitted(session_pb2.Input(message=session_pb2.MessageInput(content=content)))

    assert isinstance(read, NewMessages)
    picture = ImagePart(url="https://example.com/a.png", detail="low")
    assert read.items[0].body == Message(role=Role.USER, content=(TextPart(text="what is this?"), picture))


def test_raw_items_keep_their_very_text() -> None:
    """Spacing and big numbers reach the model as they came."""
    raw = '{ "role": "user", "content": "a", "n": 9007199254740993.10 }'

    read = submitted(session_pb2.Input(items_json=f"[{raw}, {raw}]"))

    assert isinstance(read, NewMessages)
    assert [item.json for item in read.items] == [raw, raw]


@pytest.mark.parametrize(
    ("result", "settlement", "told"),
    [
        (session_pb2.ToolResult(output="18 °C"), Settlement.OUTSIDE_OUTPUT, TextPart(text="18 °C")),
        (session_pb2.ToolResult(output_json="[1]"), Settlement.OUTSIDE_OUTPUT, TextPart(text="[1]", is_json=True)),
        (session_pb2.ToolResult(error="no such city"), Settlement.OUTSIDE_FAILURE, TextPart(text="no such city")),
    ],
)
def test_a_result_from_outside_settles_its_call(
    result: session_pb2.ToolResult, settlement: Settlement, told: TextPart
) -> None:
    """Nobody's attempt and no worker's, recognised by its digest."""
    result.turn_id, result.call_id = "turn_1", "call_1"

    read = submitted(session_pb2.Input(tool_result=result))

    assert isinstance(read, ResultFor)
    assert (read.turn_id, read.settled.call_id) == ("turn_1", "call_1")
    assert (read.settled.settlement, read.settled.output) == (settlement, (told,))
    assert (read.settled.attempt, read.settled.worker_id) == (0, "")
    assert len(read.settled.digest) == 64


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (event_pb2.CANCEL_MODE_UNSPECIFIED, CancelMode.NOW),
        (event_pb2.CANCEL_MODE_NOW, CancelMode.NOW),
        (event_pb2.CANCEL_MODE_AFTER_ROUND, CancelMode.AFTER_ROUND),
    ],
)
def test_a_cancel_has_its_mode(mode: event_pb2.CancelMode.ValueType, expected: CancelMode) -> None:
    """Not said is NOW."""
    read = submitted(session_pb2.Input(cancel=session_pb2.CancelInput(turn_id="turn_1", mode=mode, reason="r")))

    assert read == CancelOf(turn_id="turn_1", asked=CancelAsked(mode=expected, reason="r", grace_s=5.0))


def test_a_cancel_may_have_no_grace() -> None:
    """0 s is said, and not the default."""
    cancel = session_pb2.CancelInput(turn_id="turn_1")
    cancel.grace.SetInParent()

    read = submitted(session_pb2.Input(cancel=cancel))

    assert isinstance(read, CancelOf)
    assert read.asked.grace_s == 0.0


@pytest.mark.parametrize(("verdict", "approve"), [("VERDICT_APPROVE", True), ("VERDICT_REJECT", False)])
def test_a_decision_says_what_was_seen_and_for_how_long_it_holds(verdict: str, approve: bool) -> None:
    """With the digests to which it is bound, and who said so."""
    message = event_pb2.Decision(
        turn_id="turn_1", call_id="call_1", verdict=event_pb2.Verdict.Value(verdict), always=True,
        always_in_session=True, arguments_digest="a" * 64, definition_digest="d" * 64, decided_by="ann", message="no",
    )  # fmt: skip

    read = submitted(session_pb2.Input(decision=message))

    decision = Decision(
        call_id="call_1", approve=approve, always=True, always_in_session=True, arguments_digest="a" * 64,
        definition_digest="d" * 64, decided_by="ann", message="no",
    )  # fmt: skip
    assert read == DecisionOf(turn_id="turn_1", made=DecisionMade(decision=decision))


def test_going_on_keeps_the_old_limit_unless_it_says_one() -> None:
    """Absent is not 0, which would end the turn before its first round."""
    plain, limited, free = (
        submitted(session_pb2.Input(continues=session_pb2.ContinueInput(turn_id="turn_1", **said)))
        for said in ({}, {"max_turns": 0}, {"unlimited_turns": True})
    )

    assert plain == ContinueOf(turn_id="turn_1")
    assert limited == ContinueOf(turn_id="turn_1", max_turns=0)
    assert free == ContinueOf(turn_id="turn_1", unlimited_turns=True)


@pytest.mark.parametrize("kind", [runner_pb2.RunRequest, runner_pb2.RunStreamedRequest])
def test_a_run_that_goes_on_may_bring_nothing_new(
    kind: type[runner_pb2.RunRequest | runner_pb2.RunStreamedRequest],
) -> None:
    """Or a message, which the turn starts with."""
    continues = session_pb2.ContinueInput(turn_id="turn_1")

    assert read_new_items(kind(continues=continues)) == ()
    assert len(read_new_items(kind(continues=continues, text="go on"))) == 1


def test_a_batch_keeps_its_order() -> None:
    """One value per input, so that outcomes can be told one by one."""
    request = session_pb2.SubmitInputRequest(
        inputs=[session_pb2.Input(text="a"), session_pb2.Input(text="b"),
                session_pb2.Input(cancel=session_pb2.CancelInput(turn_id="t"))]
    )  # fmt: skip

    assert [type(read) for read in read_inputs(request)] == [NewMessages, NewMessages, CancelOf]


@pytest.mark.parametrize("kind", [runner_pb2.RunRequest, runner_pb2.RunStreamedRequest])
def test_a_run_brings_its_items(kind: type[runner_pb2.RunRequest | runner_pb2.RunStreamedRequest]) -> None:
    """Text, parts or raw items, the same as a submit."""
    content = [item_pb2.ContentPart(text="hello")]
    output = '[{"type":"function_call_output","call_id":"c","output":"18"}]'

    (text,) = read_new_items(kind(text="hello"))
    (message,) = read_new_items(kind(message=session_pb2.MessageInput(content=content)))
    (raw,) = read_new_items(kind(items_json=output))

    assert text.body == message.body
    assert isinstance(raw.body, FunctionCallOutput)


def test_what_the_checks_refuse_is_not_read() -> None:
    """An input that is none is our mistake here, and no empty message."""
    with pytest.raises(ValueError, match="none"):
        submitted(session_pb2.Input())
    with pytest.raises(ValueError, match="no input"):
        read_new_items(runner_pb2.RunRequest())
