"""Items: put into the history and taken out of it, without a turn and without touching one that runs."""

import asyncio
import json
from typing import Any

import pytest
from tests.api.calling import (
    Client,
    attach,
    frame,
    fresh,
    helper,
    history_is_well_formed,
    kinds,
    refused,
    result_for,
    soon,
    text_of,
    told,
)
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import event_pb2, item_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')


def user(text: str) -> dict[str, Any]:
    """Make a user's message as the Responses API writes it."""
    return {"role": "user", "content": text}


async def add(client: Client, session_id: str, *items: dict[str, Any]) -> pb.AddItemsResponse:
    """Put items into the history."""
    request = pb.AddItemsRequest(request_id=fresh(), session_id=session_id, items_json=json.dumps(items))
    return await soon(client.sessions.AddItems(request))


async def remove(client: Client, session_id: str, **selection: Any) -> pb.RemoveItemsResponse:
    """Take items out of the history."""
    request = pb.RemoveItemsRequest(request_id=fresh(), session_id=session_id, **selection)
    return await soon(client.sessions.RemoveItems(request))


async def history(client: Client, session_id: str) -> list[str]:
    """Read the texts of the history."""
    items = await client.items(session_id, history_only=True)
    assert history_is_well_formed(items)
    return [text_of(item) for item in items]


async def test_added_items_are_what_the_next_turn_starts_with(serve: Serve) -> None:
    """Items of every kind go to the model as they came, and stand in the log as events of the session."""
    served = await serve(say("ok"))
    made = await served.client.session()
    given = [
        {"role": "system", "content": "be brief"},
        user("weather?"),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"n":9007199254740993}'},
        {"type": "function_call_output", "call_id": "c1", "output": "18"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"role": "assistant", "content": "18 degrees"},
    ]

    answer = await add(served.client, made.session_id, *given)
    await served.client.run(session_id=made.session_id, text="and now?")

    assert served.model.input_of(0) == [*given, {"content": "and now?", "role": "user"}]
    items = await served.client.items(made.session_id)
    assert [item.item_id for item in items[:7]] == list(answer.item_ids)
    assert [item.WhichOneof("item") for item in items[:7]] == [
        *("message", "message", "reasoning", "function_call", "function_call_output", "hosted", "message"),
    ]
    assert {(item.turn_id, item.agent, item.HasField("created_at")) for item in items[:7]} == {("", "", True)}
    assert items[5].model_item_id == "ws_1"
    events = await served.client.events(made.session_id)
    assert kinds(events)[1:8] == ["item_added"] * 7
    assert events[7].sequence == answer.sequence
    assert all(one.in_history for one in told(events, "item_added"))


async def test_the_newest_items_are_removed_with_their_partners(serve: Serve) -> None:
    """A call and its output go together, whichever of the two was meant; the log keeps both."""
    served = await serve(calls(KYOTO), say("18 degrees"), say("ok"))
    client = served.client
    worker = await attach(client, "get_weather")
    made = await client.session(agent=helper("get_weather"))
    await client.submit(made.session_id, "weather?")
    call = (await soon(worker.read())).call
    await worker.write(frame(result={"call_id": call.call_id, "attempt": 1, "output": "18"}))
    await client.rest(made.session_id)
    logged = await client.items(made.session_id)

    removed = await remove(client, made.session_id, last=2)
    left = await history(client, made.session_id)

    assert [item.item_id for item in removed.items] == [item.item_id for item in logged[1:]], "oldest first"
    assert left == ["weather?"]
    assert await client.items(made.session_id) == logged
    (withdrawn,) = told(await client.events(made.session_id), "items_withdrawn")
    assert list(withdrawn.item_ids) == [item.item_id for item in logged[1:]]
    assert withdrawn.reason == event_pb2.WITHDRAWAL_REASON_REMOVED
    assert removed.sequence == (await client.get(made.session_id)).last_sequence
    await client.run(session_id=made.session_id, text="again")
    assert [item["content"] for item in served.model.input_of(2)] == ["weather?", "again"]


@pytest.mark.parametrize("last", [1, 2])
async def test_added_calls_and_outputs_go_together_too(serve: Serve, last: int) -> None:
    """Pairs that a caller put in are known by their call_id."""
    client = (await serve()).client
    made = await client.session()
    await add(
        client,
        made.session_id,
        user("a"),
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "18"},
    )

    removed = await remove(client, made.session_id, last=last)

    assert [item.WhichOneof("item") for item in removed.items] == ["function_call", "function_call_output"]
    assert await history(client, made.session_id) == ["a"]


