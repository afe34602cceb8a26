"""The server is killed around the commit of SubmitInput: what it takes, it takes whole, and once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import pytest
from tests.crash.doomed_server import Moment
from tests.crash.house import House, agent, house, said, stored
from tests.crash.raw_clients import BROKEN, RawWatcher, going, persist, text_of
from tests.support.model_server import ModelServer

from baton.v1 import event_pb2, session_pb2

pytestmark = pytest.mark.slow

MODEL = "rule:calls=1,name=ask,words=3,checked=1"
"""After each message it calls `ask`, which no worker serves, and then answers."""

NEWS = "this is news"
RESULT = "this is the result"

Make = Callable[[event_pb2.RequiredAction], list[session_pb2.Input]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is sent to a turn that waits for `ask`, and what it is answered.

    `idle`: it is sent to a session at rest instead. `turns`: how many the session has in the end.
    """

    make: Make
    outcomes: Sequence[session_pb2.InputStatus.ValueType]
    idle: bool = False
    if_busy: session_pb2.IfBusy.ValueType = session_pb2.IF_BUSY_UNSPECIFIED
    turns: int = 1


def news(_action: event_pb2.RequiredAction) -> list[session_pb2.Input]:
    """Make a message."""
    return [said(NEWS)]


def result(action: event_pb2.RequiredAction, output: str = RESULT) -> list[session_pb2.Input]:
    """Make the result of an open call."""
    settled = session_pb2.ToolResult(turn_id=action.turn_id, call_id=action.call_id, output=output)
    return [session_pb2.Input(tool_result=settled)]


def cancel(action: event_pb2.RequiredAction) -> list[session_pb2.Input]:
    """Make a cancel of a call's turn."""
    return [session_pb2.Input(cancel=session_pb2.CancelInput(turn_id=action.turn_id))]


CASES = {
    "a message to an idle session": Case(make=news, outcomes=[session_pb2.INPUT_STATUS_STARTED], idle=True, turns=2),
    "a message that queues": Case(
        make=news, outcomes=[session_pb2.INPUT_STATUS_QUEUED], if_busy=session_pb2.IF_BUSY_QUEUE, turns=2
    ),
    "a message that steers": Case(make=news, outcomes=[session_pb2.INPUT_STATUS_STEERED]),
    "a result": Case(make=result, outcomes=[session_pb2.INPUT_STATUS_SETTLED]),
    "a cancel": Case(make=cancel, outcomes=[session_pb2.INPUT_STATUS_CANCELLING]),
    "a result with a message": Case(
        make=lambda action: [*result(action), *news(action)],
        outcomes=[session_pb2.INPUT_STATUS_SETTLED, session_pb2.INPUT_STATUS_STEERED],
    ),
}


@pytest.mark.parametrize("moment", list(Moment))
async def test_an_input_is_taken_wholly_and_once_or_not_at_all(
    moment: Moment, tmp_path: Path, model_server: ModelServer
) -> None:
    """Answered or not: what is on disk has its effect, what is not has none, and sent again it counts once."""
    store = tmp_path / "baton.db"
    async with house(store, model_server.base_url) as home:
        for case in CASES.values():
            await submit_once(home, case, moment)
        assert len(home.process.starts) == len(CASES) + 1
    kept = stored(store)
    assert set(kept.outputs) == set(kept.calls)
    assert set(kept.outputs.values()) == {1}
    assert set(kept.turns.values()) == {"COMPLETED", "CANCELLED"}
    assert kept.inbox == 0


