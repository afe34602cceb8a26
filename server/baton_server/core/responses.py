"""Items as the Responses API writes them: JSON text to fields and back. Pure; the one place that knows names.

Every item keeps the text it came as; `read_item` only reads fields out of it for the log and for people. An
item of a type that is not known here is carried whole, as `Hosted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baton_server.core import jsontext
from baton_server.core.inputs import NewItem
from baton_server.core.items import (
    ContentPart,
    FilePart,
    FunctionCall,
    FunctionCallOutput,
    Hosted,
    ImagePart,
    ItemBody,
    ItemStatus,
    Message,
    OtherPart,
    Reasoning,
    RefusalPart,
    Role,
    TextPart,
)

_STATUSES = {"incomplete": ItemStatus.INCOMPLETE}


class ItemError(ValueError):
    """A value is no Responses API item. `path` says where, for example `[2].content`; empty: all of it."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path.removeprefix("."), problem
        super().__init__(f"{self.path}: {problem}" if self.path else problem)


def dump(value: Any, path: str = "") -> str:
    """Write JSON compactly, key order kept; text that is no valid Unicode stays escaped.

    Raises ItemError where JSON cannot say it (Infinity, which 1e400 is to Python) or must not (too deep).
    """
    try:
        return jsontext.dump(value)
    except jsontext.JsonError as error:
        raise ItemError(path, f"is {error}") from None


def read_item(raw: Any, path: str = "", text: str = "", *, of_model: bool = False) -> NewItem:
    """Read one item of the Responses API. Raises `ItemError` where a field that is read has a wrong type.

    `text`: the very text that it came as, kept as it is. Empty: unknown, it is written anew. `of_model`: a call may
    lack its id, which is for the turn to judge.
    """
    if not isinstance(raw, dict):
        raise ItemError(path, "an item must be a JSON object")
    return NewItem(
        body=_body(raw, path, of_model=of_model),
        json=text or dump(raw, path),
        model_item_id=_text(raw, "id", path),
        status=_STATUSES.get(_text(raw, "status", path), ItemStatus.COMPLETED),
    )


def read_items(text: str, path: str = "") -> tuple[NewItem, ...]:
    """Read a JSON array of items, each kept as the very text that it came as. Raises `ItemError`."""
    try:
        elements = list(jsontext.elements(text))
    except jsontext.JsonError as error:
        raise ItemError(path, f"is {error}") from None
    return tuple(read_item(raw, f"{path}[{n}]", own) for n, (raw, own) in enumerate(elements))


def user_message(text: str) -> NewItem:
    """Make a user's message of plain text, as the Agents SDK writes it: content, then role."""
    body = Message(role=Role.USER, content=(TextPart(text=text),))
    return NewItem(body=body, json=dump({"content": text, "role": "user"}))


def user_parts(parts: tuple[ContentPart, ...]) -> NewItem:
    """Make a user's message of content parts."""
    body = Message(role=Role.USER, content=parts)
    return NewItem(body=body, json=f'{{"content":{_write_parts(parts)},"role":"user"}}')


def assistant_message(text: str) -> NewItem:
    """Make a message of an agent's that no model made."""
    body = Message(role=Role.ASSISTANT, content=(TextPart(text=text),))
    part = {"type": "output_text", "text": text, "annotations": []}
    return NewItem(
        body=body, json=dump({"type": "message", "role": "assistant", "status": "completed", "content": [part]})
    )


def output_json(model_call_id: str, output: tuple[ContentPart, ...]) -> str:
    """Write what came of a call: one text as a string, anything else as a list of parts."""
    return f'{{"call_id":{dump(model_call_id)},"output":{output_value(output)},"type":"function_call_output"}}'


def _body(raw: Mapping[str, Any], path: str, *, of_model: bool) -> ItemBody:
    kind = _text(raw, "type", path)
    if kind == "message" or (not kind and "role" in raw):
        return _message(raw, path)
    if kind == "reasoning":
        return Reasoning(
            summary=_texts(raw.get("summary"), f"{path}.summary"),
            content=_texts(raw.get("content"), f"{path}.content"),
            encrypted_content=_text(raw, "encrypted_content", path),
        )
    if kind == "function_call":
        return FunctionCall(
            call_id="",
            name=_required(raw, "name", path),
            arguments=_text(raw, "arguments", path),
            model_call_id=(_text if of_model else _required)(raw, "call_id", path),
        )
    if kind == "function_call_output":
        output = read_parts(raw.get("output"), f"{path}.output")
        return FunctionCallOutput(call_id=_required(raw, "call_id", path), name="", output=output)
    if not kind:
        raise ItemError(f"{path}.type", "an item needs a type, or a role")
    return Hosted(type=kind)