async def test_all_of_the_history_can_be_removed(serve: Serve) -> None:
    """Afterwards the next turn starts with nothing; removing again removes nothing, and says so."""
    served = await serve(say("one"), say("two"))
    client = served.client
    made = await client.session()
    await client.run(session_id=made.session_id, text="a")

    removed = await remove(client, made.session_id, all=True)
    again = await remove(client, made.session_id, all=True)
    none = await remove(client, made.session_id, last=5)
    await client.run(session_id=made.session_id, text="b")

    assert [text_of(item) for item in removed.items] == ["a", "one"]
    assert (list(again.items), again.sequence) == (list(none.items), none.sequence) == ([], 0)
    assert served.model.input_of(1) == [{"content": "b", "role": "user"}]
    (withdrawn,) = told(await client.events(made.session_id), "items_withdrawn")
    assert list(withdrawn.item_ids) == [], "all of it"


async def test_fewer_than_asked_for_are_removed_where_there_are_no_more(serve: Serve) -> None:
    """Asking for more than there is empties the history."""
    client = (await serve()).client
    made = await client.session()
    await add(client, made.session_id, user("a"), user("b"))

    assert len((await remove(client, made.session_id, last=100)).items) == 2


async def test_a_running_turn_sees_neither_what_is_added_nor_what_is_removed(serve: Serve) -> None:
    """It goes on with the history that it began with; the next turn starts with the new one."""
    gate = Gate()
    served = await serve(say("one"), calls(("get_weather", "no JSON"), before=gate), say("two"), say("three"))
    client = served.client
    made = await client.session(agent=helper("get_weather"))
    await client.run(session_id=made.session_id, text="a")
    await client.submit(made.session_id, "b")
    await gate.reached()
    await remove(client, made.session_id, last=2)
    await add(client, made.session_id, user("added"))
    gate.open()
    await client.rest(made.session_id)
    await client.run(session_id=made.session_id, text="c")

    def words(request: int) -> list[str]:
        said = [item.get("content") or item["type"] for item in served.model.input_of(request)]
        return [word if isinstance(word, str) else word[0]["text"] for word in said]

    assert words(2) == ["a", "one", "b", "function_call", "function_call_output"]
    assert words(3) == ["b", "function_call", "function_call_output", "two", "added", "c"], "its own items stay"
    assert history_is_well_formed(await client.items(made.session_id, history_only=True))


async def test_items_are_listed_by_turn_in_both_directions_and_by_pages(serve: Serve) -> None:
    """Every way of listing gives each item once, in its order."""
    served = await serve(say("one"), say("two"))
    client = served.client
    made = await client.session()
    await add(client, made.session_id, user("first"))
    turns = [(await client.run(session_id=made.session_id, text=text)).turn.turn_id for text in ("a", "b")]
    await remove(client, made.session_id, last=1)

    async def texts(**fields: Any) -> list[str]:
        return [text_of(item) for item in await client.items(made.session_id, page_size=2, **fields)]

    everything = ["first", "a", "one", "b", "two"]
    assert await texts() == everything
    assert await texts(newest_first=True) == everything[::-1]
    assert await texts(turn_id=turns[1]) == ["b", "two"]
    assert await texts(turn_id=turns[1], newest_first=True) == ["two", "b"]
    assert await texts(history_only=True) == everything[:-1]
    assert await texts(turn_id=turns[1], history_only=True) == ["b"]
    roles = [item.message.role for item in await client.items(made.session_id)]
    assert roles == [item_pb2.MESSAGE_ROLE_USER] * 2 + [2, 1, 2]


async def test_items_of_a_turn_that_is_not_there_are_refused(serve: Serve) -> None:
    """An empty list would say that the turn had no items."""
    served = await serve(say("one"))
    made, other = await served.client.session(), await served.client.run()

    for turn_id in ("turn_none", other.turn.turn_id):
        assert (await refused(served.client.items(made.session_id, turn_id=turn_id))).reason == "TURN_NOT_FOUND"


async def test_removing_all_leaves_a_running_turn_whole(serve: Serve) -> None:
    """Its call stays until its output has come: no output stands in the history without its call."""
    served = await serve(say("one"), calls(KYOTO), say("two"), say("three"))
    client = served.client
    made = await client.session(agent=helper("get_weather"))
    await client.run(session_id=made.session_id, text="a")
    (action,) = (await client.run(session_id=made.session_id, text="b")).required_actions

    removed = await remove(client, made.session_id, all=True)

    assert [text_of(item) for item in removed.items] == ["a", "one"]
    await client.submit(made.session_id, result_for(action, output="18 °C"))
    await client.rest(made.session_id)
    assert (await history(client, made.session_id))[0] == "b"
    await client.run(session_id=made.session_id, text="c")
    types = [item.get("type", "message") for item in served.model.input_of(3)]
    assert types == ["message", "function_call", "function_call_output", "message", "message"]


async def test_of_removals_at_once_each_takes_its_own(serve: Serve) -> None:
    """Three that pop the newest item get three different ones."""
    client = (await serve()).client
    made = await client.session()
    await add(client, made.session_id, *(user(text) for text in "abcd"))

    popped = await asyncio.gather(*(remove(client, made.session_id, last=1) for _ in range(3)))

    assert sorted(text_of(item) for answer in popped for item in answer.items) == ["b", "c", "d"]
    assert await history(client, made.session_id) == ["a"]
