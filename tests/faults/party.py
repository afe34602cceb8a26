"""The outside parties: one finds out about calls of unknown effect, the other says which calls may run."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque

from baton.errors import AgentsException
from baton.server.client import Client
from baton.v1 import event_pb2, session_pb2
from tests.faults.journal import PARTY, Claims, Fact, Journal

log = logging.getLogger("faults.party")

LOOK_EVERY_S = 0.15

LATE_ONES = 20
"""Calls that are remembered, to decide about them once more."""

UNDECIDED = event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION
UNKNOWN = event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN


class Party:
    """Looks for such calls again and again.

    Whether an attempt has begun is told by its claim: where the party gets it, the attempt never begins, and half of
    those calls are delivered again. All others are settled by a result from outside.
    """

    def __init__(self, address: str, claims: Claims, journal: Journal, seed: int) -> None:
        self._client = Client(address)
        self._claims, self._journal = claims, journal
        self._chance = random.Random(f"{seed} party")

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            try:
                async for action in self._client.list_required_actions(states=[UNKNOWN]):
                    await self._decide(action)
            except AgentsException as error:
                log.info("the party goes on: %s", error)
            await asyncio.sleep(self._chance.uniform(0.0, 2 * LOOK_EVERY_S))

    async def _decide(self, action: event_pb2.RequiredAction) -> None:
        began = self._claims.take(action.call_id, action.attempt, PARTY) != PARTY
        again = not began and self._chance.random() < 0.5
        if again:
            redelivery = session_pb2.Redelivery(turn_id=action.turn_id, call_id=action.call_id, decided_by="the party")
            given = session_pb2.Input(redelivery=redelivery)
        else:
            words = f"decided {action.call_id}"
            result = session_pb2.ToolResult(turn_id=action.turn_id, call_id=action.call_id, output=words)
            given = session_pb2.Input(tool_result=result)
        try:
            answer = await self._client.submit(action.session_id, given)
        except AgentsException as error:
            log.info("%s was not taken (%s): %s", action.call_id, "again" if again else "settled", error)
            return
        status = session_pb2.InputStatus.Name(answer.outcomes[0].status).removeprefix("INPUT_STATUS_").lower()
        outcome = f"{'redelivered' if again else 'settled'}: {status}"
        self._journal.write(
            Fact.DECIDED, call_id=action.call_id, attempt=action.attempt, name=action.name, outcome=outcome
        )


class Approver:
    """Looks for calls that must be allowed and decides by chance: often twice, and at times once more, late.

    A decision that comes after the first one must change nothing, whatever it says.
    """

    def __init__(self, address: str, seed: int) -> None:
        self._client = Client(address)
        self._chance = random.Random(f"{seed} approver")
        self._decided: deque[event_pb2.RequiredAction] = deque(maxlen=LATE_ONES)

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            try:
                async for action in self._client.list_required_actions(states=[UNDECIDED]):
                    await asyncio.gather(*(self._decide(action) for _ in range(self._chance.choice((1, 1, 2)))))
                    self._decided.append(action)
            except AgentsException as error:
                log.info("the approver goes on: %s", error)
            if self._decided and self._chance.random() < 0.3:
                await self._decide(self._chance.choice(self._decided))
            await asyncio.sleep(self._chance.uniform(0.0, 2 * LOOK_EVERY_S))

    async def _decide(self, action: event_pb2.RequiredAction) -> None:
        rejects = self._chance.random() < 0.25
        decision = event_pb2.Decision(
            turn_id=action.turn_id,
            call_id=action.call_id,
            verdict=event_pb2.VERDICT_REJECT if rejects else event_pb2.VERDICT_APPROVE,
            always=self._chance.random() < 0.2,
            always_in_session=self._chance.random() < 0.02,
            arguments_digest=action.approval.arguments_digest,
            decided_by="the approver",
        )
        try:
            await self._client.submit(action.session_id, session_pb2.Input(decision=decision))
        except AgentsException as error:
            log.info("the decision about %s was not taken: %s", action.call_id, error)
