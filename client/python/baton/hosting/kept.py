"""What must still be told of attempts that run no more: results without their ack, and attempts that have none.

Both are named in each Hello, over streams and, with a journal, over processes. An attempt that began and was given up
has to be named as well, until a Welcome has answered: the server takes what is not named for not begun, and would
deliver again what must not run twice.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from baton.hosting.journal import Journal, Remembered, Told
from baton.items.outputs import payload_bytes
from baton.v1 import error_pb2, handler_pb2

MOST_GIVEN_UP = 1_000
"""Attempts that were given up and are named, the newest: what became of older ones on a stream was read long ago."""

_log = logging.getLogger("baton.worker.calls")

Send = Callable[[handler_pb2.ConnectRequest], None]


@dataclass(slots=True, eq=False)
class _Result:
    """`written`: it is in the journal, or there is none, so that it may be sent. `replaced`: it stands for another."""

    result: handler_pb2.Result
    name: str
    written: bool = False
    replaced: bool = False
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = payload_bytes(self.result)


class Kept:
    """Of one worker. `changed` is called when there are fewer results than before. `size_bytes`: payload of all."""

    def __init__(self, send: Send, changed: Callable[[], None], journal: Journal | None = None) -> None:
        self._send = send
        self._changed = changed
        self._journal = journal
        self._results: dict[str, _Result] = {}
        self._given_up: OrderedDict[str, int] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        """Count the results."""
        return len(self._results)

    def attempt(self, call_id: str) -> int:
        """Name the attempt of a call whose result is here, or that was given up; 0: there is none."""
        kept = self._results.get(call_id)
        return kept.result.attempt if kept is not None else self._given_up.get(call_id, 0)

    # -- a life before this one ------------------------------------------------------------------

    def remember(self, attempts: Iterable[Remembered]) -> None:
        """Take over what a former process left in the journal."""
        for one in attempts:
            if one.result is None:
                self._given_up[one.call_id] = one.attempt
            else:
                self._add(_Result(one.result, one.name, written=True))

    # -- what ends here --------------------------------------------------------------------------

    def keep(self, result: handler_pb2.Result, name: str) -> None:
        """Keep a result and send it, in this order."""
        self._put(_Result(result, name))

    def give_up(self, call_id: str, attempt: int) -> None:
        """Keep in mind that an attempt had begun and has no result."""
        self._given_up[call_id] = attempt
        self._given_up.move_to_end(call_id)
        while len(self._given_up) > MOST_GIVEN_UP:
            self.erase(*self._given_up.popitem(last=False))

    def forget(self, call_id: str) -> None:
        """Forget a call, whose attempt is the server's matter now."""
        kept = self._take(call_id)
        attempt = kept.result.attempt if kept is not None else self._given_up.pop(call_id, 0)
        if attempt:
            self.erase(call_id, attempt)
        if kept is not None:
            self._changed()

    def erase(self, call_id: str, attempt: int) -> None:
        """Strike an attempt from the journal: it is over for this worker."""
        if self._journal is not None:
            self._journal.forget(call_id, attempt).add_done_callback(_report)

    # -- what the server says --------------------------------------------------------------------

    def manifest(self) -> list[handler_pb2.HeldAttempt]:
        """Name all of it, for Hello."""
        finished = [
            handler_pb2.HeldAttempt(call_id=call_id, attempt=kept.result.attempt, begun=True, finished=True)
            for call_id, kept in self._results.items()
        ]
        return finished + [
            handler_pb2.HeldAttempt(call_id=call_id, attempt=attempt, begun=True)
            for call_id, attempt in self._given_up.items()
        ]

    def obey(self, verdict: handler_pb2.AttemptVerdict) -> None:
        """Do what Welcome says about an attempt of the manifest. One that is not here means nothing."""
        call_id, attempt = verdict.call_id, verdict.attempt
        if self.attempt(call_id) != attempt:
            return
        if verdict.verdict == handler_pb2.HELD_VERDICT_CONTINUE:
            self.send_again(call_id, attempt)
        elif verdict.verdict in (handler_pb2.HELD_VERDICT_ABANDON, handler_pb2.HELD_VERDICT_ALREADY_SETTLED):
            if verdict.verdict == handler_pb2.HELD_VERDICT_ABANDON and call_id in self._results:
                _log.info("the result of %s is of no use any more (%s)", self._results[call_id].name, call_id)
            self.forget(call_id)

    def acked(self, ack: handler_pb2.ResultAck) -> None:
        """Forget a result that the server has; send words for the model in place of one that it refuses."""
        if ack.verdict == handler_pb2.RESULT_VERDICT_REFUSED:
            self.refused(ack.call_id, ack.attempt, ack.error)
        elif self._find(ack.call_id, ack.attempt) is not None:
            self.forget(ack.call_id)

    def refused(self, call_id: str, attempt: int, error: error_pb2.Error) -> None:
        """Replace a result that cannot be taken as it is; give the call back if that one cannot either."""
        kept = self._find(call_id, attempt)
        if kept is None:
            return
        _log.error("the result of %s, call %s, was refused: %s", kept.name, call_id, error.message)
        if kept.replaced:
            self._take(call_id)
            self.give_up(call_id, attempt)
            self._give_back(call_id, attempt, f"result refused: {error.message}")
            self._changed()
            return
        words = f"The function's result could not be delivered: {error.message or 'it was refused'}"
        failure = handler_pb2.Result(call_id=call_id, attempt=attempt, failure=words)
        self._put(_Result(failure, kept.name, replaced=True))

    def send_again(self, call_id: str, attempt: int) -> None:
        """Send a result again, or say again that there is none."""
        kept = self._find(call_id, attempt)
        if kept is not None:
            self._send_written(kept)
        elif self._given_up.get(call_id) == attempt:
            self._give_back(call_id, attempt, "it was stopped, or its process was, before it gave a result")

    # -- small moves -----------------------------------------------------------------------------

    def _find(self, call_id: str, attempt: int) -> _Result | None:
        kept = self._results.get(call_id)
        return kept if kept is not None and kept.result.attempt == attempt else None

    def _add(self, kept: _Result) -> None:
        self._results[kept.result.call_id] = kept
        self.size_bytes += kept.size_bytes

    def _take(self, call_id: str) -> _Result | None:
        kept = self._results.pop(call_id, None)
        self.size_bytes -= kept.size_bytes if kept is not None else 0
        return kept

    def _put(self, kept: _Result) -> None:
        self._take(kept.result.call_id)
        self._add(kept)
        if self._journal is None:
            kept.written = True
            self._send_written(kept)
        else:
            self._journal.finished(kept.result, kept.name).add_done_callback(partial(self._written, kept))

    def _written(self, kept: _Result, told: Told) -> None:
        error = None if told.cancelled() else told.result()
        if error is not None:
            _log.error("%s; the result of %s is sent all the same", error, kept.name)
        kept.written = True
        if self._results.get(kept.result.call_id) is kept:
            self._send_written(kept)

    def _send_written(self, kept: _Result) -> None:
        if kept.written:
            self._send(handler_pb2.ConnectRequest(result=kept.result))

    def _give_back(self, call_id: str, attempt: int, reason: str) -> None:
        """Say that an attempt has no result and may have run."""
        nack = handler_pb2.Nack(call_id=call_id, attempt=attempt, reason=reason[:256])
        self._send(handler_pb2.ConnectRequest(nack=nack))


def _report(told: Told) -> None:
    error = None if told.cancelled() else told.result()
    if error is not None:
        _log.error("%s", error)
