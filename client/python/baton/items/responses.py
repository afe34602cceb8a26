"""Items of the contract as Responses API dictionaries, under the model's own ids. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from baton.v1 import item_pb2

_ROLES = {
    item_pb2.MESSAGE_ROLE_USER: "user",
    item_pb2.MESSAGE_ROLE_ASSISTANT: "assistant",
    item_pb2.MESSAGE_ROLE_DEVELOPER: "developer",
    item_pb2.MESSAGE_ROLE_SYSTEM: "system",
}


TResponseInputItem = dict[str, Any]
"""An item as the Responses API writes it."""


class RawItem(dict[str, Any]):
    """An item as its JSON object, readable as `raw["call_id"]`, `raw.get("call_id")` and `raw.call_id`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this {self.get('type', 'item')} has no {name!r}") from None

    def model_dump(
        self, *, mode: str = "python", exclude_unset: bool = False, exclude_none: bool = False
    ) -> dict[str, Any]:
        """Copy it to plain dictionaries, as objects of the openai package do; in each `mode` it is what JSON can say.

        `exclude_unset` changes nothing: what was not set is not here.
        """
        made: dict[str, Any] = json.loads(json.dumps(self), object_hook=_without_none if exclude_none else None)
        return made

    def model_dump_json(self, *, indent: int | None = None) -> str:
        """Write it as JSON."""
        return json.dumps(self, indent=indent, ensure_ascii=False)


def _without_none(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def raw_item(item: item_pb2.Item, model_call_ids: Mapping[str, str] | None = None) -> RawItem:
    """Write an item as the Responses API does.

    `model_call_ids` gives the model's id of a call by Baton's, for outputs; an id that it does not have stays,
    since it came from the caller. Texts that were omitted must have been completed before.
    """
    kind = item.WhichOneof("item")
    match kind:
        case "message":
            return _message(item)
        case "reasoning":
            return _reasoning(item)
        case "function_call":
            call = item.function_call
            return _identified(_call(call.model_call_id, call.name, call.arguments_json), item)
        case "handoff_call":
            handoff = item.handoff_call
            return _identified(_call(handoff.model_call_id, handoff.tool_name, handoff.arguments_json), item)
        case "function_call_output":
            output = item.function_call_output
            return _result(output.call_id, raw_parts(output.output), model_call_ids)
        case "handoff_output":
            return _result(item.handoff_output.call_id, item.handoff_output.output, model_call_ids)
        case "hosted":
            hosted = json.loads(item.hosted.item_json or "{}", object_hook=RawItem)
            return hosted if isinstance(hosted, RawItem) else RawItem(type=item.hosted.type)
        case _:  # an arm of a later version: opaque
            return RawItem(type="unknown", id=item.item_id)


def call_of(item: item_pb2.Item) -> item_pb2.FunctionCall | item_pb2.HandoffCall | None:
    """Take what an item calls: a function, or another agent; None: it is no call."""
    match item.WhichOneof("item"):
        case "function_call":
            return item.function_call
        case "handoff_call":
            return item.handoff_call
        case _:
            return None


def answered_by(item: item_pb2.Item) -> str:
    """Say which call an item answers, by Baton's id; empty: none."""
    return item.function_call_output.call_id or item.handoff_output.call_id


def model_call_ids(items: Iterable[item_pb2.Item]) -> dict[str, str]:
    """Say how the model names the calls among some items, by Baton's ids."""
    calls = (call_of(item) for item in items)
    return {call.call_id: call.model_call_id for call in calls if call is not None}


def text_of(item: item_pb2.Item) -> str:
    """Join the plain texts of a message."""
    return "".join(part.text for part in item.message.content if part.WhichOneof("part") == "text")


def _message(item: item_pb2.Item) -> RawItem:
    role = _ROLES.get(item.message.role, "user")
    parts = item.message.content
    if role == "assistant":
        made = RawItem(
            type="message",
            role=role,
            status="incomplete" if item.status == item_pb2.ITEM_STATUS_INCOMPLETE else "completed",
            content=[_said_part(part) for part in parts],
        )
        return _identified(made, item)
    if len(parts) == 1 and parts[0].WhichOneof("part") == "text":
        return RawItem(content=parts[0].text, role=role)  # as the Agents SDK writes a plain text
    return RawItem(content=[_given_part(part) for part in parts], role=role)


def _reasoning(item: item_pb2.Item) -> RawItem:
    thought = item.reasoning
    made = RawItem(type="reasoning", summary=[RawItem(type="summary_text", text=text) for text in thought.summary])
    if thought.content:
        made["content"] = [RawItem(type="reasoning_text", text=text) for text in thought.content]
    if thought.encrypted_content:
        made["encrypted_content"] = thought.encrypted_content
    return _identified(made, item)


def _identified(made: RawItem, item: item_pb2.Item) -> RawItem:
    if item.model_item_id:
        made["id"] = item.model_item_id
    return made


def _call(call_id: str, name: str, arguments: str) -> RawItem:
    return RawItem(type="function_call", call_id=call_id, name=name, arguments=arguments, status="completed")


def _result(call_id: str, output: Any, model_call_ids: Mapping[str, str] | None) -> RawItem:
    known = (model_call_ids or {}).get(call_id, call_id)
    return RawItem(type="function_call_output", call_id=known, output=output)


def raw_parts(parts: Sequence[item_pb2.ContentPart]) -> str | list[RawItem]:
    """Write an output as the Responses API does: one text alone as it is, anything else as a list of parts."""
    if len(parts) == 1 and parts[0].WhichOneof("part") == "text":
        return parts[0].text
    return [_given_part(part) for part in parts]


def _said_part(part: item_pb2.ContentPart) -> RawItem:
    """Write a part of what the model said."""
    match part.WhichOneof("part"):
        case "text":
            notes = json.loads(part.annotations_json or "[]", object_hook=RawItem)
            return RawItem(type="output_text", text=part.text, annotations=notes)
        case "refusal":
            return RawItem(type="refusal", refusal=part.refusal)
        case _:
            return _given_part(part)


def _given_part(part: item_pb2.ContentPart) -> RawItem:
    """Write a part of what the model is given."""
    match part.WhichOneof("part"):
        case "text":
            return RawItem(type="input_text", text=part.text)
        case "refusal":
            return RawItem(type="refusal", refusal=part.refusal)
        case "image":
            image = part.image
            return _only_said(type="input_image", image_url=image.url, file_id=image.file_id, detail=image.detail)
        case "file":
            file = part.file
            url = "file_data" if file.url.startswith("data:") else "file_url"
            return _only_said(type="input_file", file_id=file.file_id, filename=file.filename, **{url: file.url})
        case "other_json":
            made = json.loads(part.other_json, object_hook=RawItem)
            return made if isinstance(made, RawItem) else RawItem(type="unknown")
        case _:  # an arm of a later version
            return RawItem(type="unknown")


def _only_said(**fields: str) -> RawItem:
    return RawItem({key: value for key, value in fields.items() if value})
