"""Faults of the store and of our own, in the middle of a turn: what was acknowledged is not lost, and no turn hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from tests.api.calling import Client, client_of, fresh, helper, kinds, refused, result_for, soon
from tests.support.faulty_store import FaultyStore
from tests.support.scripted_model import Gate, ScriptedModel, calls, message, say
from tests.support.scripted_worker import ScriptedWorker
from tests.support.server import server
from tests.support.stage import eventually
from tests.support.stepped_clock import SteppedClock

from baton.v1 import error_pb2, event_pb2, item_pb2
from baton.v1 import session_pb2 as pb
from baton_server.core.inputs import ModelReplied
from baton_server.core.responses import read_item
from baton_server.main import Baton
from baton_server.ports.clock import Clock
from baton_server.ports.model import Model, ModelRequest
from baton_server.ports.store import Batch, Store

pytestmark = pytest.mark.slow

KYOTO = ("get_weather", '{"city":"Kyoto"}')


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A server over a store that fails where it is told."""

    baton: Baton
    client: Client
    store: FaultyStore


@asynccontextmanager
async def house(folder: Path, model: Model, clock: Clock | None = None, **settings: Any) -> AsyncIterator[House]:
    """Run the server."""
    made: list[FaultyStore] = []

    def around(store: Store) -> Store:
        made.append(FaultyStore(store))
        return cast(Store, made[0])

    async with server(folder, model, clock, around, **settings) as baton, client_of(baton) as client:
        yield House(baton=baton, client=client, store=made[0])


async def unserved_call(client: Client) -> event_pb2.RequiredAction:
    """Start a turn with a call that nobody serves, and wait until it is open."""
    answer = await client.run(agent=helper("get_weather"))
    (action,) = answer.required_actions
    return action


def opens_calls(batch: Batch) -> bool:
    """Tell whether a commit opens calls."""
    return bool(batch.calls_opened)


# -- the store is away ---------------------------------------------------------------------------


async def test_an_acknowledged_result_is_fed_though_the_inbox_could_not_be_read(tmp_path: Path) -> None:
    """The read is done again; what it would have brought is not forgotten."""
    async with house(tmp_path, ScriptedModel([calls(KYOTO), say("Done.")])) as home:
        session = await home.client.session(agent=helper("get_weather"))
        started = await home.client.run(session_id=session.session_id)
        failed = home.store.fail("inbox.rows")

        answer = await home.client.submit(session.session_id, result_for(started.required_actions[0], output="sunny"))

        assert [outcome.status for outcome in answer.outcomes] == [pb.INPUT_STATUS_SETTLED]
        await soon(failed.wait())
        assert kinds(await home.client.rest(session.session_id))[-2:] == ["turn_completed", "session_idle"]


async def test_mail_is_put_back_when_its_commit_fails(tmp_path: Path) -> None:
    """A worker's result that came while the disk was away is taken when it is back, without another one."""
    async with house(tmp_path, ScriptedModel([calls(KYOTO), say("Done.")])) as home:
        worker = await ScriptedWorker.attached(home.baton.address, "get_weather")
        session = await home.client.session(agent=helper("get_weather"))
        await home.client.submit(session.session_id, "weather?")
        call = await worker.expect("call")
        failed = home.store.fail("commit", which=lambda batch: batch.calls_settled)

        await worker.finish(call, output="sunny")

        assert failed.is_set()
        assert "turn_completed" in kinds(await home.client.rest(session.session_id))
        await worker.close()


async def test_a_run_whose_commit_was_reported_as_failed_goes_on_when_it_is_sent_again(tmp_path: Path) -> None:
    """The turn is on disk and nobody drives it; the same request finds it, and has it driven."""
    async with house(tmp_path, ScriptedModel([say("Done.")])) as home:
        request_id = fresh()
        home.store.fail("commit", which=lambda batch: batch.turn is not None, written=True)
        refusal = await refused(home.client.run(request_id=request_id))
        assert refusal.reason == "UNAVAILABLE"

        answer = await home.client.run(request_id=request_id)

        assert answer.turn.output == "Done."


async def test_a_message_whose_commit_was_reported_as_failed_is_answered_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    """As with a run, for SubmitInput."""
    async with house(tmp_path, ScriptedModel([say("Done.")])) as home:
        session = await home.client.session()
        request_id = fresh()
        home.store.fail("commit", which=lambda batch: batch.turn is not None, written=True)
        await refused(home.client.submit(session.session_id, "hello", request_id=request_id))

        await home.client.submit(session.session_id, "hello", request_id=request_id)

        assert "turn_completed" in kinds(await home.client.rest(session.session_id))