def _message(raw: Mapping[str, Any], path: str) -> Message:
    role = _required(raw, "role", path)
    if role not in Role.__members__.values():
        raise ItemError(f"{path}.role", f"{role!r} is none of {', '.join(Role)}")
    return Message(role=Role(role), content=read_parts(raw.get("content"), f"{path}.content"))


def read_parts(value: Any, path: str) -> tuple[ContentPart, ...]:
    """Read a text, or a list of parts. Raises `ItemError`."""
    if isinstance(value, str):
        return (TextPart(text=unicode(value)),)
    if not isinstance(value, list):
        raise ItemError(path, "must be a text or a list of parts")
    return tuple(_part(part, f"{path}[{index}]") for index, part in enumerate(value))


def _part(raw: Any, path: str) -> ContentPart:
    if not isinstance(raw, dict):
        raise ItemError(path, "a part must be a JSON object")
    kind = _required(raw, "type", path)
    if kind in ("input_text", "output_text", "text"):
        return TextPart(text=_text(raw, "text", path), annotations_json=_annotations(raw, path))
    if kind == "refusal":
        return RefusalPart(refusal=_text(raw, "refusal", path))
    if kind == "input_image":
        url, file_id = _text(raw, "image_url", path), _text(raw, "file_id", path)
        if bool(url) != bool(file_id):
            return ImagePart(url=url, file_id=file_id, detail=_text(raw, "detail", path))
    if kind == "input_file":
        data, url, file_id = (_text(raw, key, path) for key in ("file_data", "file_url", "file_id"))
        if len([source for source in (data, url, file_id) if source]) == 1 and data[:5] in ("", "data:"):
            return FilePart(url=data or url, file_id=file_id, filename=_text(raw, "filename", path))
    return OtherPart(json=dump(raw, path))


def _annotations(raw: Mapping[str, Any], path: str) -> str:
    notes = raw.get("annotations")
    if notes is not None and not isinstance(notes, list):
        raise ItemError(f"{path}.annotations", "must be a list")
    return dump(notes, f"{path}.annotations") if notes else ""


def output_value(output: tuple[ContentPart, ...]) -> str:
    """Write what came of a call as its JSON: one text as a string, anything else as a list of parts."""
    match output:
        case (TextPart(text=text),):
            return dump(text)
        case _:
            return _write_parts(output)


def _write_parts(parts: tuple[ContentPart, ...]) -> str:
    return f"[{','.join(_write_part(part) for part in parts)}]"


def _write_part(part: ContentPart) -> str:
    match part:
        case TextPart(text=text):
            return dump({"type": "input_text", "text": text})
        case RefusalPart(refusal=refusal):
            return dump({"type": "refusal", "refusal": refusal})
        case ImagePart(url=url, file_id=file_id, detail=detail):
            return dump(_said(type="input_image", image_url=url, file_id=file_id, detail=detail))
        case FilePart(url=url, file_id=file_id, filename=filename):
            where = {"file_data" if url.startswith("data:") else "file_url": url}
            return dump(_said(type="input_file", file_id=file_id, filename=filename, **where))
        case OtherPart(json=text):
            return text


def _said(**fields: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}


def _text(raw: Mapping[str, Any], key: str, path: str) -> str:
    value = raw.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ItemError(f"{path}.{key}", "must be a text")
    return unicode(value)


def _required(raw: Mapping[str, Any], key: str, path: str) -> str:
    value = _text(raw, key, path)
    if not value:
        raise ItemError(f"{path}.{key}", "is required")
    return value


def _texts(value: Any, path: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ItemError(path, "must be a list of parts")
    parts = []
    for index, part in enumerate(value):
        if not isinstance(part, dict):
            raise ItemError(f"{path}[{index}]", "a part must be a JSON object")
        parts.append(_text(part, "text", f"{path}[{index}]"))
    return tuple(parts)


def unicode(text: str) -> str:
    """Replace lone surrogates, which JSON can say and UTF-8 cannot, in a text meant for people."""
    return text if text.isascii() or jsontext.is_unicode(text) else text.encode("utf-8", "replace").decode()
