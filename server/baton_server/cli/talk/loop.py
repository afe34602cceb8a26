"""The main thread's part of `baton chat`: asks for lines, and has the conversation do what they say.

The prompt blocks, so the client lives in the event loop of another thread, with all that is hosted here; this one
waits for it. Ctrl-C means something else at the prompt, in a turn and in between, so there is one handler for it,
which asks what it means at the moment.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any, TextIO, TypeVar

import typer

from baton import AgentsException, NotFoundError
from baton.server.loop_thread import LoopThread
from baton.v1 import event_pb2, item_pb2, session_pb2
from baton_server.cli.calling import WrongUsage, client_here
from baton_server.cli.exits import ExitCode
from baton_server.cli.show.items import item_words
from baton_server.cli.show.open_calls import command
from baton_server.cli.show.texts import one_line, shortened
from baton_server.cli.show.words import parts_text
from baton_server.cli.talk.answering import CANCEL, ERROR, SKIP, Asking, asking_for
from baton_server.cli.talk.conversation import Conversation, Rested, Wanted
from baton_server.cli.talk.interrupts import Waking, on_signal, terminated
from baton_server.cli.talk.outcomes import explain_wait
from baton_server.cli.talk.prompt import Prompt, Woken
from baton_server.cli.talk.screen import Screen
from baton_server.cli.talk.transcript import Line

T = TypeVar("T")

PROMPT = "> "

COMMANDS = {
    "/help": "this list",
    "/session": "how to come back to this conversation, and how to watch it",
    "/answer": "ask again for what was left open",
    "/quit": "end, as Ctrl-D does",
}
"""What a line may be that is not said to the agent."""

HINTS = (
    f"A call that nobody serves is asked for: type its result, or {ERROR} TEXT, {SKIP}, {CANCEL}.",
    f"A call that somebody must allow is asked about: y, n, n TEXT, a, or {SKIP}, {CANCEL}.",
    "Ctrl-C cancels the turn that runs. A line that begins with // is said, with one / less.",
)

OLD_TEXT = 1000
"""Characters of an old message that are shown when a session is resumed."""

CLEAN_UP_S = 2.0
"""How long work that was left may take to end."""


class Talk:
    """A conversation, line by line. `results`: where final outputs go if nobody looks at the screen.

    `address`: as the command was given it; printed commands repeat it.
    """

    def __init__(self, wanted: Wanted, loop: LoopThread, screen: Screen, results: TextIO, address: str | None) -> None:
        self._loop, self._screen, self._results, self._address = loop, screen, results, address
        self._waking = Waking()
        self._prompt = Prompt(self._waking, live=screen.live, commands=[*COMMANDS, ERROR, SKIP, CANCEL])
        self._conversation = Conversation(wanted, self._screen)
        self._skipped: set[str] = set()
        self._explained = ""  # the call that was explained last
        self._code = ExitCode.DONE
        self._over = False
        self._ctrl_c: Callable[[], None] = _nothing

    def run(self) -> ExitCode:
        """Talk until the person, or the end of the lines, ends it."""
        with on_signal(signal.SIGINT, lambda: self._ctrl_c()), on_signal(signal.SIGTERM, terminated):
            try:
                with self._waking.listening(), self._prompt.held():
                    with self._ctrl_c_means(_interrupt):
                        self._wait(self._loop.begin(self._open()))
                    self._converse()
            finally:
                self._loop.run(self._conversation.close())
                self._waking.close()
        return ExitCode.DONE if self._prompt.interactive else self._code

    def _converse(self) -> None:
        self._greet()
        if self._conversation.session.status != session_pb2.SESSION_STATUS_IDLE:
            self._turn(self._conversation.follow)
        while not self._over:
            self._step()
        self._leave()

    async def _open(self) -> None:
        await self._conversation.open(await client_here())

    # -- lines -----------------------------------------------------------------------------------

    def _step(self) -> None:
        """Ask for a line, and do what it says."""
        action, asking = self._waiting()
        try:
            line = self._line(action, asking)
        except Woken:
            self._turn(self._conversation.catch_up)
        except EOFError:
            self._over = True
            if self._prompt.interactive:
                typer.echo()
        except KeyboardInterrupt:
            self._interrupted(action)
        else:
            if line.startswith("/") and line in (*COMMANDS, "/exit"):
                self._do(line)
            elif action is not None and asking is not None:
                self._answered(action, asking, line)
            else:
                self._said(line)

    def _waiting(self) -> tuple[event_pb2.RequiredAction | None, Asking | None]:
        """Find the first thing that the person can answer and did not leave open."""
        for action in self._conversation.actions:
            asking = asking_for(action)
            if asking is not None and action.call_id not in self._skipped:
                return action, asking
        return None, None

    def _line(self, action: event_pb2.RequiredAction | None, asking: Asking | None) -> str:
        prompt = PROMPT
        if action is not None and asking is not None:
            prompt = asking.prompt(action)
            if self._explained != action.call_id:
                self._explained = action.call_id
                self._screen.note(asking.explain(action))
        with self._woken_by_news(), self._ctrl_c_means(_interrupt):
            try:
                line = self._prompt.ask(prompt).strip()
            except UnicodeDecodeError as error:
                raise WrongUsage(f"standard input is no UTF-8 text: {error.reason}") from None
        if not self._prompt.interactive:
            self._screen.line(f"{prompt}{one_line(line)}", "user")
        return line

    def _interrupted(self, action: event_pb2.RequiredAction | None) -> None:
        """Do what Ctrl-C means at the prompt: it ends the turn that waits there."""
        if not self._prompt.interactive:
            self._over, self._code = True, ExitCode.INTERRUPTED
            return
        typer.echo()
        if action is not None:
            self._end_turn(action)
        else:
            self._screen.note("nothing runs that could be cancelled; Ctrl-D or /quit ends")

    def _do(self, name: str) -> None:
        match name:
            case "/help":
                self._screen.say(*(f"  {known:9} {meaning}" for known, meaning in COMMANDS.items()), *HINTS)
            case "/session":
                self._screen.say(*self._where())
            case "/answer":
                self._skipped.clear()
                self._explained = ""
                if not self._conversation.actions:
                    self._screen.note("nothing waits for an answer")
            case _:
                self._over = True

    def _said(self, line: str) -> None:
        if not line:
            return
        if line.startswith("/") and not line.startswith("//"):
            word = line.partition(" ")[0]
            self._screen.note(f"{word} is no command; /help lists them, and a line that begins with // is said")
            return
        text = line.removeprefix("/") if line.startswith("//") else line
        if not self._conversation.actions:
            self._turn(lambda stop: self._conversation.say(text, stop))
        elif self._attempt(self._conversation.steer(text)) is not None:
            self._screen.note("it reaches the model with the answers that the turn waits for; /answer asks for them")

    def _answered(self, action: event_pb2.RequiredAction, asking: Asking, line: str) -> None:
        if line == SKIP:
            self._skipped.add(action.call_id)
        elif line == CANCEL:
            self._end_turn(action)
        elif line:
            try:
                result = asking.read(line)
            except ValueError as error:
                self._screen.note(str(error))
                return
            outcome = self._attempt(self._conversation.answer(action, result))
            if outcome is not None and outcome.status != session_pb2.INPUT_STATUS_SETTLED:
                self._screen.note(f"not taken: {outcome.error.message}")
            if not self._conversation.actions:
                self._turn(self._conversation.follow)

    def _end_turn(self, action: event_pb2.RequiredAction) -> None:
        if self._attempt(self._conversation.cancel(action)) is not None:
            self._turn(self._conversation.follow)

    # -- what the other thread does --------------------------------------------------------------

    def _turn(self, work: Callable[[asyncio.Event], Coroutine[Any, Any, Rested]]) -> None:
        """Have a turn followed to its rest. Ctrl-C cancels it; a second one leaves it to itself."""
        stop, over = asyncio.Event(), threading.Event()
        future: Future[Rested] | None = None
        asked = False

        def pressed() -> None:
            nonlocal asked
            if not asked:
                asked, self._over = True, not self._prompt.interactive
                self._loop.begin(self._stop(stop))
            elif future is not None:
                future.cancel()

        try:
            with self._ctrl_c_means(pressed):
                future = self._loop.begin(_telling(over, work(stop)))
                rested = self._wait(future)
        except CancelledError:
            over.wait(CLEAN_UP_S)
            self._conversation.leave()
            self._screen.note("left without waiting for the cancel")
            rested = Rested(code=ExitCode.FAILED)
        except AgentsException as error:
            if isinstance(error, NotFoundError) and error.reason == "SESSION_NOT_FOUND":
                raise
            self._screen.note(str(error))
            rested = Rested(code=ExitCode.FAILED)
        self._code = ExitCode.INTERRUPTED if self._over else rested.code
        for output in () if self._screen.live else rested.outputs:
            self._results.write(f"{output}\n")  # byte for byte: `echo` would take escape sequences out
            self._results.flush()

    def _wait(self, future: Future[T]) -> T:
        """Wait for work of the other thread. An exception from a signal cancels it."""
        future.add_done_callback(lambda _done: self._waking.wake())
        try:
            while not future.done():
                self._waking.wait()
        except BaseException:  # KeyboardInterrupt, SystemExit
            future.cancel()
            raise
        return future.result()

    async def _stop(self, stop: asyncio.Event) -> None:
        self._screen.note("cancelling the turn; Ctrl-C again leaves it to itself")
        stop.set()

    def _attempt(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Have something done that takes no time. None: it could not be done, and was said so."""
        try:
            with self._ctrl_c_means(_interrupt):
                return self._wait(self._loop.begin(work))
        except KeyboardInterrupt:
            self._screen.note("left; whether the server has it is not known")
        except AgentsException as error:
            self._screen.note(str(error))
        return None

    @contextmanager
    def _woken_by_news(self) -> Iterator[None]:
        """Wake the prompt when something happens in the session; keep everything else from writing over it."""
        self._conversation.notes.hold()
        news: Future[None] | None = None
        if self._prompt.interactive:
            self._waking.forget()
            news = self._loop.begin(self._conversation.wait_for_news())
            news.add_done_callback(lambda done: None if done.cancelled() else self._waking.wake())
        try:
            yield
        finally:
            if news is not None:
                news.cancel()
            self._conversation.notes.release()

    @contextmanager
    def _ctrl_c_means(self, meaning: Callable[[], None]) -> Iterator[None]:
        before, self._ctrl_c = self._ctrl_c, meaning
        try:
            yield
        finally:
            self._ctrl_c = before

    # -- greeting and leaving --------------------------------------------------------------------

    def _greet(self) -> None:
        talk = self._conversation
        how = "goes on" if talk.resumed else "begins"
        hint = "; /help lists what there is, Ctrl-D ends" if self._prompt.interactive else ""
        self._screen.note(f"session {self._name()} {how}, with {talk.agent}{hint}")
        if not talk.resumed:
            return
        items = self._attempt(talk.last_items()) or []
        for item in items:
            self._screen.show([_old(item)])
            if item.message.role == item_pb2.MESSAGE_ROLE_USER:
                self._prompt.remember(parts_text(item.message.content))

    def _leave(self) -> None:
        talk = self._conversation
        if talk.actions:
            self._attempt(explain_wait(talk.client, talk.actions, self._screen, self._address))
        if self._prompt.interactive and talk.kept:
            self._screen.say(*self._where())

    def _where(self) -> list[str]:
        name = self._conversation.session.key or self._conversation.session.session_id
        return [
            f"to go on:     {command('chat', '--session', name, address=self._address)}",
            f"to watch it:  {command('sessions', 'tail', name, address=self._address)}",
        ]

    def _name(self) -> str:
        session = self._conversation.session
        return f"{session.key} {session.session_id}" if session.key else session.session_id


def _old(item: item_pb2.Item) -> Line:
    """Show an item of a session that is resumed as it was shown when it was new."""
    match item.WhichOneof("item"):
        case "message" if item.message.role == item_pb2.MESSAGE_ROLE_ASSISTANT:
            return Line(shortened(parts_text(item.message.content), OLD_TEXT), "text")
        case "message":
            return Line(f"{PROMPT}{shortened(parts_text(item.message.content), OLD_TEXT)}", "user")
        case "function_call":
            return Line(item_words(item), "call")
        case "function_call_output":
            return Line(item_words(item), "result")
        case _:
            return Line(item_words(item), "note")


def _nothing() -> None:
    """Do nothing."""


def _interrupt() -> None:
    raise KeyboardInterrupt


async def _telling(over: threading.Event, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        over.set()
