"""Failures on the wire: reasons agree with the contract, and trailers stay small enough for every peer."""

import re
from base64 import b64encode
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from tests.wire import values

from baton.v1 import error_pb2
from baton_server.core.errors import BatonError, Failure, FieldViolation, Reason, Refused, refuse
from baton_server.wire.errors import CODES, DETAILS_KEY, DOMAIN, read_failure, to_status, write_failure

M = TypeVar("M", bound=Message)
PROTO = Path(__file__).parents[2] / "proto/baton/v1/error.proto"


def test_reasons_are_those_of_the_contract() -> None:
    """Neither side has a reason that the other lacks."""
    wire = {name.removeprefix("ERROR_REASON_") for name in error_pb2.ErrorReason.DESCRIPTOR.values_by_name}

    assert wire - {"UNSPECIFIED"} == {reason.value for reason in Reason}


def test_codes_are_those_of_the_contract() -> None:
    """What error.proto says in brackets is what an rpc ends with."""
    documented = dict(documented_codes())

    assert documented.keys() == {reason.value for reason in Reason}
    assert {reason.value: code.name for reason, code in CODES.items()} == documented


def test_reasons_that_may_succeed_later_are_those_of_the_contract() -> None:
    """A reason that says Retryable in error.proto is one that the core marks so."""
    comments = re.findall(r"((?:  //[^\n]*\n)+)  ERROR_REASON_(\w+) =", PROTO.read_text())
    documented = {name for comment, name in comments if "Retryable" in comment}

    assert all(Failure(reason=Reason(name), message="").retryable for name in documented)


def documented_codes() -> list[tuple[str, str]]:
    """Reads each reason's code out of error.proto; one that never ends an rpc is INTERNAL."""
    found = re.findall(r"((?:  //[^\n]*\n)+)  ERROR_REASON_(\w+) =", PROTO.read_text())
    codes = []
    for comment, name in found:
        bracket = re.search(r"\[([^\]]+)\]", " ".join(comment.replace("//", " ").split()))
        if bracket is not None:
            code = re.search(r"\b[A-Z][A-Z_]+\b", bracket.group(1))
            codes.append((name, code.group() if code else "INTERNAL"))
    return codes


@given(values.failures)
def test_a_failure_is_read_back_equal(failure: Failure) -> None:
    """A frame or an event tells the reason with all its facts."""
    assert read_failure(write_failure(failure)) == failure
    assert write_failure(failure).retryable == failure.retryable


def test_a_reason_of_a_later_release_is_no_crash() -> None:
    """A log that a later release wrote still tells its message."""
    read = read_failure(error_pb2.Error.FromString(b"\x08\xe7\x07\x12\x03new"))

    assert (read.reason, read.message) == (Reason.INTERNAL, "new")


def test_a_status_carries_the_reason() -> None:
    """A client branches on ErrorInfo alone."""
    code, message, details = read(refuse(Reason.SESSION_BUSY, "A turn is running.", turn_id="turn_1"))

    info = detail(details, error_details_pb2.ErrorInfo)
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert message == details.message == "A turn is running."
    assert details.code == code.value[0]
    assert (info.reason, info.domain, dict(info.metadata)) == ("SESSION_BUSY", DOMAIN, {"turn_id": "turn_1"})


def test_a_status_names_what_was_not_found() -> None:
    """ResourceInfo has the kind and the id."""
    _, _, details = read(refuse(Reason.CALL_NOT_FOUND, "No such call.", turn_id="turn_1", call_id="call_1"))

    resource = detail(details, error_details_pb2.ResourceInfo)
    assert (resource.resource_type, resource.resource_name) == ("baton.v1.FunctionCall", "call_1")


@pytest.mark.parametrize("reason", [Reason.UNAVAILABLE, Reason.WORKER_SILENT])
def test_a_status_says_when_to_try_again(reason: Reason) -> None:
    """UNAVAILABLE comes with a delay."""
    _, _, details = read(refuse(reason, "Later."))

    assert detail(details, error_details_pb2.RetryInfo).retry_delay.seconds >= 1


def test_a_status_names_every_bad_field() -> None:
    """BadRequest has them all, and the message says how many."""
    violations = (FieldViolation(path="name", problem="is required"), FieldViolation(path="a.b", problem="is 3"))
    failure = Failure(reason=Reason.INVALID_REQUEST, message="2 fields are wrong", metadata={"fields": "2"})

    _, message, details = read(Refused(failure, violations))

    bad = detail(details, error_details_pb2.BadRequest)
    assert [(v.field, v.description) for v in bad.field_violations] == [("name", "is required"), ("a.b", "is 3")]
    assert message == "2 fields are wrong: name: is required; a.b: is 3"


@pytest.mark.parametrize("character", ["x", "é", "€", "🙂"])
def test_trailers_stay_small(character: str) -> None:
    """However much is wrong, peers that bound headers at 8 KiB still read the status."""
    violations = tuple(FieldViolation(path=f"f[{n}]", problem=character * 5000) for n in range(5000))
    metadata = {f"key{n}": character * 5000 for n in range(50)}
    failure = Failure(reason=Reason.INVALID_REQUEST, message=character * 5000, metadata=metadata)

    _, message, details = read(Refused(failure, violations))

    assert message.startswith("5000 fields are wrong")
    assert len(message.encode()) <= 1024
    assert details.ByteSize() <= 4096
    assert len(detail(details, error_details_pb2.BadRequest).field_violations) >= 1
    assert len(b64encode(details.SerializeToString())) + len(quote(message, safe=" ,:;.[]")) <= 7500
    assert detail(details, error_details_pb2.ErrorInfo).reason == "INVALID_REQUEST"


def test_a_failure_in_a_frame_stays_small() -> None:
    """A frame's error keeps to the bounds of error.proto."""
    failure = Failure(reason=Reason.INTERNAL, message="x" * 50_000, metadata={"a": "y" * 50_000, "b": "z"})

    error = write_failure(failure)

    assert len(error.message) <= 16_384
    assert error.metadata["b"] == "z"
    assert error.ByteSize() < 20_000


def test_a_broken_character_is_no_second_failure() -> None:
    """A lone surrogate in what a stranger said is replaced, and the failure is told."""
    failure = Failure(reason=Reason.MODEL_REFUSAL, message="half \ud83d", metadata={"refusal": "half \ud83d"})

    assert write_failure(failure).message == "half ?"
    assert read(BatonError(failure))[1] == "half ?"


def read(error: BatonError) -> tuple[grpc.StatusCode, str, status_pb2.Status]:
    """Makes a status and takes its details apart."""
    code, message, ((key, data),) = to_status(error)
    assert key == DETAILS_KEY
    return code, message, status_pb2.Status.FromString(data)


def detail(status: status_pb2.Status, kind: type[M]) -> M:
    """Unpacks the one detail of a kind."""
    (found,) = [one for one in status.details if one.TypeName() == kind.DESCRIPTOR.full_name]
    unpacked = kind()
    found.Unpack(unpacked)
    return unpacked
