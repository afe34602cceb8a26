"""Texts, times and tables as they are printed, without a server."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from baton.v1 import error_pb2, event_pb2, item_pb2
from baton_server.cli.show.items import item_words, output_words
from baton_server.cli.show.tables import Column, table_lines
from baton_server.cli.show.texts import counted, one_line, safe, safe_json, shortened
from baton_server.cli.show.times import ago, ahead, clock, day
from baton_server.cli.show.words import parts_text, word

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def stamp(*, before: timedelta) -> Timestamp:
    """Make the time so long before noon."""
    made = Timestamp()
    made.FromDatetime(NOON - before)
    return made


# -- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb\x08\x7f", r"a\x0db\x08\x7f"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("\udcff", r"\udcff"),
        ("line\r\nline\ttab é 漢 👩‍👩‍👧", "line\nline\ttab é 漢 👩‍👩‍👧"),
    ],
)
def test_what_would_drive_a_terminal_is_escaped(text: str, shown: str) -> None:
    """Letters, line ends, tabs and joined pictures pass."""
    assert safe(text) == shown


def test_json_says_the_same_and_drives_nothing() -> None:
    """JSON lets C1 and bidirectional marks pass; as escapes they mean the same."""
    value = {"a": "\x9b2J\u202e\x7f é"}

    line = safe_json(json.dumps(value, ensure_ascii=False))

    assert json.loads(line) == value
    assert not {"\x9b", "\u202e", "\x7f"} & set(line)


def test_a_text_is_shortened_with_its_length() -> None:
    """What fits is left as it is; the length is that of the whole."""
    assert shortened("abc", 3) == "abc"
    assert shortened("a" * 2000, 3) == "aaa… (2,000 characters)"
    assert one_line("a\n\n  b\tc\r\nd") == "a ↵ b c ↵ d"
    assert one_line("a" * 5_000_000, 3) == "aaa… (5,000,000 characters)"
    assert one_line(" " * 900 + "b", 3).endswith("(901 characters)")


def test_things_are_counted_in_words() -> None:
    """One is one."""
    assert [counted(number, "round") for number in (0, 1, 2345)] == ["0 rounds", "1 round", "2,345 rounds"]


# -- messages of the contract --------------------------------------------------------------------


def test_an_enum_of_a_later_version_is_shown_as_its_number() -> None:
    """A name needs one that is known."""
    assert word(event_pb2.TurnStatus, event_pb2.TURN_STATUS_WAITING) == "WAITING"
    assert word(event_pb2.TurnStatus, 77) == "77"


def test_parts_that_are_no_text_are_named() -> None:
    """A picture by value would fill the screen."""
    parts = [
        item_pb2.ContentPart(text="See:"),
        item_pb2.ContentPart(image=item_pb2.ImagePart(url="data:image/png;base64," + "A" * 5000)),
        item_pb2.ContentPart(image=item_pb2.ImagePart(url="https://example.org/a.png")),
        item_pb2.ContentPart(file=item_pb2.FilePart(file_id="file_1", filename="a.pdf")),
        item_pb2.ContentPart(omitted_text=item_pb2.Omitted(omitted_bytes=300_000)),
        item_pb2.ContentPart(refusal="No."),
        item_pb2.ContentPart(),
    ]

    assert parts_text(parts).splitlines() == [
        "See:",
        "[image data:image/png;base64, 5,022 characters]",
        "[image https://example.org/a.png]",
        "[file a.pdf]",
        "[300,000 bytes]",
        "[refusal] No.",
        "[a part that this version does not know]",
    ]


def test_every_way_to_settle_a_call_has_words() -> None:
    """And an error that came with it is told."""
    text = [item_pb2.ContentPart(text="An error occurred.")]
    for value in item_pb2.Settlement.values()[1:]:
        output = item_pb2.FunctionCallOutput(name="f", output=text, settlement=value)
        assert not any(letter.isupper() for letter in output_words(output).partition("An")[0])
    crash = error_pb2.Error(reason=error_pb2.ERROR_REASON_HANDLER_CRASHED, message="KeyError: 'x'")
    output = item_pb2.FunctionCallOutput(name="f", output=text, settlement=item_pb2.SETTLEMENT_CRASH, error=crash)

    assert output_words(output) == "f: crashed: An error occurred. [HANDLER_CRASHED: KeyError: 'x']"


def test_items_of_all_kinds_have_words() -> None:
    """Thoughts, hosted tools, handoffs, what was cut off or rejected."""
    cut = item_pb2.Message(role=item_pb2.MESSAGE_ROLE_ASSISTANT, content=[item_pb2.ContentPart(text="Hal")])
    rejected = item_pb2.FunctionCall(name="f", arguments_json="{}")
    hosted = item_pb2.HostedItem(type="web_search_call", item_json='{"a":1}')

    assert item_words(item_pb2.Item(message=cut, status=item_pb2.ITEM_STATUS_INCOMPLETE)) == "assistant: Hal (cut off)"
    assert item_words(item_pb2.Item(reasoning=item_pb2.Reasoning(summary=["Hm."]))) == "thought: Hm."
    assert "rejected" in item_words(item_pb2.Item(function_call=rejected, status=item_pb2.ITEM_STATUS_REJECTED))
    assert item_words(item_pb2.Item(hosted=hosted)) == 'web_search_call: {"a":1}'
    handoff = item_pb2.HandoffCall(tool_name="transfer_to_billing", to_agent="Billing", arguments_json="{}")
    assert item_words(item_pb2.Item(handoff_call=handoff)) == "→ transfer_to_billing({})"
    won = item_pb2.HandoffOutput(from_agent="Triage", to_agent="Billing")
    assert item_words(item_pb2.Item(handoff_output=won)) == "← Triage → Billing"
    ignored = item_pb2.HandoffOutput(from_agent="Triage")
    assert "ignored" in item_words(item_pb2.Item(handoff_output=ignored))
    assert "does not know" in item_words(item_pb2.Item())


# -- times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "past", "future"),
    [
        (timedelta(seconds=0.4), "now", "now"),
        (timedelta(seconds=59), "59 s ago", "in 59 s"),
        (timedelta(seconds=150), "2 min ago", "in 2 min"),
        (timedelta(hours=5, minutes=59), "5 h ago", "in 5 h"),
        (timedelta(days=29), "29 d ago", "in 29 d"),
        (timedelta(days=31), "2026-10-30", "on 2026-12-31"),
    ],
)
def test_a_time_is_told_by_its_distance(before: timedelta, past: str, future: str) -> None:
    """In the largest unit that fits; far away, by its day."""
    assert ago(stamp(before=before), NOON) == past
    assert ahead(stamp(before=-before), NOON) == future


def test_a_clock_that_is_ahead_tells_no_negative_time() -> None:
    """The server's clock and this machine's may differ."""
    assert ago(stamp(before=timedelta(seconds=-30)), NOON) == "now"
    assert ahead(stamp(before=timedelta(seconds=30)), NOON) == "now"


def test_times_of_day_are_local() -> None:
    """As the clock on the wall shows them."""
    local = NOON.astimezone()

    assert clock(stamp(before=timedelta())) == f"{local:%H:%M:%S}"
    assert day(stamp(before=timedelta())) == f"{local:%Y-%m-%d}"


# -- tables --------------------------------------------------------------------------------------

COLUMNS = (Column(title="ID"), Column(title="NAME", whole=False), Column(title="N", right=True))


def test_a_table_is_as_wide_as_what_it_holds() -> None:
    """Numbers stand right; wide letters take their two cells."""
    assert table_lines(COLUMNS, [["id_1", "漢字", "7"], ["id_22", "a", "1234"]], None) == [
        "ID     NAME     N",
        "id_1   漢字     7",
        "id_22  a     1234",
    ]


def test_a_narrow_table_cuts_what_may_be_cut() -> None:
    """Ids stay whole, also where the table is then too wide."""
    rows = [["id_1234567890", "a long name of something", "7"]]

    assert table_lines(COLUMNS, rows, 30)[1] == "id_1234567890  a long name…  7"
    assert table_lines(COLUMNS, rows, 10)[1] == "id_1234567890  a l…  7"


def test_a_cell_has_one_line_and_drives_nothing() -> None:
    """Names are chosen by people."""
    assert table_lines(COLUMNS, [["id", "a\nb\x1b", "1"]], None)[1].split() == ["id", "a", "↵", r"b\x1b", "1"]