async def submit_once(home: House, case: Case, moment: Moment) -> None:
    """Bring a session to the point, submit with a death at the commit, and follow what comes of it."""
    session_id = await home.new_session(agent(MODEL, "ask"))
    watcher = RawWatcher(home.channel, session_id)
    async with going(watcher):
        await home.submit(session_id, said("begin"))
        (action,) = await waits(watcher)
        if case.idle:
            await settle_until_idle(home, watcher, session_id)
        before = watcher.last
        request = session_pb2.SubmitInputRequest(
            request_id=home.new_id(), session_id=session_id, inputs=case.make(action), if_busy=case.if_busy
        )
        answer = await dying(home, moment, request)
        assert answer is None or moment is Moment.TOLD
        if moment is Moment.BEFORE:
            session = await home.session(session_id)
            assert session.last_sequence == before
            assert [open_.call_id for open_ in session.required_actions] == ([] if case.idle else [action.call_id])
        else:
            await watcher.until(lambda: watcher.last > before or effect_waits(case))
        again = await persist(lambda: home.sessions.SubmitInput(request, wait_for_ready=True))
        assert [outcome.status for outcome in again.outcomes] == case.outcomes
        assert answer in (None, again)
        await settle_until_idle(home, watcher, session_id)
        await check(home, watcher, session_id, case, action)


def effect_waits(case: Case) -> bool:
    """Tell whether an input waits for something else before it shows in the log."""
    return list(case.outcomes) == [session_pb2.INPUT_STATUS_STEERED]


async def check(
    home: House, watcher: RawWatcher, session_id: str, case: Case, action: event_pb2.RequiredAction
) -> None:
    """See that each input had its effect once, and that the session takes another one."""
    wanted = case.make(action)
    items = await home.items(session_id)
    messages = [text_of(item.message.content) for item in items if item.HasField("message")]
    assert messages.count(NEWS) == sum(given.HasField("text") for given in wanted)
    outputs = [text_of(item.function_call_output.output) for item in items if item.HasField("function_call_output")]
    assert outputs.count(RESULT) == sum(given.HasField("tool_result") for given in wanted)
    arms = [event.WhichOneof("event") for event in watcher.events]
    cancels = sum(given.HasField("cancel") for given in wanted)
    assert (arms.count("cancel_requested"), arms.count("turn_cancelled")) == (cancels, cancels)
    assert arms.count("turn_created") == case.turns
    await home.submit(session_id, said("and once more"))
    await settle_until_idle(home, watcher, session_id)
    session = await home.session(session_id)
    assert not session.required_actions
    assert session.status == session_pb2.SESSION_STATUS_IDLE
    assert [event.sequence for event in watcher.events] == list(range(1, session.last_sequence + 1))


async def dying(
    home: House, moment: Moment, request: session_pb2.SubmitInputRequest
) -> session_pb2.SubmitInputResponse | None:
    """Send a request once, to a server that dies at the next commit; None: it was not answered."""
    answer = None
    starts = len(home.process.starts)
    await home.process.arm(moment, 1)
    try:
        answer = await home.sessions.SubmitInput(request)
    except grpc.aio.AioRpcError as error:
        assert error.code() in BROKEN, error
    await home.process.started(starts + 1)
    return answer


def standing(watcher: RawWatcher) -> event_pb2.Event | None:
    """Find the last event that says how the session stands."""
    arms = ("session_idle", "session_in_progress", "session_requires_action")
    return next((event for event in reversed(watcher.events) if event.WhichOneof("event") in arms), None)


async def waits(watcher: RawWatcher) -> list[event_pb2.RequiredAction]:
    """Wait until the session requires action or is idle; returns what it requires."""
    rests = ("session_idle", "session_requires_action")

    def rested() -> bool:
        event = standing(watcher)
        return event is not None and event.WhichOneof("event") in rests

    await watcher.until(rested)
    event = standing(watcher)
    assert event is not None
    for action in (actions := list(event.session_requires_action.required_actions)):
        action.turn_id = event.turn_id  # which an event does not repeat inside
    return actions


async def settle_until_idle(home: House, watcher: RawWatcher, session_id: str) -> None:
    """Settle every call that is open, one after another, until the session is idle and the watcher has seen it."""
    while True:
        session = await home.session(session_id)
        for action in session.required_actions:
            await home.submit(session_id, *result(action, "settled by the test"))
        settled = bool(session.required_actions)
        idle = session.status == session_pb2.SESSION_STATUS_IDLE
        await watcher.until(partial(reached, watcher, session.last_sequence + (0 if idle or settled else 1)))
        if idle:
            return


def reached(watcher: RawWatcher, sequence: int) -> bool:
    """Tell whether a watcher has come to a sequence."""
    return watcher.last >= sequence
