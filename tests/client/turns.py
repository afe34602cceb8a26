"""Pieces of a turn, as a server would write them: items, answers, events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baton.v1 import error_pb2, event_pb2, item_pb2, runner_pb2


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


def handoff(number: int = 1, to_agent: str = "Billing", **fields: Any) -> item_pb2.Item:
    """Make the call of a handoff from "Assistant"; the model's id of it is `fh_<number>`, ours `hand_<number>`."""
    called = item_pb2.HandoffCall(
        call_id=f"hand_{number}",
        tool_name=f"transfer_to_{to_agent.lower()}",
        to_agent=to_agent,
        model_call_id=f"fh_{number}",
    )
    return item_pb2.Item(item_id=f"item_h{number}", agent="Assistant", handoff_call=called, **fields)


def handed(number: int = 1, to_agent: str = "Billing") -> item_pb2.Item:
    """Make the output of a handoff; `to_agent` empty: it was ignored."""
    gave = item_pb2.HandoffOutput(
        call_id=f"hand_{number}", from_agent="Assistant", to_agent=to_agent, output=to_agent or "ignored"
    )
    return item_pb2.Item(item_id=f"item_ho{number}", agent="Assistant", handoff_output=gave)


def undecided(name: str = "get_weather", number: int = 1, **fields: Any) -> event_pb2.RequiredAction:
    """Make a call that waits for a decision."""
    fields = {"session_id": "sess_1", "turn_id": "turn_1", "agent": "Assistant", "arguments_json": "{}", **fields}
    return event_pb2.RequiredAction(
        call_id=f"call_{number}",
        name=name,
        state=event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION,
        approval=event_pb2.ApprovalBinding(arguments_digest=f"args_{number}", definition_digest="def"),
        **fields,
    )


def waiting(*items: item_pb2.Item, actions: Sequence[event_pb2.RequiredAction], sequence: int = 7) -> Any:
    """Make the answer of a run that waits for decisions."""
    turn = event_pb2.Turn(
        turn_id="turn_1",
        session_id="sess_1",
        status=event_pb2.TURN_STATUS_WAITING,
        agent="Assistant",
        last_agent="Assistant",
        rounds=1,
        usage=item_pb2.Usage(requests=1, input_tokens=10),
        last_sequence=sequence,
    )
    return runner_pb2.RunResponse(session_id="sess_1", turn=turn, new_items=items, required_actions=actions)


def failed(reason: error_pb2.ErrorReason.ValueType, *items: item_pb2.Item, rounds: int = 1, **metadata: str) -> Any:
    """Make the answer of a run that failed."""
    made = answer(*items)
    made.turn.ClearField("output")
    made.turn.status = event_pb2.TURN_STATUS_FAILED
    made.turn.rounds = rounds
    made.turn.error.CopyFrom(error_pb2.Error(reason=reason, message="It failed.", metadata=metadata))
    made.round_usage.extend(
        runner_pb2.RoundUsage(round=number, response_id=f"resp_{number}", usage=item_pb2.Usage(requests=1))
        for number in range(1, rounds + 1)
    )
    return made


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
