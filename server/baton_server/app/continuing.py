"""Going on from an ended turn: which turns can be gone on from, and what the new one takes from the old one."""

from __future__ import annotations

from dataclasses import replace

from baton_server.app.runtime import Runtime
from baton_server.app.turns.accept import TurnRequest
from baton_server.app.turns.drive import Driver
from baton_server.app.watch import turn_not_found
from baton_server.core.errors import Reason, Refused, refuse
from baton_server.core.events import CancelMode, TurnStatus
from baton_server.core.inputs import NewItem
from baton_server.core.run_config import RunConfig
from baton_server.core.submissions import ContinueOf
from baton_server.ports.store import SessionRow, TurnRow

CONTINUABLE = frozenset(
    {
        Reason.MAX_TURNS_EXCEEDED,
        Reason.MODEL_TIMEOUT,
        Reason.MODEL_NOT_FOUND,
        Reason.MODEL_AUTHENTICATION,
        Reason.MODEL_RATE_LIMITED,
        Reason.MODEL_QUOTA_EXCEEDED,
        Reason.MODEL_UNAVAILABLE,
        Reason.MODEL_REQUEST_INVALID,
        Reason.CONTEXT_LENGTH_EXCEEDED,
        Reason.CONVERSATION_LOCKED,
        Reason.MODEL_RESPONSE_FAILED,
    }
)
"""Reasons of a failed turn whose next request may still be made (PROTOCOL.md §2)."""


class Continuing:
    """Finds out how turns are gone on with."""

    def __init__(self, runtime: Runtime, driver: Driver) -> None:
        self._runtime, self._driver = runtime, driver

    async def turn(
        self, session: SessionRow, request_id: str, asked: ContinueOf, items: tuple[NewItem, ...], *, begins: bool
    ) -> TurnRequest:
        """Make the request of a turn that goes on from an ended one of the session. `items`: its own input.

        Raises Refused(TURN_NOT_FOUND, TURN_NOT_CONTINUABLE).
        """
        row = await self._runtime.store.turns.get(asked.turn_id)
        if row is None or row.session_id != session.session_id:
            raise turn_not_found(asked.turn_id)
        await self._check(row)
        old = self._runtime.codec.read_turn(row.snapshot)
        carried = await self._driver.carried(row)
        return TurnRequest(
            session_id=session.session_id,
            request_id=request_id,
            agent=await self._runtime.agent(row.agent_digest),
            config=_limited(carried.config, asked, "" if old.last_agent == old.agent else old.last_agent),
            items=items,
            begins=begins,
            carried=carried.items,
            continues=row.turn_id,
        )

    async def _check(self, row: TurnRow) -> None:
        """Refuse to go on with a turn that runs, that has its answer, or whose error would come again."""
        match row.status:
            case TurnStatus.FAILED:
                failure = self._runtime.codec.read_turn(row.snapshot).failure
                reason = Reason.INTERNAL if failure is None else failure.reason
                if reason not in CONTINUABLE:
                    raise _not_continuable(row, f"it failed with {reason}")
            case TurnStatus.CANCELLED:
                state = await self._driver.loading.read(row)
                if state.cancel is not CancelMode.AFTER_ROUND:
                    raise _not_continuable(row, "it was cancelled in the middle of a round")
            case TurnStatus.COMPLETED:
                raise _not_continuable(row, "it has its answer; say something new instead")
            case _:
                raise _not_continuable(row, "it has not ended; wait for it, or cancel it after its round")


def _limited(config: RunConfig, asked: ContinueOf, start_agent: str) -> RunConfig:
    """Put in the new limit of rounds, if there is one, and who begins; empty: who began before."""
    config = replace(config, start_agent=start_agent or config.start_agent)
    if not asked.unlimited_turns and asked.max_turns is None:
        return config
    return replace(config, max_turns=asked.max_turns, unlimited_turns=asked.unlimited_turns)


def _not_continuable(row: TurnRow, why: str) -> Refused:
    return refuse(
        Reason.TURN_NOT_CONTINUABLE,
        f"The turn {row.turn_id} cannot be gone on with: {why}.",
        turn_id=row.turn_id,
        status=row.status,
    )
