"""Every field of the rpcs beside Connect is sent once and seen to work; `test_every_field` counts them too."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.api.calling import WEATHER, helper, kinds, soon, text_of
from tests.api.conftest import Serve
from tests.api.sending import sends
from tests.support.scripted_model import calls, say
from tests.support.scripted_watcher import OK, Watcher

from baton.v1 import event_pb2, handler_pb2

KYOTO = ("get_weather", '{"city":"Kyoto"}')
SERVED = {"name": "get_weather", "parameters_json": WEATHER}
GUARD = {"name": "pii", "kind": event_pb2.HANDLER_KIND_INPUT_GUARDRAIL}


@sends("""
    WatchCallsRequest: hello end_after end_when_idle
    SettleCallRequest: worker_id result hook_answers nack
    ExtendCallRequest: extend progress
""")
async def test_a_worker_lives_without_a_stream_by_every_field(noting: Serve) -> None:
    """It watches, answers a hook, renews its lease and reports, gives a call back, and settles it."""
    served = await noting(calls(KYOTO), say("ok"))
    guarded = helper("get_weather", input_guardrails=[{"name": "no PII", "hook": {"name": "pii"}}])
    running = asyncio.ensure_future(served.client.run(agent=guarded, run_config={"unserved_grace": {"seconds": 60}}))
    first = await Watcher.watching(served.client, handlers=[GUARD], ends={"end_after": 1})
    (hook,) = (await first.expect("hook_batch")).hooks
    assert await first.ended() == OK
    await first.answer(hook_id=hook.hook_id, attempt=hook.attempt, answer_json='{"tripped":false}')
    ends = {"end_after": 2, "end_when_idle": {"seconds": 5}}
    second = await Watcher.watching(served.client, handlers=[SERVED], ends=ends)
    call = await second.expect("call")
    about: Any = {"call_id": call.call_id, "attempt": call.attempt}
    request = handler_pb2.ExtendCallRequest(
        extend={**about, "lease": {"seconds": 60}}, progress={**about, "number": 1, "text": "half"}
    )
    answer = await soon(served.client.handlers.ExtendCall(request))
    await second.give_back(call)
    again = await second.expect("call")
    assert await second.ended() == OK
    await second.finish(again, output="18 °C")

    done = await running

    assert answer.HasField("until")
    assert (call.attempt, again.attempt) == (1, 2)
    assert text_of(done.new_items[-2]) == "18 °C"
    assert "hook_settled" in kinds(await served.client.events(done.session_id))


@sends("""
    ListWorkersRequest: page_size page_token name scope
    ExplainCallRequest: call_id
""")
async def test_who_looks_is_told_by_every_field(noting: Serve) -> None:
    """Which workers there are, page by page, and why a call does not run."""
    served = await noting(calls(KYOTO), say("never"))
    for _ in range(2):
        await Watcher.watching(served.client, handlers=[SERVED], scopes=["svc-8"])
    action = (await served.client.run(agent=helper("get_weather"))).required_actions[0]
    asked: Any = {"page_size": 1, "name": "get_weather", "scope": "svc-8"}

    found = []
    token = ""
    for _ in range(2):
        request = handler_pb2.ListWorkersRequest(page_token=token, **asked)
        page = await soon(served.client.handlers.ListWorkers(request))
        token = page.next_page_token
        found += [worker.worker_id for worker in page.workers]
    told = await soon(served.client.handlers.ExplainCall(handler_pb2.ExplainCallRequest(call_id=action.call_id)))

    assert (len(set(found)), token) == (2, "")
    assert [cause.kind for cause in told.causes] == [handler_pb2.CAUSE_KIND_OTHER_SCOPE]
