"""What a person sees of a turn, part by part, without a server."""

from __future__ import annotations

from typing import Any

from baton.v1 import error_pb2, event_pb2, item_pb2
from baton_server.cli.talk.transcript import UNFINISHED, VOID, Doing, End, Line, Shown, Text, Transcript

ASSISTANT = item_pb2.MESSAGE_ROLE_ASSISTANT


def event(turn_id: str = "turn_1", **arm: Any) -> event_pb2.StreamPart:
    """Make a part with an event of the first round."""
    return event_pb2.StreamPart(event=event_pb2.Event(turn_id=turn_id, round=1, **arm))


def message(text: str, **changes: Any) -> item_pb2.Item:
    """Make an assistant's message."""
    said = item_pb2.Message(role=ASSISTANT, content=[item_pb2.ContentPart(text=text)])
    return item_pb2.Item(**{"item_id": "item_1", "turn_id": "turn_1", "message": said, **changes})


def done(text: str, **changes: Any) -> event_pb2.StreamPart:
    """Make a part with the whole message."""
    return event(item_done=event_pb2.ItemDone(item=message(text, **changes)))


def delta(text: str, offset: int = 0, **changes: Any) -> event_pb2.StreamPart:
    """Make a part with a fragment of the message."""
    where = {"turn_id": "turn_1", "round": 1, "model_attempt": 1, "item_id": "item_1", **changes}
    return event_pb2.StreamPart(delta=event_pb2.Delta(**where, offset=offset, output_text=text))


def reset(*texts: str) -> event_pb2.StreamPart:
    """Make a part that says how far the message has come after the server's death."""
    items = [message(text) for text in texts]
    made = event_pb2.Reset(turn_id="turn_1", round=1, model_attempt=1, reason=event_pb2.RESET_REASON_LOST, items=items)
    return event_pb2.StreamPart(reset=made)


def call(
    name: str = "get_weather", arguments: str = "{}", call_id: str = "call_1", item_id: str = "item_2"
) -> event_pb2.StreamPart:
    """Make a part with a call."""
    made = item_pb2.FunctionCall(call_id=call_id, name=name, arguments_json=arguments)
    return event(item_added=event_pb2.ItemAdded(item=item_pb2.Item(item_id=item_id, function_call=made)))


def output(
    text: str,
    settlement: item_pb2.Settlement.ValueType = item_pb2.SETTLEMENT_OUTPUT,
    call_id: str = "call_1",
    name: str = "get_weather",
) -> event_pb2.StreamPart:
    """Make a part with what came of a call."""
    made = item_pb2.FunctionCallOutput(
        call_id=call_id, name=name, output=[item_pb2.ContentPart(text=text)], settlement=settlement
    )
    return event(item_added=event_pb2.ItemAdded(item=item_pb2.Item(function_call_output=made)))


def nested(part: event_pb2.StreamPart) -> event_pb2.StreamPart:
    """Put an event into the run of the call call_1."""
    part.event.run_path.append("call_1")
    return part


def shown(*parts: event_pb2.StreamPart, own_input: bool = True) -> list[Shown]:
    """Show parts one after another."""
    transcript = Transcript(own_input=own_input)
    return [one for part in parts for one in transcript.feed(part)]


def lines(*parts: event_pb2.StreamPart, own_input: bool = True) -> list[str]:
    """Lines of their own among what is shown."""
    return [one.text for one in shown(*parts, own_input=own_input) if isinstance(one, Line)]


def test_a_text_is_shown_once_as_it_comes() -> None:
    """The whole message, which follows its fragments, adds only what was held back."""
    assert shown(delta("Hel"), delta("lo", 3), done("Hello!")) == [Text("Hel"), Text("lo"), Text("!"), End()]


def test_a_message_of_which_no_fragment_came_is_shown_whole() -> None:
    """Who was away while it was written misses nothing."""
    assert shown(done("Hello!")) == [Text("Hello!"), End()]


def test_a_text_that_is_void_is_said_to_be_so_and_begins_on_a_new_line() -> None:
    """The server died, and the model answers differently."""
    found = shown(delta("Hello"), reset(), delta("Good day"), done("Good day"))

    assert found == [Text("Hello"), End(), Line(VOID, "note"), Doing("thinking"), Text("Good day"), End()]


