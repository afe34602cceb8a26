"""What the store keeps comes back as it was, and is stamped as protobuf would write it."""

from dataclasses import fields
from hashlib import sha256
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.wire import definitions, values

from baton.v1 import agent_pb2, event_pb2
from baton_server.core import inputs
from baton_server.core.agents import Agent
from baton_server.core.events import (
    Event,
    EventBody,
    GuardrailTripped,
    ItemAdded,
    ItemDone,
    ItemsWithdrawn,
    RoundCompleted,
    SessionIdle,
    Stage,
    TurnEnded,
    TurnSnapshot,
    TurnStatus,
    Verdict,
    Withdrawal,
)
from baton_server.core.inputs import Input, TextCutOff
from baton_server.core.items import (
    FunctionCall,
    Item,
    ItemBody,
    Settlement,
    Usage,
)
from baton_server.core.run_config import RunConfig
from baton_server.core.settings import ModelSettings
from baton_server.ports.codec import Codec
from baton_server.wire import events as wire_events
from baton_server.wire import inbox
from baton_server.wire.codec import ProtoCodec, stamp

CODEC: Codec = ProtoCodec()

few = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
any_size = settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("bodies", values.event_kinds)
@few
@given(data=st.data())
def test_an_event_at_rest_is_read_back_equal(bodies: st.SearchStrategy[EventBody], data: st.DataObject) -> None:
    """Whatever happened, the log says it again, large texts and items' JSON included."""
    read_back(data.draw(values.events_of(bodies)))


@pytest.mark.parametrize("bodies", values.body_kinds)
@few
@given(data=st.data())
def test_an_item_at_rest_is_read_back_equal(bodies: st.SearchStrategy[ItemBody], data: st.DataObject) -> None:
    """Every kind of item, with any content."""
    item = data.draw(values.items_of(bodies))
    read_back(Event(body=ItemDone(item=item, in_history=True), turn_id="turn_1"))


def read_back(event: Event) -> None:
    """Writes, stamps and reads an event."""
    data, contents = CODEC.event(event)
    texts = {event.body.item.item_id: event.body.item.json} if isinstance(event.body, ItemAdded | ItemDone) else {}

    stored = stamp(data, "sess_1", 7, 1_796_000_000.25)

    assert CODEC.read_event(data, texts, contents) == event
    assert CODEC.read_event(stored, texts, contents) == event
    assert set(CODEC.omitted(stored)) == contents.keys()


@any_size
@given(values.events_)
def test_what_is_omitted_is_what_is_too_large(event: Event) -> None:
    """Each text that left the event has more than 262,144 bytes and is kept under its own digest."""
    _, contents = CODEC.event(event)

    for digest, data in contents.items():
        assert len(data) > 262_144
        assert sha256(data).hexdigest() == digest


@pytest.mark.parametrize("text", values.LARGE)
def test_the_limit_counts_bytes_not_characters(text: str) -> None:
    """A text of exactly 262,144 bytes stays in place, whatever its characters take."""
    body = FunctionCall(call_id="call_1", name="f", arguments=text, model_call_id="fc_1")
    item = Item(item_id="item_1", turn_id="turn_1", body=body, json="{}")

    data, contents = CODEC.event(Event(body=ItemAdded(item=item, in_history=True), turn_id="turn_1"))

    assert bool(contents) == (len(text.encode()) > 262_144)
    assert (len(data) < 1000) == bool(contents)


def test_a_missing_content_is_named() -> None:
    """A log without a text that it refers to is told apart from one that says nothing."""
    turn = TurnSnapshot(
        turn_id="turn_1", session_id="sess_1", status=TurnStatus.COMPLETED, agent="A", last_agent="A",
        agent_digest="", run_config_digest="", request_id="r-1", output=values.LARGE[1],
    )  # fmt: skip
    data, contents = CODEC.event(Event(body=TurnEnded(turn=turn)))

    with pytest.raises(LookupError, match=next(iter(contents))):
        CODEC.read_event(data, {}, {})


def test_an_item_in_an_event_has_no_time_of_its_own() -> None:
    """The event's own time says it; the stored bytes do not say it twice."""
    item = Item(item_id="item_1", turn_id="turn_1", body=FunctionCall(
        call_id="call_1", name="f", arguments="{}", model_call_id="fc_1"), json="{}")  # fmt: skip

    data, _ = CODEC.event(Event(body=ItemAdded(item=item, in_history=True), turn_id="turn_1"))

    assert not event_pb2.Event.FromString(data).item_added.item.HasField("created_at")


def test_an_arm_of_a_later_release_is_refused() -> None:
    """A state rebuilt without an event would be a wrong one."""
    later = event_pb2.Event(session_id="sess_1", sequence=3).SerializeToString() + b"\xba\x06\x00"  # arm 103

    with pytest.raises(ValueError, match="later release"):
        CODEC.read_event(later, {}, {})


def test_every_kind_of_event_and_input_has_its_way_to_the_wire() -> None:
    """A kind that is added to the core and forgotten here is seen."""
    assert wire_events.WRITERS.keys() == set(get_args(EventBody))
    assert set(get_args(Input)) <= set(inbox.KINDS.values())


@any_size
@given(values.turns())
def test_a_turn_is_read_back_equal(turn: TurnSnapshot) -> None:
    """How a turn stands survives; an output that was omitted reads as empty."""
    read = CODEC.read_turn(CODEC.turn(turn))

    omitted = turn.output is not None and len(turn.output.encode()) > 262_144
    assert read.output == ("" if omitted else turn.output)
    assert (read.status, read.usage, read.failure) == (turn.status, turn.usage, turn.failure)


