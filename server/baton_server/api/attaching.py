"""Taking in the worker that says a Hello, by whichever rpc it came."""

from __future__ import annotations

from dataclasses import dataclass

from baton.v1 import handler_pb2 as pb
from baton_server.api.worker_frames import good, malformed, verdicts
from baton_server.app.calls.frames import Introduction, Link
from baton_server.app.calls.worker import Worker
from baton_server.app.calls.workers import Workers
from baton_server.app.runtime import Limits
from baton_server.wire import check
from baton_server.wire.frames import read_introduction, welcome_frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A worker that was taken in: what it said of itself, and the Welcome that it is owed before anything else."""

    worker: Worker
    introduction: Introduction
    welcome: bytes


class Reception:
    """Takes workers in. `version`: the server's, for logs."""

    def __init__(self, workers: Workers, limits: Limits, version: str) -> None:
        self._workers, self._limits, self._version = workers, limits, version

    async def attach(self, hello: pb.Hello, link: Link, *, half_duplex: bool = False) -> Newcomer:
        """Take a worker in whose Hello was checked. It is sent nothing before `Workers.welcomed`."""
        declared = check.handler_failures(hello.handlers)
        introduction = read_introduction(hello, good(hello.handlers, declared), half_duplex=half_duplex)
        attached = await self._workers.attach(introduction, link)
        self._workers.refused(attached.worker, malformed(hello.handlers, declared))
        welcome = welcome_frame(
            worker_id=attached.worker.worker_id,
            resume_token=attached.resume_token,
            server_version=self._version,
            lease_s=self._limits.lease_s,
            heartbeat_s=self._limits.heartbeat_s,
            grace_s=self._limits.registration_grace_s,
            handlers=verdicts(hello.handlers, declared, attached.handlers),
            attempts=[
                (held.call_id, held.attempt, verdict) for held, verdict in zip(hello.held, attached.held, strict=True)
            ],
        )
        return Newcomer(worker=attached.worker, introduction=introduction, welcome=welcome)
