"""Runs: accept a turn for a caller, tell when it rests, and say how it stands then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from baton_server.app.busy import busy
from baton_server.app.continuing import Continuing
from baton_server.app.keeping import keeper_after
from baton_server.app.outcomes import IfBusy
from baton_server.app.publish import publish
from baton_server.app.requests import Request, once
from baton_server.app.runtime import Runtime
from baton_server.app.sessions import AgentSource, Defaults, Sessions
from baton_server.app.turns.accept import Acceptance, TurnRequest
from baton_server.app.turns.drive import Driver
from baton_server.app.turns.recording import Recording
from baton_server.app.turns.rest import Rest
from baton_server.app.watch import gone, turn_not_found
from baton_server.core.agents import Agent
from baton_server.core.errors import Failure, FieldViolation, Reason, Refused, refuse
from baton_server.core.inputs import NewItem
from baton_server.core.run_config import History, HistoryMode, RunConfig
from baton_server.core.state import TurnState
from baton_server.core.submissions import ContinueOf
from baton_server.ports.store import Batch, CallRow, EventRow, SessionRow, SessionWrite, TurnRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run asks for. `session_id` and `session_key` empty: a session is made for it.

    `continues`: a turn of the session to go on from, with its agent and configuration; None: none.
    """

    items: tuple[NewItem, ...] = ()
    continues: ContinueOf | None = None
    session_id: str = ""
    session_key: str = ""
    agent: AgentSource = field(default_factory=AgentSource)
    config: RunConfig = field(default_factory=RunConfig)
    if_busy: IfBusy = IfBusy.QUEUE
    expires_after_s: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Which turn a run is: `baton.v1.RunStarted`. `created` False: the request was known.

    `first_sequence`: of the turn's first event; 0: look it up. `events`: of the commit that accepted it, if it was now.
    """

    session_id: str
    turn_id: str
    created: bool
    first_sequence: int = 0
    events: Sequence[EventRow] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rested:
    """How a turn stands at rest: its row, its state folded from the log, and its open calls."""

    row: TurnRow
    state: TurnState
    calls: Sequence[CallRow]


class Runs:
    """The use cases of RunnerService."""

    def __init__(
        self, runtime: Runtime, acceptance: Acceptance, sessions: Sessions, driver: Driver, rest: Rest
    ) -> None:
        self._runtime, self._acceptance, self._sessions = runtime, acceptance, sessions
        self._driver, self._rest = driver, rest
        self._continuing = Continuing(runtime, driver)

    async def start(self, request: Request, run: Run) -> Started:
        """Accept a run, or find the turn that the same request made before.

        Raises Refused(SESSION_NOT_FOUND, SESSION_BUSY, AWAITING_DECISION, AGENT_MISSING, AGENT_NOT_FOUND,
        FUNCTION_UNDECLARED, HISTORY_MIXED, TURN_NOT_FOUND, TURN_NOT_CONTINUABLE, REQUEST_ID_REUSED).
        """

        async def attempt() -> Started:
            return await self._start(request, run)

        async def again(answer: Mapping[str, Any]) -> Started:
            self._driver.look(answer["turn_id"])  # its commit may have been reported as failed, and be on disk
            return Started(session_id=answer["session_id"], turn_id=answer["turn_id"], created=False)

        return await once(self._runtime, request, attempt, again)

    async def wait(self, started: Started) -> None:
        """Wait until the turn rests. Raises Refused(SESSION_NOT_FOUND) when it is deleted meanwhile."""
        subscription = self._runtime.bus.subscribe(started.session_id)
        try:
            while True:
                subscription.take()
                left = await self._rest.turn_left(started.session_id, started.turn_id)
                if left is None or subscription.closed:
                    raise gone(started.session_id)
                if left == 0.0:
                    return
                rests_at = self._runtime.clock.monotonic() + left
                while not subscription.closed:
                    left = rests_at - self._runtime.clock.monotonic()
                    woken = await subscription.wait(None if left == math.inf else max(0.0, left))
                    nudged = subscription.nudged
                    if not woken or nudged or any(part.edge for part in subscription.take()):
                        break
        finally:
            subscription.close()

    async def rested(self, started: Started) -> Rested:
        """Read how a turn stands. Raises Refused(SESSION_NOT_FOUND)."""
        row = await self._runtime.store.turns.get(started.turn_id)
        if row is None:
            raise gone(started.session_id)
        state = await self._driver.loading.read(row)
        calls = () if state.over else await self._runtime.store.calls.open_in(started.session_id)
        return Rested(row=row, state=state, calls=[call for call in calls if call.turn_id == row.turn_id])

    async def turn(self, session_id: str, turn_id: str) -> TurnRow:
        """Read a turn of a session. Raises Refused(TURN_NOT_FOUND, SESSION_NOT_FOUND)."""
        await self._sessions.find(session_id)
        row = await self._runtime.store.turns.get(turn_id)
        if row is None or row.session_id != session_id:
            raise turn_not_found(turn_id)
        return row

    # -- inside ----------------------------------------------------------------------------------

    async def _start(self, request: Request, run: Run) -> Started:
        session = await self._session(run)
        recording = Recording(self._runtime.codec)
        documents: dict[str, bytes] = {}
        new = session is None
        if session is None and run.continues is not None:
            raise turn_not_found(run.continues.turn_id)
        if session is None:
            session, documents = await self._sessions.new_row(run.session_key, self._defaults(run))
            recording.add(self._sessions.created(session))
        active = session.active_turn_id
        if active and run.if_busy is IfBusy.REJECT:
            raise await busy(self._runtime, session.session_id, active)
        asked = await self._asked(request, run, session)
        if not run.items and run.continues is None:
            await self._check_history(session, asked.config)
        keeper = keeper_after(session, asked.config.mode)
        turn = self._acceptance.turn(asked, recording)
        write = SessionWrite(
            expected_version=session.version,
            bump=True,
            status=recording.status,
            active_turn_id=None if active else turn.active_turn_id,
            history_keeper=keeper,
        )
        if new:
            status = recording.status or session.status
            made = replace(session, active_turn_id=turn.active_turn_id, status=status, history_keeper=keeper or "")
            write = SessionWrite(new=made)
        done = await self._runtime.store.commit(
            Batch(
                session_id=session.session_id,
                request=request.row(session_id=session.session_id, turn_id=turn.row.turn_id),
                session=write,
                turn=turn.write,
                events=tuple(recording.events),
                documents={**documents, **turn.documents},
                contents=recording.contents,
                inbox_added=turn.inbox,
            )
        )
        publish(self._runtime, session.session_id, recording, done, pinned=turn.state.pinned)
        if not active:
            self._driver.adopt(turn.state, turn.row, done, new_session=new)
        first = next(event.sequence for event in done.events if event.turn_id == turn.row.turn_id)
        return Started(
            session_id=session.session_id,
            turn_id=turn.row.turn_id,
            created=True,
            first_sequence=first,
            events=done.events,
        )

    async def _asked(self, request: Request, run: Run, session: SessionRow) -> TurnRequest:
        begins = not session.active_turn_id
        if run.continues is not None:
            return await self._continuing.turn(session, request.request_id, run.continues, run.items, begins=begins)
        return TurnRequest(
            session_id=session.session_id,
            request_id=request.request_id,
            agent=await self._agent(run, session),
            config=await self._config(run, session),
            items=run.items,
            begins=begins,
        )

    async def _session(self, run: Run) -> SessionRow | None:
        if run.session_id:
            return await self._sessions.find(run.session_id)
        if run.session_key:
            return await self._runtime.store.sessions.by_key(run.session_key)
        return None

    async def _check_history(self, session: SessionRow, config: RunConfig) -> None:
        """Refuse a run without input where nothing else is known that the model could be sent."""
        history = config.history or History()
        match config.mode:
            case HistoryMode.CONVERSATION | HistoryMode.STORED:
                return
            case HistoryMode.RESPONSE if history.id:
                return
            case HistoryMode.SESSION if history.limit != 0:
                # The turn that it waits behind says something, at least.
                if session.active_turn_id or await self._runtime.store.items.newest_in_history(session.session_id, 1):
                    return
            case _:
                pass
        problem = "has no items, and there is no history to go on from; send a message"
        failure = Failure(reason=Reason.INVALID_REQUEST, message=f"items_json {problem}.", metadata={"fields": "1"})
        raise Refused(failure, (FieldViolation(path="items_json", problem=problem),))

    def _defaults(self, run: Run) -> Defaults:
        """Say what a session is like that is made for a run: one with a key lives on, others a day."""
        life = run.expires_after_s
        if life is None and not run.session_key:
            life = self._runtime.limits.run_session_life_s
        return Defaults(metadata=run.metadata, expires_after_s=life)

    async def _agent(self, run: Run, session: SessionRow) -> Agent:
        found = await self._sessions.agent_of(run.agent)
        if found is not None:
            return found[0]
        if session.agent_digest:
            return await self._runtime.agent(session.agent_digest)
        raise refuse(
            Reason.AGENT_MISSING,
            "The run names no agent, and its session has no default one. Set agent or agent_ref.",
            session_id=session.session_id,
        )

    async def _config(self, run: Run, session: SessionRow) -> RunConfig:
        defaults = await self._runtime.config(session.config_digest)
        return RunConfig(scopes=session.scopes).under(defaults).under(run.config)
