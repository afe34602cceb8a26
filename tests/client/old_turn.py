"""A turn that is there: what a scripted server says of it, while the test has it go on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.client.scripted import ScriptedServer
from tests.client.turns import Log

from baton.v1 import event_pb2, item_pb2, run_config_pb2, session_pb2


class OldTurn:
    """Answers what is asked about a turn. `watch`: yields what a watcher sees; the turn is then as the test made it."""

    def __init__(self, server: ScriptedServer, turn_id: str = "turn_1") -> None:
        self.log = Log()
        self.turn = event_pb2.Turn(
            turn_id=turn_id,
            session_id="sess_1",
            status=event_pb2.TURN_STATUS_WAITING,
            agent="Assistant",
            last_agent="Assistant",
            rounds=1,
            last_sequence=7,
        )
        self.actions: list[event_pb2.RequiredAction] = []
        self.items: list[item_pb2.Item] = []
        self.events: list[event_pb2.Event] = []
        self.config = run_config_pb2.RunConfig(history=run_config_pb2.History(caller=run_config_pb2.CallerHistory()))
        self.submitted: list[session_pb2.SubmitInputRequest] = []
        self.watched: list[session_pb2.WatchRequest] = []
        self.outcome = session_pb2.InputOutcome(status=session_pb2.INPUT_STATUS_SETTLED, turn_id=turn_id)
        self.goes_on: Callable[[], AsyncIterator[event_pb2.StreamPart]] = self.nothing
        server.sessions.answers |= {
            "GetTurn": lambda _request: self._get(),
            "ListItems": lambda _request: session_pb2.ListItemsResponse(items=self.items),
            "ListEvents": lambda _request: session_pb2.ListEventsResponse(events=self.events),
            "SubmitInput": self._submit,
            "Watch": self._watch,
        }

    async def nothing(self) -> AsyncIterator[event_pb2.StreamPart]:
        """Go on by nothing."""
        for part in ():
            yield part

    def wait_for(self, *actions: event_pb2.RequiredAction) -> None:
        """Wait for these decisions."""
        self.actions = list(actions)

    def end(self, text: str) -> None:
        """End with a final output."""
        self.actions = []
        self.turn.status = event_pb2.TURN_STATUS_COMPLETED
        self.turn.output = text
        self.turn.rounds = 2

    @property
    def decisions(self) -> list[tuple[str, bool, str]]:
        """What was decided: call, verdict, message."""
        decided = [one.decision for request in self.submitted for one in request.inputs if one.HasField("decision")]
        return [(one.call_id, one.verdict == event_pb2.VERDICT_APPROVE, one.message) for one in decided]

    def _get(self) -> session_pb2.GetTurnResponse:
        return session_pb2.GetTurnResponse(turn=self.turn, required_actions=self.actions, run_config=self.config)

    def _submit(self, request: session_pb2.SubmitInputRequest) -> session_pb2.SubmitInputResponse:
        self.submitted.append(request)
        return session_pb2.SubmitInputResponse(sequence=7, outcomes=[self.outcome] * len(request.inputs))

    async def _watch(self, request: session_pb2.WatchRequest) -> Any:
        self.watched.append(request)
        async for part in self.goes_on():
            yield session_pb2.WatchResponse(parts=[part])
        beat = event_pb2.Heartbeat(last_sequence=20)
        yield session_pb2.WatchResponse(parts=[event_pb2.StreamPart(heartbeat=beat)])
