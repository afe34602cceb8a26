"""A conversation with an agent in one session: what is said, answered and followed. For `baton chat`.

All of it runs in one event loop; who asks the person for lines is elsewhere, in another thread.
"""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any

from baton import AgentsException, Client, FunctionTool, NotFoundError
from baton.runs.rests import MAX_SERVED_RESTS
from baton.v1 import agent_pb2, event_pb2, item_pb2, session_pb2
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.naming import SESSION_PREFIX, find_session
from baton_server.cli.show.open_calls import FOR_PEOPLE
from baton_server.cli.talk.choosing import Chosen, Given, choose_agent, request_for
from baton_server.cli.talk.connection_notes import ConnectionNotes
from baton_server.cli.talk.following import View, follow_run, follow_session
from baton_server.cli.talk.hosting import Hosting, hosted
from baton_server.cli.talk.outcomes import code_of, explain_end, output_of
from baton_server.cli.talk.screen import Screen

PLAIN = agent_pb2.Agent(name="Assistant")
"""Who answers where nobody is named."""

LAST_ITEMS = 6
"""Items of a resumed session that are shown."""

CLOSE_S = 2.0
"""How long tidying up may hold up the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line says. `session` None: a new one."""

    agent: Given
    session: str | None
    model: str
    tools: Sequence[FunctionTool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rested:
    """How a turn came to rest, or several after one another. `outputs`: their final ones."""

    code: ExitCode
    outputs: tuple[str, ...] = ()


class Conversation:
    """One session, as a person talks in it. `open` comes first, `close` last.

    `actions`: what waits for the person, since nobody serves it or nobody else allows it, as of the last rest.
    `resumed`: the session was there before.
    """

    def __init__(self, wanted: Wanted, screen: Screen) -> None:
        self._wanted, self._screen = wanted, screen
        self._held = AsyncExitStack()
        self._client = Client()
        self._chosen = Chosen()
        self._here = Hosting()
        self._position = 0
        self._said = self._left = False
        self.notes = ConnectionNotes(screen)
        self.session = session_pb2.Session()
        self.resumed = False
        self.actions: list[event_pb2.RequiredAction] = []

    @property
    def agent(self) -> str:
        """Name of who answers."""
        return (self._chosen.agent or PLAIN).name

    @property
    def client(self) -> Client:
        """The client, for the conversation's own event loop."""
        return self._client

    async def open(self, client: Client) -> None:
        """Find the session or make it, and attach what is hosted here. Raises NotFoundError, HandlerRefusedError."""
        self._client = client
        self.notes.watch(client)
        found = await self._find()
        chosen = await choose_agent(client, self._wanted.agent, found)
        if chosen.agent is None:
            chosen = Chosen(agent=PLAIN)
        if found is None:
            key = self._wanted.session or ""
            found = await client.create_session(key=key, get_or_create=bool(key), agent=chosen.source)
            chosen = Chosen(agent=chosen.agent, own=True)
        else:
            self.resumed = True
        self.session = found
        self._position = found.last_sequence
        self._here = await self._held.enter_async_context(hosted(self._wanted.tools, found))
        self._chosen = chosen.with_functions(self._wanted.tools)

    async def close(self) -> None:
        """End what `open` began; a session that was made for nothing goes as well."""
        await self._held.aclose()
        if self.session.session_id and not self.kept:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._client.delete_session(self.session.session_id)
            except (AgentsException, TimeoutError):
                pass  # an empty session harms nobody

    @property
    def kept(self) -> bool:
        """There is a session to go on with."""
        return self.resumed or self._said

    async def last_items(self) -> list[item_pb2.Item]:
        """List the newest items of the history, oldest first, from a message on."""
        found: list[item_pb2.Item] = []
        async with aclosing(self._client.list_newest_items(self.session.session_id, history_only=True)) as items:
            async for item in items:
                found.append(item)
                if len(found) == LAST_ITEMS:
                    break
        return list(dropwhile(lambda item: not item.HasField("message"), reversed(found)))

    # -- turns -----------------------------------------------------------------------------------

    async def say(self, text: str, stop: asyncio.Event) -> Rested:
        """Say something, and follow the turn that answers. `stop` cancels it."""
        self._said = True
        request = request_for(self._chosen, self.session, text)
        if self._wanted.model:
            request.run_config.model = self._wanted.model
        request.run_config.scopes.extend(self._here.scopes)
        view = View(screen=self._screen, position=self._position)
        self._left = False
        try:
            response = await follow_run(self._client, request, view, stop, self._here)
        finally:
            self._position = view.position
        self.actions = list(response.required_actions)
        return await self._rested([response.turn])

    async def follow(self, stop: asyncio.Event) -> Rested:
        """Follow what goes on in the session, whoever began it, until it rests. `stop` cancels the turn."""
        outputs: tuple[str, ...] = ()
        for _ in range(MAX_SERVED_RESTS):
            rested = await self._look(session_pb2.FOLLOW_REST, stop)
            outputs += rested.outputs
            if not self._here.serves_all(self.actions):
                break
            await self._here.attached()  # it rests only because they were not served for a moment
        return Rested(code=rested.code, outputs=outputs)

    def leave(self) -> None:
        """Let the turn that is being cancelled go on without waiting for it, until something else is said."""
        self._left = True

    async def catch_up(self, stop: asyncio.Event) -> Rested:
        """Show what has happened; follow it only if it goes on without the person. `stop` cancels the turn."""
        seen = await self._look(session_pb2.FOLLOW_NONE, stop)
        if self.actions or self._left or self.session.status == session_pb2.SESSION_STATUS_IDLE:
            return seen
        more = await self.follow(stop)
        return Rested(code=more.code, outputs=seen.outputs + more.outputs)

    async def wait_for_news(self) -> None:
        """Wait until something happens in a turn of the session that was not shown yet."""
        session_id = self.session.session_id
        parts = self._client.watch(
            session_id,
            after_sequence=self._position,
            follow_until=session_pb2.FOLLOW_FOREVER,
            deltas=event_pb2.DELTA_LEVEL_NONE,
        )
        async with aclosing(parts):
            async for part in parts:
                if part.event.turn_id:
                    return
                self._position = max(self._position, part.event.sequence)

    # -- what waits ------------------------------------------------------------------------------

    async def answer(self, action: event_pb2.RequiredAction, result: Any) -> session_pb2.InputOutcome:
        """Give the result of a call, a FunctionError where it failed, or the Decision about it."""
        if isinstance(result, event_pb2.Decision):
            outcome = await self._decide(action, result)
        else:
            outcome = await self._client.settle(action, result)
        self.actions = [other for other in self.actions if other.call_id != action.call_id]
        return outcome

    async def steer(self, text: str) -> session_pb2.SubmitInputResponse:
        """Say something to the turn that waits: the model gets it with the answers."""
        return await self._client.submit(self.session.session_id, text)

    async def cancel(self, action: event_pb2.RequiredAction) -> session_pb2.InputOutcome:
        """Cancel the turn that waits for an answer."""
        return await self._client.cancel(self.session.session_id, action.turn_id)

    # -- inside ----------------------------------------------------------------------------------

    async def _decide(self, action: event_pb2.RequiredAction, decision: event_pb2.Decision) -> session_pb2.InputOutcome:
        """Decide about exactly what the person was shown."""
        decision.turn_id, decision.call_id = action.turn_id, action.call_id
        decision.arguments_digest = action.approval.arguments_digest
        decision.definition_digest = action.approval.definition_digest
        decision.decided_by = getpass.getuser()
        given = session_pb2.Input(decision=decision)
        return (await self._client.submit(action.session_id, given)).outcomes[0]

    async def _find(self) -> session_pb2.Session | None:
        """Find the session that was named. None: it is to be made; an id that is not there is a NotFoundError."""
        name = self._wanted.session
        if name is None:
            return None
        try:
            return await find_session(self._client, name)
        except NotFoundError:
            if name.startswith(SESSION_PREFIX):
                raise
            return None

    async def _look(self, until: session_pb2.Follow.ValueType, stop: asyncio.Event) -> Rested:
        ended: list[event_pb2.Turn] = []
        view = View(screen=self._screen, position=self._position, own_input=False)
        view.on_event = lambda event: ended.extend(_ended(event))
        self.session = await follow_session(self._client, self.session, view, until, stop)
        self._position = view.position
        self.actions = [action for action in self.session.required_actions if action.state in FOR_PEOPLE]
        return await self._rested(ended)

    async def _rested(self, turns: Sequence[event_pb2.Turn]) -> Rested:
        outputs: list[str] = []
        for turn in turns:
            explain_end(turn, self._screen)
            output = await output_of(self._client, self.session.session_id, turn)
            if output is not None:
                outputs.append(output)
        code = ExitCode.WAITS if self.actions else code_of(turns[-1]) if turns else ExitCode.DONE
        return Rested(code=code, outputs=tuple(outputs))


def _ended(event: event_pb2.Event) -> list[event_pb2.Turn]:
    """List the turn that an event ends."""
    match event.WhichOneof("event"):
        case "turn_completed":
            return [event.turn_completed.turn]
        case "turn_failed":
            return [event.turn_failed.turn]
        case "turn_cancelled":
            return [event.turn_cancelled.turn]
        case _:
            return []