def test_a_text_that_holds_after_a_restart_goes_on_where_it_was() -> None:
    """What was shown already is neither void nor shown again."""
    assert shown(delta("Hello, "), reset("Hello, you"), done("Hello, you!")) == [
        Text("Hello, "),
        Text("you"),
        Text("!"),
        End(),
    ]


def test_a_message_that_a_cancel_cut_off_is_not_shown_twice() -> None:
    """It is recorded whole, under another id than that of its fragments."""
    cut = done("Hello, yo", item_id="item_9", status=item_pb2.ITEM_STATUS_INCOMPLETE)

    assert shown(delta("Hello, "), cut) == [Text("Hello, "), Text("yo"), End()]


def test_text_that_is_not_in_the_reply_is_void_though_no_reset_came() -> None:
    """Who was away while the model answered anew sees the whole reply at once: another message, or none."""
    over = event(round_completed=event_pb2.RoundCompleted())

    assert lines(delta("Hello"), call(), over) == [VOID, "→ get_weather({})"]
    assert lines(delta("Hello"), call(item_id="item_1"), over) == [VOID, "→ get_weather({})"]
    assert lines(delta("Hello"), over) == [VOID]
    assert shown(delta("Hello"), done("Good day", item_id="item_2"), over) == [
        Text("Hello"),
        End(),
        Line(VOID, "note"),
        Text("Good day"),
        End(),
    ]
    assert lines(delta("Hello"), done("Hello"), call(), over) == ["→ get_weather({})"]


def test_two_messages_stand_on_lines_of_their_own() -> None:
    """Also while both of them are still being written."""
    assert shown(delta("One"), delta("Two", item_id="item_2", output_index=1)) == [Text("One"), End(), Text("Two")]


def test_the_rounds_of_the_next_turn_are_counted_anew() -> None:
    """A watched session has turns after one another; the second one's first round is no old news."""
    first = [delta("One"), done("One"), event(round_completed=event_pb2.RoundCompleted())]
    second = delta("Two", turn_id="turn_2", item_id="item_2")

    assert shown(*first, second)[-1] == Text("Two")


def test_calls_and_their_results_are_shown_with_what_is_waited_for() -> None:
    """Two calls at once: the waiting is for both, then for one, then for the model."""
    found = shown(
        call(arguments='{"city": "Kyoto"}'),
        call("get_time", call_id="call_2"),
        output("10:00", call_id="call_2", name="get_time"),
        output("18 °C"),
    )

    assert found == [
        Line('→ get_weather({"city": "Kyoto"})', "call"),
        Doing("waiting for get_weather"),
        Line("→ get_time({})", "call"),
        Doing("waiting for get_weather, get_time"),
        Line("← get_time: 10:00", "result"),
        Doing("waiting for get_weather"),
        Line("← get_weather: 18 °C", "result"),
        Doing("thinking"),
    ]


def test_a_call_that_failed_looks_different() -> None:
    """And says how it failed."""
    (_, _, line, _) = shown(call(), output("no such city", item_pb2.SETTLEMENT_FAILURE))

    assert line == Line("← get_weather: failed: no such city", "failure")


def test_long_arguments_and_results_are_shortened_and_say_how_long_they_are() -> None:
    """A screen is not filled by one call."""
    asked, answered = lines(call(arguments=f'"{"x" * 9_998}"'), output("y" * 5_000))

    assert len(asked) < 300 and asked.endswith("… (10,000 characters))")
    assert len(answered) < 300 and answered.endswith("… (5,000 characters)")


def test_nothing_drives_the_terminal() -> None:
    """Escape sequences of a model, of arguments and of results are shown as text; newlines and tabs pass."""
    evil = "\x1b[2J\x07\x9b2J\r"

    found = shown(delta(f"a\n\tb{evil}"), done(f"a\n\tb{evil}"), call(f"f{evil}", evil), output(evil, name=evil))

    texts = "".join(getattr(one, "text", "") for one in found)
    assert "a\n\tb\\x1b[2J" in texts
    assert not set(texts) & set("\x1b\x07\x9b\r")


def test_the_users_own_message_is_not_repeated_but_anothers_is_shown() -> None:
    """Who runs a turn knows what was said; who watches a session does not."""
    said = item_pb2.Message(role=item_pb2.MESSAGE_ROLE_USER, content=[item_pb2.ContentPart(text="Hi")])
    part = event(item_added=event_pb2.ItemAdded(item=item_pb2.Item(message=said)))

    assert lines(part) == []
    assert lines(part, own_input=False) == ["> Hi"]