async def test_a_turn_ends_though_what_follows_could_not_be_read(tmp_path: Path) -> None:
    """The last step is undone, and done again: the turn ends on disk, and the next one begins."""
    gate = Gate()
    async with house(tmp_path, ScriptedModel([say("one", gate), say("two")])) as home:
        session = await home.client.session()
        await home.client.submit(session.session_id, "first")
        await gate.reached()
        await home.client.submit(session.session_id, "second", if_busy=pb.IF_BUSY_QUEUE)
        failed = home.store.fail("turns.queued")

        gate.open()

        await soon(failed.wait())
        events = await home.client.rest(session.session_id)
        assert kinds(events).count("turn_completed") == 2
        assert kinds(events).count("round_completed") == 2


async def test_the_history_is_read_again_after_a_fault(tmp_path: Path) -> None:
    """A model request that waits for the store gets the whole history, though the turn is loaded anew meanwhile."""
    clock = SteppedClock()
    model = ScriptedModel([say("Hello Ann."), say("Ann.")])
    async with house(tmp_path, model, clock) as home:
        session = await home.client.session()
        await home.client.run(session_id=session.session_id, text="my name is Ann")
        unread = home.store.fail("items.history")
        turn = await home.client.submit(session.session_id, "what is my name?")
        await soon(unread.wait())
        unwritten = home.store.fail("commit", which=lambda batch: batch.turn is not None)
        await home.client.cancel(session.session_id, turn.turn_id, mode=event_pb2.CANCEL_MODE_AFTER_ROUND)
        await soon(unwritten.wait())

        clock.advance(1.0)

        await model.asked(2)
        assert [item["role"] for item in model.input_of(1)] == ["user", "assistant", "user"]


# -- written, and reported as failed -------------------------------------------------------------


async def test_calls_are_delivered_whose_opening_was_reported_as_failed(tmp_path: Path) -> None:
    """They are leased on disk and were sent to nobody: they are given back, and delivered as the next attempt."""
    async with house(tmp_path, ScriptedModel([calls(KYOTO, KYOTO), say("Done.")])) as home:
        worker = await ScriptedWorker.attached(home.baton.address, "get_weather", credit=1)
        session = await home.client.session(agent=helper("get_weather"))
        home.store.fail("commit", which=opens_calls, written=True)

        await home.client.submit(session.session_id, "weather?")

        delivered = []
        for _ in range(2):
            delivered.append(await worker.expect("call"))
            await worker.finish(delivered[-1])
            await worker.send(credit={"messages": 1})
        assert sorted(call.attempt for call in delivered) == [1, 2]
        assert not any(call.may_have_run for call in delivered)
        assert "turn_completed" in kinds(await home.client.rest(session.session_id))
        await worker.close()


async def test_a_lease_is_kept_that_was_reported_as_failed(tmp_path: Path) -> None:
    """A call that waited is brought to the worker that has it on disk, at the very attempt."""
    async with house(tmp_path, ScriptedModel([calls(KYOTO), say("Done.")])) as home:
        action = await unserved_call(home.client)
        failed = home.store.fail("commit", which=lambda batch: batch.leases, written=True)
        worker = await ScriptedWorker.attached(home.baton.address, "get_weather")
        await soon(failed.wait())

        call = await worker.expect("call")

        assert (call.call_id, call.attempt) == (action.call_id, 1)
        await worker.finish(call)
        await worker.close()


async def test_a_lease_is_given_back_whose_worker_left_meanwhile(tmp_path: Path) -> None:
    """It was reported as failed, so its worker never saw the call; the next worker gets it as the next attempt."""
    async with house(tmp_path, ScriptedModel([calls(KYOTO), say("Done.")])) as home:
        action = await unserved_call(home.client)
        failed = home.store.fail("commit", which=lambda batch: batch.leases, written=True)
        gone = await ScriptedWorker.attached(home.baton.address, "get_weather")
        await soon(failed.wait())
        await gone.half_close()
        await gone.ended()
        other = await ScriptedWorker.attached(home.baton.address, "get_weather")

        call = await other.expect("call")

        assert (call.call_id, call.attempt, call.may_have_run) == (action.call_id, 2, False)
        await other.finish(call)
        await gone.close()
        await other.close()


