"""Pieces of a turn, as a server would write them: items, answers, events."""

from __future__ import annotations

from typing import Any

from baton.v1 import event_pb2, item_pb2, runner_pb2


def message(text: str, number: int = 1, **fields: Any) -> item_pb2.Item:
    """Make a message of the model."""
    return item_pb2.Item(
        item_id=f"item_{number}",
        agent="Assistant",
        status=fields.pop("status", item_pb2.ITEM_STATUS_COMPLETED),
        model_item_id=f"msg_{number}",
        message=item_pb2.Message(role=item_pb2.MESSAGE_ROLE_ASSISTANT, content=[item_pb2.ContentPart(text=text)]),
        **fields,
    )


def user(text: str, number: int = 0) -> item_pb2.Item:
    """Make a user's message."""
    said = item_pb2.Message(role=item_pb2.MESSAGE_ROLE_USER, content=[item_pb2.ContentPart(text=text)])
    return item_pb2.Item(item_id=f"item_{number}", status=item_pb2.ITEM_STATUS_COMPLETED, message=said)


def call(name: str, number: int = 1, arguments: str = "{}") -> item_pb2.Item:
    """Make a call; the model's id of it is `fc_<number>`, ours `call_<number>`."""
    return item_pb2.Item(
        item_id=f"item_c{number}",
        agent="Assistant",
        status=item_pb2.ITEM_STATUS_IN_PROGRESS,
        function_call=item_pb2.FunctionCall(
            call_id=f"call_{number}", name=name, arguments_json=arguments, model_call_id=f"fc_{number}"
        ),
    )


def output(text: str, number: int = 1) -> item_pb2.Item:
    """Make the output of a call."""
    return item_pb2.Item(
        item_id=f"item_o{number}",
        agent="Assistant",
        status=item_pb2.ITEM_STATUS_COMPLETED,
        function_call_output=item_pb2.FunctionCallOutput(
            call_id=f"call_{number}", output=[item_pb2.ContentPart(text=text)]
        ),
    )


def answer(*items: item_pb2.Item, text: str = "Done.", **fields: Any) -> runner_pb2.RunResponse:
    """Make the answer of a run that has ended well."""
    turn = event_pb2.Turn(
        turn_id="turn_1",
        session_id="sess_1",
        status=event_pb2.TURN_STATUS_COMPLETED,
        agent="Assistant",
        last_agent="Assistant",
        output=text,
        usage=item_pb2.Usage(requests=2, input_tokens=20, output_tokens=4, total_tokens=24),
        last_response_id="resp_2",
    )
    fields = {"next_items_json": "[]", **fields}
    return runner_pb2.RunResponse(session_id="sess_1", turn=turn, new_items=items, **fields)


def rest(*names: str) -> runner_pb2.RunResponse:
    """Make the answer of a run that waits for functions that nobody serves."""
    turn = event_pb2.Turn(turn_id="turn_1", session_id="sess_1", status=event_pb2.TURN_STATUS_WAITING)
    actions = [
        event_pb2.RequiredAction(
            session_id="sess_1",
            turn_id="turn_1",
            call_id=f"call_{number}",
            name=name,
            state=event_pb2.REQUIRED_ACTION_STATE_UNSERVED,
        )
        for number, name in enumerate(names, 1)
    ]
    return runner_pb2.RunResponse(session_id="sess_1", turn=turn, required_actions=actions)


class Log:
    """Writes the messages of RunStreamed and Watch, with sequences that count up."""

    def __init__(self) -> None:
        self.sequence = 0

    def event(self, **arm: Any) -> event_pb2.StreamPart:
        """Make the next event."""
        self.sequence += 1
        made = event_pb2.Event(session_id="sess_1", sequence=self.sequence, turn_id="turn_1", round=1, **arm)
        return event_pb2.StreamPart(event=made)

    def item(self, item: item_pb2.Item) -> event_pb2.StreamPart:
        """Make the event that records an item."""
        if item.WhichOneof("item") in ("message", "reasoning", "hosted") and item.agent:
            return self.event(item_done=event_pb2.ItemDone(item=item))
        return self.event(item_added=event_pb2.ItemAdded(item=item))

    def agent(self) -> event_pb2.StreamPart:
        """Make the event that an agent goes on."""
        return self.event(agent_changed=event_pb2.AgentChanged(agent="Assistant"))


def delta(text: str, offset: int, attempt: int = 1, item_id: str = "item_1") -> event_pb2.StreamPart:
    """Make a fragment of a message's text."""
    made = event_pb2.Delta(
        turn_id="turn_1", round=1, model_attempt=attempt, item_id=item_id, offset=offset, output_text=text
    )
    return event_pb2.StreamPart(delta=made)


def parts(*made: event_pb2.StreamPart) -> runner_pb2.RunStreamedResponse:
    """Put parts into one message of RunStreamed."""
    return runner_pb2.RunStreamedResponse(parts=made)


def started(created: bool = True) -> runner_pb2.RunStreamedResponse:
    """Make the first message of RunStreamed."""
    frame = runner_pb2.RunStarted(session_id="sess_1", turn_id="turn_1", created=created)
    return runner_pb2.RunStreamedResponse(started=frame)


def result(response: runner_pb2.RunResponse) -> runner_pb2.RunStreamedResponse:
    """Make the last message of RunStreamed."""
    return runner_pb2.RunStreamedResponse(result=response)
