"""Completes what was too large to travel in place: omitted texts, items that were left out."""

from __future__ import annotations

from collections.abc import AsyncIterator

from baton.errors import NotFoundError
from baton.server.connection import Connection
from baton.server.paging import pages
from baton.v1 import item_pb2, runner_pb2, session_pb2


async def read_content(connection: Connection, session_id: str, sha256: str) -> bytes:
    """Read a content whole, going on after breaks from the bytes that are here."""
    received = bytearray()

    async def read() -> bytes:
        request = session_pb2.ReadContentRequest(session_id=session_id, sha256=sha256, offset=len(received))
        async for slice_ in connection.sessions.ReadContent(request):
            received[slice_.offset :] = slice_.data
        return bytes(received)

    return await connection.persist(read, "reading a content")


async def list_items(connection: Connection, request: session_pb2.ListItemsRequest) -> AsyncIterator[item_pb2.Item]:
    """List items page by page, each completed."""
    async for page in pages(connection, connection.sessions.ListItems, request):
        for item in page.items:
            await complete_item(connection, request.session_id, item)
            yield item


async def complete_item(connection: Connection, session_id: str, item: item_pb2.Item) -> None:
    """Put the omitted texts of an item back in their places."""
    completer = _Completer(connection, session_id)
    match item.WhichOneof("item"):
        case "message":
            for part in item.message.content:
                await completer.part(part)
        case "function_call_output":
            for part in item.function_call_output.output:
                await completer.part(part)
        case "function_call" if item.function_call.HasField("arguments_omitted"):
            call = item.function_call
            call.arguments_json = await completer.text(call.arguments_omitted)
            call.ClearField("arguments_omitted")
        case "hosted" if item.hosted.HasField("item_omitted"):
            item.hosted.item_json = await completer.text(item.hosted.item_omitted)
            item.hosted.ClearField("item_omitted")
        case _:
            pass


async def complete_response(connection: Connection, response: runner_pb2.RunResponse) -> None:
    """Put back what a run's answer left out, its items aside: final output, next items, open arguments."""
    completer = _Completer(connection, response.session_id)
    if response.turn.HasField("output_omitted"):
        response.turn.output = await completer.text(response.turn.output_omitted)
    if response.HasField("next_items_omitted"):
        try:
            response.next_items_json = await completer.text(response.next_items_omitted)
            response.ClearField("next_items_omitted")
        except NotFoundError:
            pass  # the run is worth more than its list of inputs: `to_input_list` says that it is gone
    for action in response.required_actions:
        if action.HasField("arguments_omitted"):
            action.arguments_json = await completer.text(action.arguments_omitted)
            action.ClearField("arguments_omitted")


class _Completer:
    def __init__(self, connection: Connection, session_id: str) -> None:
        self._connection = connection
        self._session_id = session_id

    async def text(self, omitted: item_pb2.Omitted) -> str:
        return (await read_content(self._connection, self._session_id, omitted.sha256)).decode()

    async def part(self, part: item_pb2.ContentPart) -> None:
        match part.WhichOneof("part"):
            case "omitted_text":
                part.text = await self.text(part.omitted_text)
            case "image" if part.image.HasField("omitted_url"):
                part.image.url = await self.text(part.image.omitted_url)
            case "file" if part.file.HasField("omitted_url"):
                part.file.url = await self.text(part.file.omitted_url)
            case _:
                pass
