"""Failures as exceptions: by reason first, then by code; retryable as the server says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_origin

import grpc
import pytest
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2
from tests.client.scripted import Failing, FakeClock, ScriptedServer, soon

import baton
from baton import errors
from baton.address import resolve_address
from baton.errors import AgentsException
from baton.reasons import CLASSES, error_from_pb
from baton.server.connection import Connection
from baton.transport.retry import Backoff
from baton.v1 import error_pb2, session_pb2

REASONS = [
    name.removeprefix("ERROR_REASON_") for name, _ in error_pb2.ErrorReason.items() if not name.endswith("UNSPECIFIED")
]


def test_every_reason_has_a_class() -> None:
    """A reason that the contract gains is seen here."""
    assert sorted(CLASSES) == sorted(REASONS)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Every exception of the module stands in its drawing."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AgentsException)]
    drawn = errors.__doc__ or ""
    missing = [kind.__name__ for kind in kinds if kind.__name__ not in drawn and kind.__mro__[1].__name__ not in drawn]

    assert missing == []
    assert all(getattr(baton, kind.__name__, None) is kind for kind in kinds)


@pytest.mark.parametrize("retryable", [True, False])
def test_an_unknown_reason_is_treated_by_retryable_alone(retryable: bool) -> None:
    """A server of a later version may say what this one has no word for."""
    made = error_from_pb(error_pb2.Error(reason=9999, message="new", retryable=retryable))  # type: ignore[arg-type]

    assert type(made) is baton.BatonError
    assert (made.reason, made.retryable, str(made)) == ("9999", retryable, "new")


@pytest.mark.parametrize(
    ("failing", "kind", "retryable"),
    [
        (Failing(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"), baton.NotFoundError, False),
        (Failing(grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED"), baton.RequestIdReusedError, False),
        (Failing(grpc.StatusCode.INTERNAL, "INTERNAL"), baton.BatonInternalError, False),
        (Failing(grpc.StatusCode.ABORTED, "OF_LATER_VERSION"), baton.BatonError, False),
        (
            Failing(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "OF_LATER_VERSION",
                [error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1))],
            ),
            baton.BatonError,
            True,
        ),
        (Failing(grpc.StatusCode.UNIMPLEMENTED), baton.BatonProtocolError, False),
        (Failing(grpc.StatusCode.RESOURCE_EXHAUSTED), baton.TooLargeError, False),
        (Failing(grpc.StatusCode.DATA_LOSS), baton.BatonError, False),
    ],
)
async def test_a_failed_rpc_raises_its_class(
    server: ScriptedServer, failing: Failing, kind: type[AgentsException], retryable: bool
) -> None:
    """The reason in the trailers decides; without one of ours the code does. None of these is tried again."""

    def refuse(_request: object) -> None:
        raise failing

    server.sessions.answers = {"GetSession": refuse}

    with pytest.raises(AgentsException) as caught:
        await soon(baton.Client().get_session("sess_1"))

    assert type(caught.value) is kind
    assert (caught.value.reason, caught.value.retryable) == (failing.reason, retryable)
    assert len(server.sessions.requests) == 1


async def test_every_wrong_field_is_named(server: ScriptedServer) -> None:
    """Not only the first."""
    bad = error_details_pb2.BadRequest()
    for field in ("inputs[0].text", "request_id"):
        bad.field_violations.add(field=field, description="is required")

    def refuse(_request: object) -> None:
        raise Failing(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", [bad], fields="2")

    server.sessions.answers = {"SubmitInput": refuse}

    with pytest.raises(baton.InvalidRequestError) as caught:
        await soon(baton.Client().submit("sess_1", "Hi"))

    assert [(one.field, one.description) for one in caught.value.violations] == [
        ("inputs[0].text", "is required"),
        ("request_id", "is required"),
    ]
    assert caught.value.metadata == {"fields": "2"}


async def test_a_server_that_was_never_there_is_named(clock: FakeClock, tmp_path: Path) -> None:
    """A program that was started before any server says so, with what to do; it does not wait for ever."""
    address = f"unix:{tmp_path}/nobody.sock"
    connection = Connection(address, clock.timing)
    clock.time = 0.0

    async def operation() -> None:
        clock.time += 4.0
        await connection.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s"))

    with pytest.raises(baton.BatonConnectionError, match=rf"{address} .*BATON_ADDRESS"):
        await soon(connection.persist(operation, "GetSession"))
    assert len(clock.slept) == 2
    await connection.close()


async def test_a_server_that_stays_away_is_told_once_in_few_words(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Who waits for a run learns what for; not gRPC's list of the addresses that it tried."""
    connection = Connection(f"unix:{tmp_path}/nobody.sock", clock.timing)
    connection.contacted()

    async def operation() -> None:
        clock.time += 4.0
        await connection.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s"))

    with pytest.raises(baton.BatonConnectionError):
        await soon(connection.persist(operation, "GetSession", 18.0))

    assert caplog.messages == [
        f"{connection.address} does not answer (UNAVAILABLE: No such file or directory); trying GetSession again until "
        "it does"
    ]
    await connection.close()


