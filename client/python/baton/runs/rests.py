"""Puts together what came of a run that was waited for, from the server's answer."""

from __future__ import annotations

from baton.context.approvals import Approvals
from baton.hosting.own import Hosted
from baton.items.run_items import RunItem
from baton.runs.course import Course
from baton.runs.outcome import Making, Outcome
from baton.runs.plan import Plan
from baton.runs.turn_reading import nested_calls
from baton.runs.turn_status import ENDED
from baton.server.cancelling import abandon
from baton.server.connection import Connection
from baton.server.content import complete_item, complete_response, list_items
from baton.v1 import event_pb2, item_pb2, runner_pb2, session_pb2

MAX_SERVED_RESTS = 5
"""Rests with functions unserved that are served here, one after another: then the server is believed."""


async def read_outcome(
    connection: Connection, plan: Plan, hosted: Hosted, course: Course, response: runner_pb2.RunResponse
) -> Outcome:
    """Make the outcome of an answer, with what it left out or omitted."""
    await complete_response(connection, response)
    items = await _whole_items(connection, response)
    making = Making(plan)
    making.begin(course, items)
    shown = frozenset(plan.state.position.shown) if plan.state is not None else frozenset()
    for item in items:
        if item.item_id not in shown:
            making.take(item)
    _shown, outcome = await paused(connection, plan, hosted, course, making, response)
    return outcome


async def paused(
    connection: Connection,
    plan: Plan,
    hosted: Hosted,
    course: Course,
    making: Making,
    response: runner_pb2.RunResponse,
) -> tuple[list[RunItem], Outcome]:
    """Make the outcome of a run whose items are known; say also what can be shown now that it rests.

    Its functions are kept for it until it goes on.
    """
    for item in await nested_calls(connection, response):
        making.names.model_call_ids[item.function_call.call_id] = item.function_call.model_call_id
    shown = making.pause(response.required_actions)
    if response.turn.status == event_pb2.TURN_STATUS_QUEUED:  # it would begin when nobody waits for it any more
        await abandon(connection, None, (response.session_id, response.turn.turn_id))
    elif response.turn.status not in ENDED:
        hosted.paused.add(response.turn.turn_id)
    approvals = plan.state.approvals if plan.state is not None else Approvals()
    responses = [*course.earlier, response]
    return shown, Outcome(plan=plan, hosted=hosted, making=making, responses=responses, approvals=approvals)


async def _whole_items(connection: Connection, response: runner_pb2.RunResponse) -> list[item_pb2.Item]:
    """List all that the turn made, complete."""
    if response.items_left_out:
        request = session_pb2.ListItemsRequest(session_id=response.session_id, turn_id=response.turn.turn_id)
        return [item async for item in list_items(connection, request)]
    for item in response.new_items:
        await complete_item(connection, response.session_id, item)
    return list(response.new_items)