@few
@given(definitions.graphs, definitions.configs)
def test_what_a_turn_pins_is_read_back_equal(agent: Agent, config: RunConfig) -> None:
    """A turn runs with what it was accepted with, whatever was said or left open."""
    agent_digest, agent_data = CODEC.agent(agent)
    config_digest, config_data = CODEC.config(config)

    assert CODEC.read_agent(agent_data) == agent
    assert CODEC.read_config(config_data) == config
    assert agent_digest == sha256(agent_data).hexdigest()
    assert config_digest == sha256(config_data).hexdigest()


def test_equal_values_have_equal_digests() -> None:
    """The order in which labels were given is no difference."""
    one = RunConfig(scopes=("a",), model_settings=ModelSettings(metadata={"a": "1", "b": "2"}))
    two = RunConfig(scopes=("a",), model_settings=ModelSettings(metadata={"b": "2", "a": "1"}))

    assert CODEC.config(one) == CODEC.config(two)


@pytest.mark.parametrize("inputs_", values.input_kinds)
@few
@given(data=st.data())
def test_an_input_is_read_back_equal(inputs_: st.SearchStrategy[Input], data: st.DataObject) -> None:
    """What waits in an inbox is fed as it came."""
    given_input = data.draw(inputs_)

    assert CODEC.read_input(CODEC.input(given_input)) == given_input


def test_an_input_with_a_broken_character_waits_too() -> None:
    """A lone surrogate, which a model's JSON can say, does not break the inbox."""
    given_input = TextCutOff(text="half \ud83d")

    assert CODEC.read_input(CODEC.input(given_input)) == given_input


def test_an_input_of_a_later_release_is_refused() -> None:
    """It is named, and not dropped."""
    with pytest.raises(ValueError, match="'approved'"):
        CODEC.read_input(b'{"kind":"approved"}')


def test_a_field_added_later_reads_as_its_default() -> None:
    """Rows of an older release stay readable."""
    read = CODEC.read_input(b'{"kind":"call_settled","call_id":"call_1","settlement":"OUTPUT","output":[]}')

    assert read == inputs.CallSettled(call_id="call_1", settlement=Settlement.OUTPUT, output=())


def test_a_log_of_the_first_release_reads_as_it_was_meant() -> None:
    """What it did not say yet is at its default: one attempt, an input guardrail that tripped, items removed."""
    old = (
        event_pb2.Event(round_completed=event_pb2.RoundCompleted(model="gpt")),
        event_pb2.Event(guardrail_tripped=event_pb2.GuardrailTripped(name="no_pii")),
        event_pb2.Event(items_withdrawn=event_pb2.ItemsWithdrawn()),
    )

    read = [CODEC.read_event(event.SerializeToString(), {}, {}) for event in old]

    assert [event.body for event in read] == [
        RoundCompleted(model="gpt", response_id="", usage=Usage(), model_attempts=1),
        GuardrailTripped(name="no_pii", stage=Stage.INPUT, verdict=Verdict.TRIPPED),
        ItemsWithdrawn(item_ids=(), reason=Withdrawal.REMOVED),
    ]
    assert {event.run_path for event in read} == {()}


def test_an_omitted_output_is_kept_whole_whatever_it_is() -> None:
    """Of one too large for its event nothing says whether it is JSON; its text is there all the same."""
    turn = TurnSnapshot(
        turn_id="turn_1", session_id="sess_1", status=TurnStatus.COMPLETED, agent="A", last_agent="A",
        agent_digest="", run_config_digest="", request_id="r-1", output=f'"{values.LARGE[1]}"', structured=True,
    )  # fmt: skip
    data, contents = CODEC.event(Event(body=TurnEnded(turn=turn)))

    read = CODEC.read_event(data, {}, contents).body

    assert isinstance(read, TurnEnded)
    assert (read.turn.output, read.turn.structured) == (turn.output, False)


@pytest.mark.parametrize("kind", inbox.KINDS.values())
def test_no_field_of_an_input_hides_its_kind(kind: type) -> None:
    """A field of that name would be read as another input."""
    assert "kind" not in {field.name for field in fields(kind)}


def test_a_definition_of_a_later_release_is_refused() -> None:
    """A turn without one of its guardrails would be another turn."""
    later = agent_pb2.Agent(name="A", input_guardrails=[{"name": "by a model"}]).SerializeToString()

    with pytest.raises(ValueError, match="by a model"):
        CODEC.read_agent(later)


@given(
    st.text(max_size=200),
    st.integers(1, 2**63 - 1),
    st.floats(0, 4e9, allow_subnormal=False),
)
def test_a_stamp_is_what_protobuf_would_write(session_id: str, sequence: int, at: float) -> None:
    """The stored bytes are one well-formed event to every reader."""
    data, _ = CODEC.event(Event(body=SessionIdle(), turn_id="turn_1", round=3))

    event = event_pb2.Event.FromString(stamp(data, session_id, sequence, at))

    assert (event.session_id, event.sequence) == (session_id, sequence)
    assert event.created_at.seconds + event.created_at.nanos / 1e9 == pytest.approx(at, abs=1e-6)
    assert 0 <= event.created_at.nanos < 1_000_000_000
    assert (event.turn_id, event.round, event.WhichOneof("event")) == ("turn_1", 3, "session_idle")