async def test_a_call_is_given_up_at_its_timeout(server: ScriptedServer, clock: FakeClock) -> None:
    """A server that was there and stays away fails a call that is no run."""
    connection = Connection(server.address, clock.timing)
    connection.contacted()

    def away(_request: object) -> None:
        clock.time += 30.0
        raise Failing(grpc.StatusCode.UNAVAILABLE)

    server.sessions.answers = {"GetSession": away}

    with pytest.raises(baton.BatonConnectionError, match="60 s"):
        await soon(connection.unary(connection.sessions.GetSession, session_pb2.GetSessionRequest(session_id="s")))
    assert len(server.sessions.requests) == 2
    await connection.close()


def test_waits_double_from_half_a_second_to_half_a_minute(clock: FakeClock) -> None:
    """Each between nothing and its bound; the first between 50 and 200 ms."""
    backoff = Backoff(clock.timing)

    longest = [backoff.next_delay() for _ in range(10)]
    backoff.reset()

    assert longest == [0.2, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert all(low == 0.0 for low, _high in clock.asked[1:])
    assert (backoff.next_delay(), clock.asked[-1]) == (0.2, (0.05, 0.2))


def test_the_address_is_looked_for_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument, the default that was set, the environment, this machine."""
    assert resolve_address() == "127.0.0.1:50051"
    monkeypatch.setenv("BATON_ADDRESS", "env:1")
    assert resolve_address() == "env:1"
    baton.set_default_address("set:1")
    assert (resolve_address(), resolve_address("arg:1")) == ("set:1", "arg:1")
    baton.set_default_address(None)
    assert resolve_address() == "env:1"


@pytest.mark.parametrize("wrong", ["http://127.0.0.1:50051", "127.0.0.1", "localhost:port", ":50051", "a b:1", "::1:1"])
def test_what_is_no_address_is_told_at_once(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """Wherever it was written, with how to write it; nobody waits for a server that can never answer."""
    with pytest.raises(baton.UserError, match=f"set_default_address: {re.escape(repr(wrong))} is no address"):
        baton.set_default_address(wrong)
    with pytest.raises(baton.UserError, match=r"address: .* write HOST:PORT, for example 127\.0\.0\.1:50051"):
        resolve_address(wrong)
    monkeypatch.setenv("BATON_ADDRESS", wrong)
    with pytest.raises(baton.UserError, match="BATON_ADDRESS: "):
        resolve_address()


@pytest.mark.parametrize("address", ["server:50051", "[::1]:50051", "unix:/run/baton.sock", "dns:///server:50051"])
def test_every_address_that_grpc_takes_is_taken(address: str) -> None:
    """As it is."""
    assert resolve_address(address) == address


def test_all_that_is_exported_is_there_and_documented() -> None:
    """The door of the package."""
    exported = {name: getattr(baton, name) for name in baton.__all__}
    undocumented = {name for name, value in exported.items() if not value.__doc__}

    # What stands for a form of types has no place for a docstring.
    assert undocumented <= {name for name, value in exported.items() if get_origin(value) is not None}


def test_options_of_agents_are_refused_by_name() -> None:
    """All that are not there, not only the first; and values of wrong kinds where they are given."""
    with pytest.raises(TypeError, match="Agent does not support prompt, mcp_servers"):
        baton.Agent(name="A", prompt=None, mcp_servers=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="ModelSettings does not support logit_bias"):
        baton.ModelSettings(logit_bias=1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="instructions"):
        baton.Agent(name="A", instructions=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="function_tool"):
        baton.Agent(name="A", tools=[print])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="parent"):
        baton.trace("W", parent="t")  # type: ignore[call-arg]
