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
    )


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
    )


# -- bodies --------------------------------------------------------------------------------------


def _write_message(message: item_pb2.Item, body: Message, omit: Omission) -> None:
    message.message.role = ROLES.to_wire[body.role]
    message.message.content.extend(_write_part(part, omit) for part in body.content)


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
    output.output.extend(_write_part(part, omit) for part in body.output)
    if body.settlement is not None:
        output.settlement = SETTLEMENTS.to_wire[body.settlement]
    if body.error is not None:
        output.error.CopyFrom(write_failure(body.error))
    output.joined_call_id = body.joined_call_id


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
}


def _read_body(message: item_pb2.Item, contents: Contents) -> ItemBody:
    arm = message.WhichOneof("item")
    match arm:
        case "message":
            return Message(
                role=ROLES.to_core[message.message.role],
                content=read_parts(message.message.content, contents),
            )
        case "reasoning":
            reasoning = message.reasoning
            return Reasoning(
                summary=tuple(reasoning.summary),
                content=tuple(reasoning.content),
                encrypted_content=reasoning.encrypted_content,
            )
        case "function_call":
            return _read_call(message.function_call, contents)
        case "function_call_output":
            return _read_output(message.function_call_output, contents)
        case "hosted":
            return Hosted(type=message.hosted.type)
        case _:
            raise ValueError(f"item {message.item_id!r} holds an arm that this release does not know")


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
    )


# -- parts ---------------------------------------------------------------------------------------


def _write_part(part: ContentPart, omit: Omission) -> item_pb2.ContentPart:
    match part:
        case TextPart(text=text, annotations_json=annotations):
            omitted = omit(text)
            if omitted is None:
                return item_pb2.ContentPart(text=text, annotations_json=annotations)
            return item_pb2.ContentPart(omitted_text=omitted, annotations_json=annotations)
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
            return TextPart(text=part.text, annotations_json=part.annotations_json)
        case "omitted_text":
            text = resolve(part.omitted_text, contents)
            return TextPart(text=text, annotations_json=part.annotations_json)
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
