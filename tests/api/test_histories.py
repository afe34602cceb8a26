"""Who keeps a session's history, and what a run tells about it for the next one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.api.calling import Client, fresh, helper, refused
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, say

from baton.v1 import session_pb2 as pb

CONVERSATION: Any = {"history": {"conversation": {"id": "conv_1"}}}
CHAIN: Any = {"history": {"response": {"auto": True}}}
SESSION: Any = {"history": {"session": {}}}
CALLER: Any = {"history": {"caller": {}}}


async def keeper(client: Client, session_id: str) -> str:
    """Say who keeps a session's history."""
    session = await client.get(session_id)
    return pb.HistoryKeeper.Name(session.history_keeper).removeprefix("HISTORY_KEEPER_")


@pytest.mark.parametrize(
    ("config", "kept"),
    [(SESSION, "SESSION"), ({}, "SESSION"), (CONVERSATION, "MODEL"), (CHAIN, "MODEL"), (CALLER, "UNSPECIFIED")],
)
async def test_the_first_turn_decides_who_keeps_the_history(serve: Serve, config: Any, kept: str) -> None:
    """In a session that was there, and in one that is made for the run."""
    served = await serve(say("One."), say("Two."))
    made = await served.client.session()
    assert await keeper(served.client, made.session_id) == "UNSPECIFIED"

    await served.client.run(session_id=made.session_id, run_config=config)
    own = await served.client.run(run_config=config)

    assert await keeper(served.client, made.session_id) == kept
    assert await keeper(served.client, own.session_id) == kept
    listed = (await served.client.sessions.ListSessions(pb.ListSessionsRequest())).sessions
    assert {pb.HistoryKeeper.Name(one.history_keeper).removeprefix("HISTORY_KEEPER_") for one in listed} == {kept}


@pytest.mark.parametrize(
    ("first", "second", "metadata"),
    [
        (SESSION, CONVERSATION, {"session": "SESSION", "turn": "CONVERSATION"}),
        (SESSION, CHAIN, {"session": "SESSION", "turn": "RESPONSE"}),
        (CONVERSATION, SESSION, {"session": "MODEL", "turn": "SESSION"}),
        (CHAIN, {}, {"session": "MODEL", "turn": "SESSION"}),
    ],
)
async def test_a_turn_of_the_other_kind_is_refused(serve: Serve, first: Any, second: Any, metadata: Any) -> None:
    """Half of the history would be missing in either place; a turn that brings its own is no such turn."""
    served = await serve(say("One."), say("Two."), say("Three."))
    made = await served.client.session()
    await served.client.run(session_id=made.session_id, run_config=first)

    refusal = await refused(served.client.run(session_id=made.session_id, run_config=second))

    assert (refusal.reason, refusal.metadata) == ("HISTORY_MIXED", metadata)
    await served.client.run(session_id=made.session_id, run_config=CALLER)
    await served.client.run(session_id=made.session_id, run_config=first)


async def test_a_message_of_the_other_kind_is_refused(serve: Serve) -> None:
    """By the defaults that the session has by then."""
    served = await serve(say("One."))
    made = await served.client.session()
    await served.client.run(session_id=made.session_id)
    update = pb.UpdateSessionRequest(request_id=fresh(), session_id=made.session_id, run_config=CONVERSATION)
    update.update_mask.paths.append("run_config")
    await served.client.sessions.UpdateSession(update)

    refusal = await refused(served.client.submit(made.session_id, "Hi."))

    assert refusal.reason == "HISTORY_MIXED"


async def test_items_are_not_added_to_a_history_that_the_model_keeps(serve: Serve) -> None:
    """No turn would see them; before any turn has decided it, they are taken."""
    served = await serve(say("One."))
    made = await served.client.session()
    items = '[{"role":"user","content":"Before."}]'

    async def add() -> pb.AddItemsResponse:
        request = pb.AddItemsRequest(request_id=fresh(), session_id=made.session_id, items_json=items)
        return await served.client.sessions.AddItems(request)

    assert len((await add()).item_ids) == 1
    await served.client.run(session_id=made.session_id, run_config=CHAIN)
    assert (await refused(add())).metadata == {"session": "MODEL", "turn": "SESSION"}


