"""Items and their pieces: `baton.v1.Item`, ContentPart and Usage as the core's values, and back.

On an item's way out large texts are omitted; on its way in they are taken from `contents`. The `json` of an
item is kept beside it by the store; only a hosted item carries it on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baton.v1 import item_pb2
from baton_server.core.items import (
    ContentPart,
    FilePart,
    FunctionCall,
    FunctionCallOutput,
    HandoffCall,
    HandoffOutput,
    Hosted,
    ImagePart,
    Item,
    ItemBody,
    Message,
    OtherPart,
    Reasoning,
    RefusalPart,
    TextPart,
    Usage,
)
from baton_server.wire.errors import read_failure, write_failure
from baton_server.wire.names import ITEM_STATUSES, ROLES, SETTLEMENTS
from baton_server.wire.omit import Omission, resolve, stays

Contents = Mapping[str, bytes]


def write_item(item: Item, omit: Omission | None = None) -> item_pb2.Item:
    """Write an item without `created_at`. `omit` None: every text stays in place."""
    message = item_pb2.Item(
        item_id=item.item_id,
        turn_id=item.turn_id,
        run_path=item.run_path,
        agent=item.agent,
        status=ITEM_STATUSES.to_wire[item.status],
        model_item_id=item.model_item_id,
    )
    if item.output_index is not None:
        message.output_index = item.output_index
    _write_body(message, item, omit or stays)
    return message


def read_item(message: item_pb2.Item, json_text: str, contents: Contents) -> Item:
    """Read an item. Raises LookupError: `contents` lacks a text of it; ValueError: its arm is not known."""
    return Item(
        item_id=message.item_id,
        turn_id=message.turn_id,
        body=_read_body(message, contents),
        json=json_text,
        agent=message.agent,
        status=ITEM_STATUSES.to_core[message.status],
        output_index=message.output_index if message.HasField("output_index") else None,
        model_item_id=message.model_item_id,
        run_path=tuple(message.run_path),
    )


def write_parts(parts: Sequence[ContentPart], omit: Omission) -> list[item_pb2.ContentPart]:
    """Write content parts."""
    return [_write_part(part, omit) for part in parts]


def read_parts(parts: Sequence[item_pb2.ContentPart], contents: Contents | None = None) -> tuple[ContentPart, ...]:
    """Read content parts. Raises LookupError and ValueError as `read_item`."""
    return tuple(_read_part(part, contents or {}) for part in parts)


def write_usage(usage: Usage) -> item_pb2.Usage:
    """Write tokens and requests."""
    return item_pb2.Usage(
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        total_tokens=usage.total_tokens,
        raw_json=usage.raw_json,
    )


def read_usage(message: item_pb2.Usage) -> Usage:
    """Read tokens and requests."""
    return Usage(
        requests=message.requests,
        input_tokens=message.input_tokens,
        cached_input_tokens=message.cached_input_tokens,
        output_tokens=message.output_tokens,
        reasoning_tokens=message.reasoning_tokens,
        total_tokens=message.total_tokens,
        raw_json=message.raw_json,
    )


# -- bodies --------------------------------------------------------------------------------------


def _write_message(message: item_pb2.Item, body: Message, omit: Omission) -> None:
    message.message.role = ROLES.to_wire[body.role]
    message.message.content.extend(write_parts(body.content, omit))


def _write_reasoning(message: item_pb2.Item, body: Reasoning, _omit: Omission) -> None:
    message.reasoning.CopyFrom(
        item_pb2.Reasoning(summary=body.summary, content=body.content, encrypted_content=body.encrypted_content)
    )


def _write_call(message: item_pb2.Item, body: FunctionCall, omit: Omission) -> None:
    call = message.function_call
    call.call_id, call.name, call.model_call_id = body.call_id, body.name, body.model_call_id
    call.idempotency_key = body.idempotency_key
    omitted = omit(body.arguments)
    if omitted is None:
        call.arguments_json = body.arguments
    else:
        call.arguments_omitted.CopyFrom(omitted)


def _write_output(message: item_pb2.Item, body: FunctionCallOutput, omit: Omission) -> None:
    output = message.function_call_output
    output.call_id, output.name = body.call_id, body.name
    output.attempt, output.worker_id = body.attempt, body.worker_id
    output.output.extend(write_parts(body.output, omit))
    if body.settlement is not None:
        output.settlement = SETTLEMENTS.to_wire[body.settlement]
    if body.error is not None:
        output.error.CopyFrom(write_failure(body.error))
    output.joined_call_id, output.custom_data_json = body.joined_call_id, body.custom_data_json


def _write_handoff_call(message: item_pb2.Item, body: HandoffCall, _omit: Omission) -> None:
    message.handoff_call.CopyFrom(
        item_pb2.HandoffCall(
            call_id=body.call_id,
            tool_name=body.name,
            to_agent=body.to_agent,
            arguments_json=body.arguments,
            model_call_id=body.model_call_id,
        )
    )


def _write_handoff_output(message: item_pb2.Item, body: HandoffOutput, _omit: Omission) -> None:
    message.handoff_output.CopyFrom(
        item_pb2.HandoffOutput(
            call_id=body.call_id, from_agent=body.from_agent, to_agent=body.to_agent, output=body.output
        )
    )


def _write_hosted(message: item_pb2.Item, item: Item, body: Hosted, omit: Omission) -> None:
    message.hosted.type = body.type
    omitted = omit(item.json)
    if omitted is None:
        message.hosted.item_json = item.json
    else:
        message.hosted.item_omitted.CopyFrom(omitted)


def _write_body(message: item_pb2.Item, item: Item, omit: Omission) -> None:
    body = item.body
    if isinstance(body, Hosted):
        _write_hosted(message, item, body, omit)
    else:
        _BODY_WRITERS[type(body)](message, body, omit)


# Each function takes the class that it stands under.
_BODY_WRITERS: Mapping[type, Callable[[item_pb2.Item, Any, Omission], None]] = {
    Message: _write_message,
    Reasoning: _write_reasoning,
    FunctionCall: _write_call,
    FunctionCallOutput: _write_output,
    HandoffCall: _write_handoff_call,
    HandoffOutput: _write_handoff_output,
}


def _read_body(message: item_pb2.Item, contents: Contents) -> ItemBody:
    arm = message.WhichOneof("item")
    if arm is None:
        raise ValueError(f"item {message.item_id!r} holds an arm that this release does not know")
    return _BODY_READERS[arm](getattr(message, arm), contents)


def _read_message(message: item_pb2.Message, contents: Contents) -> Message:
    return Message(role=ROLES.to_core[message.role], content=read_parts(message.content, contents))


def _read_reasoning(reasoning: item_pb2.Reasoning, _contents: Contents) -> Reasoning:
    return Reasoning(
        summary=tuple(reasoning.summary),
        content=tuple(reasoning.content),
        encrypted_content=reasoning.encrypted_content,
    )


def _read_call(call: item_pb2.FunctionCall, contents: Contents) -> FunctionCall:
    omitted = call.HasField("arguments_omitted")
    return FunctionCall(
        call_id=call.call_id,
        name=call.name,
        arguments=resolve(call.arguments_omitted, contents) if omitted else call.arguments_json,
        model_call_id=call.model_call_id,
        idempotency_key=call.idempotency_key,
    )


def _read_output(output: item_pb2.FunctionCallOutput, contents: Contents) -> FunctionCallOutput:
    return FunctionCallOutput(
        call_id=output.call_id,
        name=output.name,
        output=read_parts(output.output, contents),
        settlement=SETTLEMENTS.to_core.get(output.settlement),
        attempt=output.attempt,
        worker_id=output.worker_id,
        error=read_failure(output.error) if output.HasField("error") else None,
        joined_call_id=output.joined_call_id,
        custom_data_json=output.custom_data_json,
    )


def _read_handoff_call(call: item_pb2.HandoffCall, _contents: Contents) -> HandoffCall:
    return HandoffCall(
        call_id=call.call_id,
        name=call.tool_name,
        to_agent=call.to_agent,
        arguments=call.arguments_json,
        model_call_id=call.model_call_id,
    )


def _read_handoff_output(output: item_pb2.HandoffOutput, _contents: Contents) -> HandoffOutput:
    return HandoffOutput(
        call_id=output.call_id, from_agent=output.from_agent, to_agent=output.to_agent, output=output.output
    )


# Each function takes the message of the arm that it stands under.
_BODY_READERS: Mapping[str, Callable[[Any, Contents], ItemBody]] = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_call,
    "function_call_output": _read_output,
    "handoff_call": _read_handoff_call,
    "handoff_output": _read_handoff_output,
    "hosted": lambda hosted, _contents: Hosted(type=hosted.type),
}


# -- parts ---------------------------------------------------------------------------------------


def _write_part(part: ContentPart, omit: Omission) -> item_pb2.ContentPart:
    match part:
        case TextPart(text=text, annotations_json=annotations, is_json=is_json):
            omitted = omit(text)
            if omitted is None:
                return item_pb2.ContentPart(text=text, annotations_json=annotations, is_json=is_json)
            return item_pb2.ContentPart(omitted_text=omitted, annotations_json=annotations, is_json=is_json)
        case ImagePart(detail=detail):
            image = item_pb2.ImagePart(detail=detail)
            _write_source(part, image, omit)
            return item_pb2.ContentPart(image=image)
        case FilePart(filename=filename):
            file = item_pb2.FilePart(filename=filename)
            _write_source(part, file, omit)
            return item_pb2.ContentPart(file=file)
        case RefusalPart(refusal=refusal):
            return item_pb2.ContentPart(refusal=refusal)
        case OtherPart(json=text):
            return item_pb2.ContentPart(other_json=text)


def _write_source(part: ImagePart | FilePart, message: item_pb2.ImagePart | item_pb2.FilePart, omit: Omission) -> None:
    """Write where a picture or a file is. Of one that names both, as a raw item may, the URL is kept."""
    if not part.url:
        message.file_id = part.file_id
        return
    omitted = omit(part.url)
    if omitted is None:
        message.url = part.url
    else:
        message.omitted_url.CopyFrom(omitted)


def _read_part(part: item_pb2.ContentPart, contents: Contents) -> ContentPart:
    match part.WhichOneof("part"):
        case "text":
            return TextPart(text=part.text, annotations_json=part.annotations_json, is_json=part.is_json)
        case "omitted_text":
            text = resolve(part.omitted_text, contents)
            return TextPart(text=text, annotations_json=part.annotations_json, is_json=part.is_json)
        case "image":
            url, image = _read_source(part.image, contents), part.image
            return ImagePart(url=url, file_id=image.file_id, detail=image.detail)
        case "file":
            url, file = _read_source(part.file, contents), part.file
            return FilePart(url=url, file_id=file.file_id, filename=file.filename)
        case "refusal":
            return RefusalPart(refusal=part.refusal)
        case "other_json":
            return OtherPart(json=part.other_json)
        case _:
            raise ValueError("a content part holds an arm that this release does not know")


def _read_source(message: item_pb2.ImagePart | item_pb2.FilePart, contents: Contents) -> str:
    if message.HasField("omitted_url"):
        return resolve(message.omitted_url, contents)
    return message.url
