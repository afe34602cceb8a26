"""Items of the Responses API: fields are read and written, what is no item is refused by its path."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton_server.core.inputs import NewItem
from baton_server.core.items import (
    FilePart,
    FunctionCall,
    FunctionCallOutput,
    Hosted,
    ImagePart,
    ItemStatus,
    Message,
    OtherPart,
    Reasoning,
    RefusalPart,
    Role,
    TextPart,
)
from baton_server.core.responses import (
    ItemError,
    dump,
    output_json,
    read_item,
    unicode,
    user_message,
    user_parts,
)


def test_a_message_of_the_model_is_read_with_its_parts() -> None:
    """Text with citations, refusal, and a part of another type, carried whole."""
    note = {"type": "url_citation", "url": "https://example.org", "start_index": 0}
    raw = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "Rain.", "annotations": [note]},
            {"type": "output_text", "text": "Sun.", "annotations": []},
            {"type": "refusal", "refusal": "No."},
            {"type": "output_audio", "data": "AAAA"},
        ],
    }

    item = read_item(raw)

    assert (item.model_item_id, item.status) == ("msg_1", ItemStatus.COMPLETED)
    assert item.body == Message(
        role=Role.ASSISTANT,
        content=(
            TextPart(text="Rain.", annotations_json=dump([note])),
            TextPart(text="Sun."),
            RefusalPart(refusal="No."),
            OtherPart(json='{"type":"output_audio","data":"AAAA"}'),
        ),
    )


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
def test_a_role_and_a_text_are_a_message(role: str) -> None:
    """The short way to write one, without a type."""
    item = read_item({"role": role, "content": "Hi"})

    assert item.body == Message(role=Role(role), content=(TextPart(text="Hi"),))


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        (
            {"type": "input_image", "image_url": "https://example.org/a.png", "file_id": None, "detail": "low"},
            ImagePart(url="https://example.org/a.png", detail="low"),
        ),
        ({"type": "input_image", "file_id": "file_1"}, ImagePart(file_id="file_1")),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
            FilePart(url="data:application/pdf;base64,AA", filename="a.pdf"),
        ),
        (
            {"type": "input_file", "file_url": "https://example.org/a"},
            FilePart(url="https://example.org/a"),
        ),
        ({"type": "input_file", "file_id": "file_1"}, FilePart(file_id="file_1")),
    ],
)
def test_pictures_and_files_are_read_from_wherever_they_are(raw: dict[str, Any], part: object) -> None:
    """By address, by value, by the provider's id."""
    body = read_item({"role": "user", "content": [raw]}).body

    assert isinstance(body, Message)
    assert body.content == (part,)


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "input_image"},
        {"type": "input_image", "image_url": None, "file_id": None},
        {"type": "input_image", "image_url": "https://example.org/a.png", "file_id": "file_1"},
        {"type": "input_file", "file_data": "AAAA"},
        {"type": "input_file", "file_url": "https://example.org/a", "file_id": "file_1"},
        {"type": "input_hologram", "beam": 1.0},
    ],
)
def test_parts_that_our_fields_cannot_say_are_carried_whole(raw: dict[str, Any]) -> None:
    """Whether they make sense is for the provider to say."""
    body = read_item({"role": "user", "content": [raw]}).body

    assert isinstance(body, Message)
    assert body.content == (OtherPart(json=dump(raw)),)


def test_a_thought_is_read_with_what_it_shows() -> None:
    """Summaries, plain thoughts, sealed ones; null and absent are none."""
    raw = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "content": [{"type": "reasoning_text", "text": "So."}],
        "encrypted_content": "gAAA",
    }

    assert read_item(raw).body == Reasoning(summary=("Hm.",), content=("So.",), encrypted_content="gAAA")
    assert read_item({"type": "reasoning", "summary": None}).body == Reasoning()