# -- what the next run with history CALLER begins with -------------------------------------------


@pytest.mark.parametrize("config", [SESSION, CALLER, CONVERSATION, CHAIN])
async def test_a_run_tells_what_the_next_one_begins_with(serve: Serve, config: Any) -> None:
    """Its input and its answer, whoever keeps the history; a caller's own history is told unasked."""
    served = await serve(say("Hello."), say("Hello."))

    told = await served.client.run(text="Hi.", run_config=config, with_next_items=True)
    untold = await served.client.run(text="Hi.", run_config=config)

    items = json.loads(told.next_items_json)
    assert [item["role"] for item in items] == ["user", "assistant"]
    assert bool(untold.next_items_json) is (config is CALLER)


async def test_the_next_items_begin_with_the_history_as_far_as_the_turn_saw_it(serve: Serve) -> None:
    """With a limit, its newest items alone."""
    served = await serve(say("One."), say("Two."), say("Three."))
    made = await served.client.session(agent=helper())
    for text in ("a", "b"):
        await served.client.run(session_id=made.session_id, text=text)

    limited: Any = {"history": {"session": {"limit": 2}}}
    told = await served.client.run(session_id=made.session_id, text="c", run_config=limited, with_next_items=True)

    items = json.loads(told.next_items_json)
    assert [item["content"] for item in items if item["role"] == "user"] == ["b", "c"]
    assert len(items) == 4


async def test_a_run_may_begin_with_what_the_history_holds_alone(serve: Serve) -> None:
    """Nothing new is said: the model is asked to go on."""
    served = await serve(say("One."), say("Two."))
    made = await served.client.session(agent=helper())
    await served.client.run(session_id=made.session_id, text="a")

    answer = await served.client.run(session_id=made.session_id, items_json="[]")

    assert answer.turn.output == "Two."
    assert [item["role"] for item in served.model.input_of(1)] == ["user", "assistant"]


@pytest.mark.parametrize("config", [CONVERSATION, {"history": {"response": {"previous_id": "resp_1"}}}])
async def test_a_run_may_begin_with_what_the_models_api_keeps_alone(serve: Serve, config: Any) -> None:
    """What is there nobody here knows; the request says where to go on."""
    served = await serve(say("One."))

    answer = await served.client.run(items_json="[]", run_config=config)

    assert answer.turn.output == "One."


@pytest.mark.parametrize("config", [{}, {"history": {"session": {"limit": 0}}}, CALLER, CHAIN])
async def test_a_run_with_nothing_to_begin_with_is_refused(serve: Serve, config: Any) -> None:
    """Neither input nor history: by name, and nothing is made."""
    served = await serve(say("One."))

    refusal = await refused(served.client.run(items_json="[]", run_config=config))

    assert (refusal.reason, refusal.paths) == ("INVALID_REQUEST", ["items_json"])
    assert not (await served.client.sessions.ListSessions(pb.ListSessionsRequest())).sessions


@pytest.mark.parametrize("config", [{"history": {"session": {"limit": 0}}}, CALLER])
async def test_so_is_one_that_waits_behind_another_turn(serve: Serve, config: Any) -> None:
    """What that one says will be in a history that is not read."""
    gate = Gate()
    served = await serve(say("One.", gate))
    made = await served.client.session(agent=helper())
    first = asyncio.ensure_future(served.client.run(session_id=made.session_id, text="a"))
    await gate.reached()

    refusal = await refused(served.client.run(session_id=made.session_id, items_json="[]", run_config=config))
    gate.open()

    assert (refusal.reason, refusal.paths) == ("INVALID_REQUEST", ["items_json"])
    assert (await first).turn.output == "One."


async def test_a_limit_of_nothing_reads_nothing(serve: Serve) -> None:
    """The turn joins the history all the same."""
    served = await serve(say("One."), say("Two."), say("Three."))
    made = await served.client.session(agent=helper())
    nothing: Any = {"history": {"session": {"limit": 0}}}

    await served.client.run(session_id=made.session_id, text="a")
    await served.client.run(session_id=made.session_id, text="b", run_config=nothing)
    await served.client.run(session_id=made.session_id, text="c")

    assert [len(request.items) for request in served.model.requests] == [1, 1, 5]
