"""Every field of a worker's frames is sent once and seen to work; `test_every_field` counts them with the others."""

import asyncio
import hashlib
import time
from typing import Any

from tests.api.calling import WEATHER, frame, helper, soon, text_of, told, until
from tests.api.conftest import Serve, Served
from tests.api.sending import sends
from tests.support.scripted_model import calls, say

from baton.v1 import error_pb2, event_pb2, handler_pb2, item_pb2
from baton.v1 import session_pb2 as pb

CITIES = ("Kyoto", "Nara", "Osaka", "Kobe", "Uji")


class Worker:
    """A worker's stream, whose frames are read by kind."""

    def __init__(self, served: Served) -> None:
        self._call = served.client.handlers.Connect()

    async def write(self, **arm: Any) -> None:
        """Send a frame."""
        await self._call.write(frame(**arm))

    async def read(self, arm: str) -> Any:
        """Read up to the next frame of a kind."""
        while True:
            message = await soon(self._call.read())
            assert isinstance(message, handler_pb2.ConnectResponse), message
            if message.WhichOneof("frame") == arm:
                return getattr(message, arm)

    async def half_close(self) -> None:
        """Say that nothing more will come."""
        await self._call.done_writing()

    def cancel(self) -> None:
        """Break the stream."""
        self._call.cancel()


HANDLER = {"name": "get_weather", "description": "the weather", "parameters_json": WEATHER}


@sends("""
    ConnectRequest: hello register unregister credit heartbeat drain
    Hello: protocol_version instance_id sdk scopes handlers max_message_bytes held credit metadata
    Sdk: name version language
    HandlerSpec: name description parameters_json
    HeldAttempt: call_id attempt begun finished
    Credit: messages bytes
    Register: handlers
    Unregister: handlers
    WorkerHeartbeat: now held
    Drain: reason deadline
""")
async def test_a_worker_introduces_itself_by_every_field(noting: Serve) -> None:
    """Who it is, what it serves and where, what it still holds, how much it takes, and that it leaves."""
    served = await noting(calls(("get_weather", '{"city":"Kyoto"}')), say("ok"))
    worker = Worker(served)
    held = {"call_id": "call_gone", "attempt": 1, "begun": True, "finished": True}
    await worker.write(
        hello={
            "protocol_version": 1,
            "instance_id": "pod-7",
            "sdk": {"name": "by hand", "version": "1", "language": "none"},
            "scopes": ["svc-7"],
            "handlers": [HANDLER],
            "max_message_bytes": 65_536,
            "held": [held],
            "credit": {"messages": 0, "bytes": 1},
            "metadata": {"zone": "a"},
        }
    )
    welcome = await worker.read("welcome")
    await worker.write(register={"handlers": [{"name": "other", "parameters_json": WEATHER}]})
    registered = await worker.read("registered")
    await worker.write(unregister={"handlers": [{"name": "other"}]})
    await worker.write(heartbeat={"now": {"seconds": 1}, "held": 0})
    bare = {"name": "Helper", "tools": [{"function": {"name": "get_weather"}}]}
    running = asyncio.ensure_future(served.client.run(agent=bare, run_config={"scopes": ["svc-7"]}))
    await worker.write(credit={"messages": 1})
    call = await worker.read("call")
    await worker.write(result={"call_id": call.call_id, "attempt": 1, "output": "18"})
    answer = await running
    await worker.write(drain={"reason": "done", "deadline": {"seconds": 1}})
    await worker.half_close()

    assert [verdict.verdict for verdict in welcome.attempts] == [handler_pb2.HELD_VERDICT_ABANDON]
    assert [verdict.HasField("error") for verdict in (*welcome.handlers, *registered.handlers)] == [False, False]
    assert (call.scope, call.agent) == ("svc-7", "Helper")
    assert served.model.requests[0].tools[0].description == "the weather"
    assert answer.turn.output == "ok"