def test_text_of_a_turn_that_failed_in_the_middle_is_said_not_to_be_kept() -> None:
    """It is in no history, and the model will not know of it."""
    assert lines(delta("Hel"), event(turn_failed=event_pb2.TurnFailed())) == [UNFINISHED]
    assert lines(delta("Hel"), done("Hel"), event(round_completed=event_pb2.RoundCompleted())) == []


def test_a_refusal_is_shown() -> None:
    """A model that says no has said something."""
    said = item_pb2.Message(role=ASSISTANT, content=[item_pb2.ContentPart(refusal="I will not.")])

    assert lines(done("", message=said)) == ["[refusal] I will not."]


def test_a_call_that_nobody_owes_an_answer_is_not_waited_for() -> None:
    """A reply over which the turn fails is in the log, rejected."""
    made = item_pb2.FunctionCall(call_id="call_1", name="nope", arguments_json="{}")
    item = item_pb2.Item(function_call=made, status=item_pb2.ITEM_STATUS_REJECTED)

    assert shown(event(item_added=event_pb2.ItemAdded(item=item))) == [Line("→ nope({}): not called", "failure")]


def test_a_lost_worker_is_told() -> None:
    """The wait gets longer, and the person knows why."""
    lost = event_pb2.AttemptLost(call_id="call_1", attempt=1, next=event_pb2.AFTER_LOSS_REDELIVERED)

    assert lines(call(), event(attempt_lost=lost))[1:] == [
        "the worker that had get_weather is lost; the call goes to the next one"
    ]


def test_a_handoff_names_who_goes_on() -> None:
    """One that was ignored, since another one of its round won, changes nothing and is not shown."""
    won = item_pb2.HandoffOutput(call_id="call_1", from_agent="Triage", to_agent="Billing")
    ignored = item_pb2.HandoffOutput(call_id="call_2", from_agent="Triage")
    outputs = [event(item_added=event_pb2.ItemAdded(item=item_pb2.Item(handoff_output=one))) for one in (ignored, won)]
    begins, goes_on = (event(agent_changed=event_pb2.AgentChanged(agent=name)) for name in ("Triage", "Billing"))

    assert shown(begins, *outputs, goes_on) == [Line("→ Billing", "call"), Doing("thinking")]


def test_what_a_nested_run_does_stands_further_to_the_right() -> None:
    """Its calls and its whole messages; its fragments and its input are left out, for several may go on at once."""
    begins = nested(event(agent_changed=event_pb2.AgentChanged(agent="Researcher")))
    asked = item_pb2.Message(role=item_pb2.MESSAGE_ROLE_USER, content=[item_pb2.ContentPart(text="Find out.")])
    given = nested(event(item_added=event_pb2.ItemAdded(item=item_pb2.Item(message=asked))))
    wrote = delta("Found")
    wrote.delta.run_path.append("call_1")

    found = lines(
        call("research"),
        begins,
        given,
        nested(call("search", call_id="call_2")),
        nested(output("two\nlines", call_id="call_2", name="search")),
        wrote,
        nested(done("Found:\nit.")),
        output("Found it.", item_pb2.SETTLEMENT_NESTED_RUN, name="research"),
    )

    assert found == [
        "→ research({})",
        "  → Researcher",
        "  → search({})",
        "  ← search: two ↵ lines",
        "  Found:\n  it.",
        "← research: Found it.",
    ]


def test_a_decision_is_shown_with_the_name_of_its_call() -> None:
    """Whoever made it, and where nobody did."""
    yes = event_pb2.Decision(call_id="call_1", verdict=event_pb2.VERDICT_APPROVE)
    no = event_pb2.Decision(call_id="call_1", verdict=event_pb2.VERDICT_REJECT)
    late = error_pb2.Error(reason=error_pb2.ERROR_REASON_APPROVAL_EXPIRED)

    told = [
        event(approval_decided=event_pb2.ApprovalDecided(decision=decision, error=error))
        for decision, error in ((yes, None), (no, None), (no, late))
    ]

    assert lines(call(), *told)[1:] == [
        "get_weather is allowed",
        "get_weather is not allowed",
        "get_weather is not allowed, since nobody decided in time",
    ]


def test_what_a_later_version_tells_is_passed_over() -> None:
    """An event without an arm that is known here breaks nothing."""
    assert shown(event(), event_pb2.StreamPart()) == []