async def test_a_lost_attempt_is_followed_by_another_though_its_commit_was_reported_as_failed(tmp_path: Path) -> None:
    """The log has the loss once, and the call goes to the next worker."""
    async with house(tmp_path, ScriptedModel([calls(KYOTO), say("Done.")]), registration_grace_s=0.05) as home:
        worker = await ScriptedWorker.attached(home.baton.address, "get_weather")
        session = await home.client.session(agent=helper("get_weather"))
        await home.client.submit(session.session_id, "weather?")
        call = await worker.expect("call")
        await worker.ack(call)
        await worker.nothing()
        home.store.fail("commit", which=lambda batch: batch.requeues, written=True)
        await worker.break_connection()
        other = await ScriptedWorker.attached(home.baton.address, "get_weather")

        again = await other.expect("call")

        assert (again.call_id, again.attempt) == (call.call_id, 2)
        await other.finish(again)
        assert kinds(await home.client.rest(session.session_id)).count("attempt_lost") == 1
        await other.close()


# -- faults of ours ------------------------------------------------------------------------------


class Unwritable:
    """A model whose first reply cannot be written down; the others are "Done."."""

    def __init__(self) -> None:
        self.asked = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelReplied]:
        """Implement `ports.model.Model`."""
        self.asked += 1
        name = "half a character: \ud800" if self.asked == 1 else "m"
        yield ModelReplied(round=request.round, items=(read_item(message("Done.")),), model=name)

    async def close(self) -> None:
        """Implement `ports.model.Model`."""


async def test_a_turn_that_cannot_be_fed_ends_with_an_error_id(tmp_path: Path) -> None:
    """It is tried a few times, not for ever; then it fails, and the session takes the next turn."""
    clock = SteppedClock()
    async with house(tmp_path, cast(Model, Unwritable()), clock) as home:
        session = await home.client.session()
        running = asyncio.ensure_future(home.client.run(session_id=session.session_id))

        await eventually(lambda: clock.advance(0.1) or running.done())

        error = running.result().turn.error
        assert error.reason == error_pb2.ERROR_REASON_INTERNAL
        assert error.metadata["error_id"].startswith("err_")
        following = await home.client.run(session_id=session.session_id)
        assert following.turn.output == "Done."


async def test_what_came_for_a_turn_that_is_ended_over_a_fault_goes_with_it(tmp_path: Path) -> None:
    """Its open calls get an output, since a model refuses a history without, and the inbox is emptied."""
    clock = SteppedClock()
    async with house(tmp_path, ScriptedModel([calls(KYOTO), say("Done.")]), clock) as home:
        session = await home.client.session(agent=helper("get_weather"))
        action = (await home.client.run(session_id=session.session_id)).required_actions[0]
        home.store.fail("inbox.rows", times=5, error=ValueError("rows of a later release"))
        await home.client.submit(session.session_id, result_for(action, output="sunny"))
        watching = asyncio.ensure_future(home.client.rest(session.session_id))

        await eventually(lambda: clock.advance(0.1) or watching.done())

        assert kinds(watching.result())[-2:] == ["turn_failed", "session_idle"]
        items = await home.client.items(session.session_id, history_only=True)
        assert items[-1].function_call_output.settlement == item_pb2.SETTLEMENT_CANCELLED
        assert await home.baton.runtime.store.inbox.rows(action.turn_id) == []
        assert (await home.client.run(session_id=session.session_id)).turn.output == "Done."


async def test_a_conversation_ends_over_a_fault_of_ours(tmp_path: Path) -> None:
    """Who has submitted is not left to wait for an answer that will never come."""
    async with house(tmp_path, ScriptedModel([])) as home:
        session = await home.client.session()
        talk = home.client.sessions.Converse()
        await talk.write(pb.ConverseRequest(watch={"session_id": session.session_id}))
        while not (await soon(talk.read())).parts:
            pass
        home.store.fail("sessions.get", error=RuntimeError("a fault of ours"))

        await talk.write(pb.ConverseRequest(submit={"request_id": fresh(), "inputs": [{"text": "hello"}]}))

        async def to_the_end() -> None:
            while await talk.read():
                pass

        assert (await refused(to_the_end())).reason == "INTERNAL"