@sends("""
    ConnectRequest: call_ack result
    CallAck: call_id attempt
    Result: call_id attempt output output_json output_parts failure crash
    Crash: type text
""")
async def test_a_worker_answers_by_every_field(noting: Serve) -> None:
    """Each kind of result settles its call and reaches the model, a crash as nothing but a plain sentence."""
    served = await noting(calls(*[("get_weather", f'{{"city":"{city}"}}') for city in CITIES]), say("ok"))
    worker = Worker(served)
    await worker.write(hello={"handlers": [HANDLER], "credit": {"messages": 100}})
    await worker.read("welcome")
    running = asyncio.ensure_future(served.client.run(agent=helper("get_weather")))
    outcomes: list[dict[str, Any]] = [
        {"output": "o"},
        {"output_json": "1"},
        {"output_parts": {"parts": [{"text": "p"}]}},
        {"failure": "f"},
        {"crash": {"type": "KeyError", "text": "secret"}},
    ]
    for outcome in outcomes:
        call = await worker.read("call")
        await worker.write(call_ack={"call_id": call.call_id, "attempt": 1})
        await worker.write(result={"call_id": call.call_id, "attempt": 1, **outcome})

    answer = await running

    outputs = [item for item in answer.new_items if item.HasField("function_call_output")]
    assert [text_of(item) for item in outputs][:4] == ["o", "1", "p", "f"]
    assert [item.function_call_output.settlement for item in outputs] == [
        *[item_pb2.SETTLEMENT_OUTPUT] * 3,
        item_pb2.SETTLEMENT_FAILURE,
        item_pb2.SETTLEMENT_CRASH,
    ]
    assert "secret" not in text_of(outputs[4])
    assert "secret" in str(outputs[4].function_call_output.error)
    assert "KeyError" in str(outputs[4].function_call_output.error)


@sends("""
    ConnectRequest: nack cancel_ack
    Nack: call_id attempt delay reason not_begun
    CancelAck: call_id attempt outcome
""")
async def test_a_worker_gives_back_by_every_field(noting: Serve) -> None:
    """A call given back comes again after its delay, and one that was stopped ends the cancelled turn."""
    served = await noting(calls(("get_weather", '{"city":"Kyoto"}')), say("never"))
    worker = Worker(served)
    await worker.write(hello={"handlers": [HANDLER], "credit": {"messages": 100}})
    await worker.read("welcome")
    made = await served.client.session(agent=helper("get_weather"))
    turn_id = (await served.client.submit(made.session_id, "hi")).turn_id
    first = await worker.read("call")
    delay = {"nanos": 1_000_000}
    nack = {"call_id": first.call_id, "attempt": 1, "delay": delay, "reason": "busy", "not_begun": True}
    await worker.write(nack=nack)
    second = await worker.read("call")
    await served.client.cancel(made.session_id, turn_id, grace={"seconds": 60})
    stop = await worker.read("cancel")
    outcome = handler_pb2.CANCEL_OUTCOME_STOPPED
    await worker.write(cancel_ack={"call_id": stop.call_id, "attempt": 2, "outcome": outcome})

    events = await served.client.rest(made.session_id)

    assert (first.attempt, second.attempt, second.call_id) == (1, 2, first.call_id)
    assert not second.may_have_run
    assert told(events, "turn_cancelled")


@sends("""
    Hello: resume_token
    ConnectRequest: progress extend
    CallProgress: call_id attempt number text progress_json output_so_far
    Extend: call_id attempt lease
""")
async def test_a_worker_reports_and_stays_by_every_field(noting: Serve) -> None:
    """What it reports reaches who watches; a longer lease is told; the token gives it its place on a new stream."""
    served = await noting(calls(("get_weather", '{"city":"Kyoto"}')), say("ok"))
    worker = Worker(served)
    await worker.write(hello={"handlers": [HANDLER], "credit": {"messages": 100}})
    welcome = await worker.read("welcome")
    made = await served.client.session(agent=helper("get_weather"))
    watching = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER))
    await served.client.submit(made.session_id, "hi")
    call = await worker.read("call")
    about = {"call_id": call.call_id, "attempt": 1}
    await until(watching, "session_requires_action")
    reports = []
    for number, said in enumerate(({"text": "asking"}, {"progress_json": "[1]"}, {"output_so_far": "18"}), 1):
        await worker.write(progress={**about, "number": number, **said})
        reports += [part.delta.progress for part in await until(watching, "delta") if part.HasField("delta")]
    await worker.write(extend={**about, "lease": {"seconds": 600}})
    extended = await worker.read("extend_ack")
    worker.cancel()
    back = Worker(served)
    held = {**about, "begun": True}
    await back.write(hello={"handlers": [HANDLER], "resume_token": welcome.resume_token, "held": [held]})
    again = await back.read("welcome")
    watching.cancel()

    assert [(report.number, report.WhichOneof("progress")) for report in reports] == [
        (1, "text"),
        (2, "progress_json"),
        (3, "output_so_far"),
    ]
    assert extended.until.ToSeconds() > time.time() + 500
    assert again.worker_id == welcome.worker_id
    assert [verdict.verdict for verdict in again.attempts] == [handler_pb2.HELD_VERDICT_CONTINUE]