def test_a_calls_arguments_are_read_as_they_are() -> None:
    """They are a text, maybe no JSON."""
    arguments = '{ "n": 1.0, "big": 9007199254740993'

    body = read_item({"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}).body

    assert body == FunctionCall(call_id="", name="f", arguments=arguments, model_call_id="c")


@pytest.mark.parametrize(
    ("output", "parts"),
    [
        ("rain", (TextPart(text="rain"),)),
        ("", (TextPart(text=""),)),
        ([{"type": "input_text", "text": "rain"}], (TextPart(text="rain"),)),
        ([], ()),
    ],
)
def test_outputs_of_a_caller_are_texts_or_parts(output: object, parts: tuple[object, ...]) -> None:
    """They belong to a call of the caller's, and nothing of ours settled it."""
    body = read_item({"type": "function_call_output", "call_id": "c", "output": output}).body

    assert body == FunctionCallOutput(call_id="c", name="", output=parts)


@pytest.mark.parametrize("kind", ["web_search_call", "item_reference", "mcp_approval_request", "future_call"])
def test_items_of_other_types_are_carried_whole(kind: str) -> None:
    """Baton need not know them."""
    raw = {"type": kind, "id": "x_1", "content": 5, "role": "nobody", "output": {"deep": [1]}}

    item = read_item(raw)

    assert (item.body, item.model_item_id, json.loads(item.json)) == (Hosted(type=kind), "x_1", raw)


def test_an_item_that_was_cut_off_says_so() -> None:
    """Every other status is that of a whole item."""
    for status, expected in {
        "incomplete": ItemStatus.INCOMPLETE,
        "completed": ItemStatus.COMPLETED,
        "failed": ItemStatus.COMPLETED,
        None: ItemStatus.COMPLETED,
    }.items():
        assert read_item({"type": "x", "status": status}).status is expected


def test_lone_surrogates_stay_in_the_text_and_not_in_the_fields() -> None:
    """The model gets back what it wrote; the log is UTF-8."""
    item = read_item(json.loads('{"role":"user","content":"a\\ud800b ø"}'))

    assert json.loads(item.json)["content"] == "a\ud800b ø"
    assert item.json.isascii()
    assert isinstance(item.body, Message)
    assert item.body.content == (TextPart(text="a?b ø"),)
    assert unicode("a\ud800b") == "a?b"
    assert unicode("ø") == "ø"


MESSAGE = {"type": "message", "role": "user"}
CALL = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c"}


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ([], ""),
        ("Hi", ""),
        (None, ""),
        ({}, "type"),
        ({"type": ""}, "type"),
        ({"type": None}, "type"),
        ({"type": 5}, "type"),
        ({"type": "x", "id": 5}, "id"),
        ({"type": "x", "status": {}}, "status"),
        ({"type": "message"}, "role"),
        ({"role": "robot", "content": "Hi"}, "role"),
        ({"role": ["user"], "content": "Hi"}, "role"),
        (MESSAGE, "content"),
        ({**MESSAGE, "content": {"text": "Hi"}}, "content"),
        ({**MESSAGE, "content": [{"type": "input_text", "text": "Hi"}, "Hi"]}, "content[1]"),
        ({**MESSAGE, "content": [{"text": "Hi"}]}, "content[0].type"),
        ({**MESSAGE, "content": [{"type": "input_text", "text": 5}]}, "content[0].text"),
        ({**MESSAGE, "content": [{"type": "output_text", "annotations": {}}]}, "content[0].annotations"),
        ({**MESSAGE, "content": [{"type": "refusal", "refusal": 5}]}, "content[0].refusal"),
        ({**MESSAGE, "content": [{"type": "input_image", "image_url": {}}]}, "content[0].image_url"),
        ({**MESSAGE, "content": [{"type": "input_image", "file_id": 5}]}, "content[0].file_id"),
        ({**MESSAGE, "content": [{"type": "input_image", "file_id": "f", "detail": 5}]}, "content[0].detail"),
        ({**MESSAGE, "content": [{"type": "input_file", "file_data": 5}]}, "content[0].file_data"),
        ({"type": "reasoning", "summary": "Hm."}, "summary"),
        ({"type": "reasoning", "summary": ["Hm."]}, "summary[0]"),
        ({"type": "reasoning", "content": [{"text": "a"}, {"text": 5}]}, "content[1].text"),
        ({"type": "reasoning", "encrypted_content": 5}, "encrypted_content"),
        ({**CALL, "name": ""}, "name"),
        ({**CALL, "name": None}, "name"),
        ({**CALL, "call_id": ""}, "call_id"),
        ({**CALL, "arguments": {}}, "arguments"),
        (OUTPUT, "output"),
        ({**OUTPUT, "output": 5}, "output"),
        ({**OUTPUT, "output": "x", "call_id": None}, "call_id"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(raw: object, path: str) -> None:
    """Alone, and inside a list, where the path begins with the place in it."""
    with pytest.raises(ItemError) as alone:
        read_item(raw)
    with pytest.raises(ItemError) as listed:
        read_item(raw, "[2]")

    assert alone.value.path == path
    assert listed.value.path == (f"[2].{path}" if path else "[2]")
    assert str(listed.value) == f"{listed.value.path}: {listed.value.problem}"
    assert str(alone.value).startswith(path or "an item must be")


# -- what is written here -----------------------------------------------------------------------------------


def test_a_users_text_is_written_as_the_agents_sdk_writes_it() -> None:
    """Content, then role; no type."""
    assert user_message('Say "Hi" 🌦') == NewItem(
        body=Message(role=Role.USER, content=(TextPart(text='Say "Hi" 🌦'),)),
        json='{"content":"Say \\"Hi\\" 🌦","role":"user"}',
    )


def test_a_users_parts_are_written_as_input_parts() -> None:
    """Each in its way; a data URL is a file's data; a part of another type goes as it came."""
    other = '{ "type":"input_audio", "n": 1e400 }'
    item = user_parts(
        (
            TextPart(text="See:"),
            ImagePart(url="https://example.org/a.png", detail="high"),
            ImagePart(file_id="file_1"),
            FilePart(url="https://example.org/a.pdf", filename="a.pdf"),
            FilePart(url="data:text/plain;base64,AA", filename="a.txt"),
            FilePart(file_id="file_2"),
            RefusalPart(refusal="No."),
            OtherPart(json=other),
        )
    )

    assert item.json.endswith(f',{other}],"role":"user"}}')
    assert json.loads(item.json)["content"][:-1] == [
        {"type": "input_text", "text": "See:"},
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "high"},
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_file", "filename": "a.pdf", "file_url": "https://example.org/a.pdf"},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,AA"},
        {"type": "input_file", "file_id": "file_2"},
        {"type": "refusal", "refusal": "No."},
    ]


@given(st.text(), st.lists(st.text(), max_size=3))
def test_parts_of_a_user_are_read_back_as_they_were(text: str, more: list[str]) -> None:
    """What is written can be sent in again as a raw item."""
    parts = tuple(TextPart(text=unicode(part)) for part in (text, *more))

    assert read_item(json.loads(user_parts(parts).json)).body == user_parts(parts).body


@pytest.mark.parametrize(
    ("output", "written"),
    [
        ((TextPart(text="rain"),), '"rain"'),
        ((TextPart(text=""),), '""'),
        ((TextPart(text='{"n":1.0}'),), '"{\\"n\\":1.0}"'),
        (
            (TextPart(text="a"), TextPart(text="b")),
            '[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]',
        ),
        ((ImagePart(file_id="f"),), '[{"type":"input_image","file_id":"f"}]'),
        ((OtherPart(json='{"n":1e400}'),), '[{"n":1e400}]'),
        ((), "[]"),
    ],
)
def test_an_output_is_a_text_or_a_list_of_parts(output: tuple[Any, ...], written: str) -> None:
    """One text goes as a text, JSON among it; anything else as parts, in order."""
    expected = f'{{"call_id":"c_1","output":{written},"type":"function_call_output"}}'

    assert output_json("c_1", output) == expected
