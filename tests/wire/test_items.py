"""Items and parts by themselves: nothing omitted where nobody collects it, and unknown arms named."""

import pytest
from hypothesis import given, settings
from tests.wire import values

from baton.v1 import item_pb2
from baton_server.core.items import ContentPart, Hosted, Item, Message, Role
from baton_server.wire.items import read_item, read_parts, write_item


@settings(deadline=None, max_examples=50)
@given(values.content)
def test_parts_without_omission_are_whole(parts: tuple[ContentPart, ...]) -> None:
    """Large texts stay in place where the writer does not say otherwise."""
    item = Item(item_id="item_1", turn_id="turn_1", body=Message(role=Role.USER, content=parts), json="{}")

    assert read_item(write_item(item), "{}", {}) == item


def test_a_hosted_item_carries_its_json() -> None:
    """A provider's tool shows as it came, byte for byte."""
    item = Item(item_id="item_1", turn_id="turn_1", body=Hosted(type="web_search_call"), json='{ "type": "w" }')

    message = write_item(item)

    assert message.hosted.item_json == '{ "type": "w" }'
    assert read_item(message, item.json, {}) == item


def test_an_item_of_a_later_release_is_named() -> None:
    """It is not read as an empty one."""
    with pytest.raises(ValueError, match="item_1"):
        read_item(item_pb2.Item(item_id="item_1", status=item_pb2.ITEM_STATUS_COMPLETED), "", {})


def test_a_part_of_a_later_release_is_refused() -> None:
    """A message without one of its parts would be another message."""
    with pytest.raises(ValueError, match="does not know"):
        read_parts([item_pb2.ContentPart()])