@sends("""
    HandlerSpec: kind version execution max_concurrency
    HandlerExecution: timeout side_effects idempotency_fields
""")
async def test_a_function_is_executed_as_its_handler_says(noting: Serve) -> None:
    """Its version, deadline and key travel with the call; one at once; given back, it is not run a second time."""
    served = await noting(calls(("get_weather", '{"city":"Kyoto"}'), ("get_weather", '{"city":"Nara"}')), say("ok"))
    worker = Worker(served)
    execution = {
        "timeout": {"seconds": 600},
        "side_effects": handler_pb2.SIDE_EFFECTS_ONCE,
        "idempotency_fields": ["/city"],
    }
    more = {"kind": event_pb2.HANDLER_KIND_FUNCTION, "version": "2", "execution": execution, "max_concurrency": 1}
    await worker.write(hello={"handlers": [{**HANDLER, **more}], "credit": {"messages": 100}})
    await worker.read("welcome")
    made = await served.client.session(agent=helper("get_weather"))
    await served.client.submit(made.session_id, "hi")
    call = await worker.read("call")
    await worker.write(nack={"call_id": call.call_id, "attempt": 1})
    other = await worker.read("call")
    await worker.write(result={"call_id": other.call_id, "attempt": 1, "output": "18"})

    events = await served.client.rest(made.session_id)

    assert (call.version, call.attempt) == ("2", 1)
    assert call.deadline.ToSeconds() > time.time() + 500
    assert call.idempotency_key not in (call.call_id, other.idempotency_key)
    assert [unknown.call_id for unknown in told(events, "effect_unknown")] == [call.call_id]


@sends("""
    ConnectRequest: chunk
    Chunk: chunk_id index data total_bytes sha256 last call_id attempt
""")
async def test_a_worker_sends_slices_by_every_field(noting: Serve) -> None:
    """A result in slices is one result; slices that do not add up are refused by what is wrong with them."""
    served = await noting(calls(("get_weather", '{"city":"Kyoto"}')), say("ok"))
    worker = Worker(served)
    await worker.write(hello={"handlers": [HANDLER], "credit": {"messages": 100}})
    await worker.read("welcome")
    running = asyncio.ensure_future(served.client.run(agent=helper("get_weather")))
    call = await worker.read("call")
    whole = frame(result={"call_id": call.call_id, "attempt": 1, "output": "x" * 1000}).SerializeToString()
    middle = len(whole) // 2
    about: Any = {"total_bytes": len(whole), "call_id": call.call_id, "attempt": 1}
    digest = hashlib.sha256(whole).hexdigest()
    slices = [{"index": 0, "data": whole[:middle]}, {"index": 1, "data": whole[middle:], "last": True}]
    for chunk_id, sha256 in ((1, "0" * 64), (2, digest)):
        for slice_ in slices:
            await worker.write(chunk={"chunk_id": chunk_id, "sha256": sha256, **about, **slice_})

    error = await worker.read("protocol_error")
    answer = await running

    assert error.error.reason == error_pb2.ERROR_REASON_CHUNK_INVALID
    assert text_of(answer.new_items[1]) == "x" * 1000
