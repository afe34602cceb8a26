"""Reflection: what tools that know no contract are told, as v1 and as v1alpha, over real streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import reflection_pb2 as pb
from tests.api.calling import soon
from tests.api.conftest import Serve

from baton_server.api.reflection import PUBLISHED, SERVICES, Reflection, published_pool
from baton_server.api.rpc import generic_handler
from baton_server.engine.clock import TimeIds

Ask = Callable[..., Awaitable[Any]]

VERSIONS = ("v1", "v1alpha")

SERVED = [
    "baton.v1.AgentService",
    "baton.v1.HandlerService",
    "baton.v1.RunnerService",
    "baton.v1.SessionService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
]

SYMBOLS = {
    "baton.v1.RunnerService": "baton/v1/runner.proto",
    "baton.v1.RunnerService.RunStreamed": "baton/v1/runner.proto",
    "baton.v1.Hello": "baton/v1/handler.proto",
    "baton.v1.Hello.credit": "baton/v1/handler.proto",
    "baton.v1.Event.event": "baton/v1/event.proto",
    "baton.v1.ErrorReason": "baton/v1/error.proto",
    "baton.v1.ERROR_REASON_INTERNAL": "baton/v1/error.proto",
    "baton.v1.AgentRevision.MetadataEntry": "baton/v1/agent.proto",
    "grpc.health.v1.Health.Check": "grpc_health/v1/health.proto",
    "grpc.reflection.v1.ServerReflection": "grpc/reflection/v1/reflection.proto",
    "grpc.reflection.v1alpha.ServerReflection": "grpc_reflection/v1alpha/reflection.proto",
    "google.rpc.ErrorInfo": "google/rpc/error_details.proto",
    "google.rpc.BadRequest": "google/rpc/error_details.proto",
    "google.rpc.ResourceInfo": "google/rpc/error_details.proto",
    "google.rpc.RetryInfo": "google/rpc/error_details.proto",
    "google.rpc.Status": "google/rpc/status.proto",
    "google.protobuf.Any": "google/protobuf/any.proto",
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
}
"""What a tool may look up, and the file that has it."""

UNKNOWN = {
    "a symbol": ({"file_containing_symbol": "baton.v1.Nothing"}, "'baton.v1.Nothing'"),
    "a method": ({"file_containing_symbol": "baton.v1.RunnerService.Walk"}, "'baton.v1.RunnerService.Walk'"),
    "a package": ({"file_containing_symbol": "baton.v1"}, "'baton.v1'"),
    "no name": ({"file_containing_symbol": ""}, "''"),
    "a file": ({"file_by_filename": "baton/v2/agent.proto"}, "'baton/v2/agent.proto'"),
    "an extension": (
        {"file_containing_extension": {"containing_type": "baton.v1.Agent", "extension_number": 7}},
        "extension 7 of 'baton.v1.Agent'",
    ),
    "an extension of nothing": (
        {"file_containing_extension": {"containing_type": "baton.v1.Nothing", "extension_number": 7}},
        "extension 7 of 'baton.v1.Nothing'",
    ),
    "extensions of nothing": ({"all_extension_numbers_of_type": "baton.v1.Nothing"}, "'baton.v1.Nothing'"),
}
"""What is asked for, and how the answer names it."""


@pytest.mark.parametrize("version", VERSIONS)
async def test_services_are_listed(serve: Serve, version: str) -> None:
    """All of them in order, those of health and reflection included."""
    async with stream_of((await serve()).client.channel, version) as ask:
        answer = await ask(list_services="*")

    assert [service.name for service in answer.list_services_response.service] == SERVED


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_symbol_leads_to_its_file(serve: Serve, version: str) -> None:
    """Services, methods, messages, fields, oneofs, enums and their values; the details of errors too."""
    async with stream_of((await serve()).client.channel, version) as ask:
        found = {symbol: files_in(await ask(file_containing_symbol=symbol))[0].name for symbol in SYMBOLS}

    assert found == SYMBOLS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("service", SERVED)
async def test_a_file_comes_with_all_that_it_imports(serve: Serve, version: str, service: str) -> None:
    """A tool that has nothing builds the service's types out of one answer, google's own files included."""
    async with stream_of((await serve()).client.channel, version) as ask:
        files = files_in(await ask(file_containing_symbol=service))

    names = [file.name for file in files]
    assert len(set(names)) == len(names)
    found = built(files).FindServiceByName(service)
    assert all(method.input_type.full_name and method.output_type.full_name for method in found.methods)
    if service == "baton.v1.SessionService":
        known = ("duration", "field_mask", "timestamp")
        assert {f"google/protobuf/{name}.proto" for name in known} <= set(names)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_file_is_found_by_its_name(serve: Serve, version: str) -> None:
    """The file is the one that the stubs were made from."""
    async with stream_of((await serve()).client.channel, version) as ask:
        for published in PUBLISHED:
            files = files_in(await ask(file_by_filename=published.name))
            assert files[0].SerializeToString() == published.serialized_pb
        assert files_in(await ask(file_by_filename="google/protobuf/any.proto"))[0].package == "google.protobuf"


@pytest.mark.parametrize("version", VERSIONS)
async def test_extensions_are_found(version: str) -> None:
    """By number, with the file that they stand in and what that imports; the contract itself has none."""
    pool = published_pool()
    extending = descriptor_pb2.FileDescriptorProto(
        name="extending.proto", package="extending", dependency=["google/protobuf/descriptor.proto"]
    )
    extending.extension.add(
        **{"name": "note", "number": 50_001, "type": "TYPE_STRING", "label": "LABEL_OPTIONAL"},
        extendee=".google.protobuf.FieldOptions",
    )
    pool.AddSerializedFile(descriptor_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(extending.SerializeToString())
    asked = {"containing_type": "google.protobuf.FieldOptions", "extension_number": 50_001}

    async with server_of(pool) as channel, stream_of(channel, version) as ask:
        files = files_in(await ask(file_containing_extension=asked))
        numbers = (await ask(all_extension_numbers_of_type=asked["containing_type"])).all_extension_numbers_response
        none = (await ask(all_extension_numbers_of_type="baton.v1.Agent")).all_extension_numbers_response

    assert [file.name for file in files] == ["extending.proto", "google/protobuf/descriptor.proto"]
    assert (numbers.base_type_name, list(numbers.extension_number)) == ("google.protobuf.FieldOptions", [50_001])
    assert (none.base_type_name, list(none.extension_number)) == ("baton.v1.Agent", [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("asked", "named"), UNKNOWN.values(), ids=UNKNOWN.keys())
async def test_what_is_unknown_is_named(serve: Serve, version: str, asked: dict[str, Any], named: str) -> None:
    """The answer is NOT_FOUND with the name, and the stream goes on."""
    async with stream_of((await serve()).client.channel, version) as ask:
        error = (await ask(**asked)).error_response
        assert (await ask(list_services="")).list_services_response.service

    assert error.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert named in error.error_message


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_question_without_a_question_is_answered(serve: Serve, version: str) -> None:
    """Neither an empty request nor bytes that are none end the stream, and each is told what was wrong."""
    async with stream_of((await serve()).client.channel, version) as ask:
        nothing = (await ask(host="here")).error_response
        no_message = (await ask(b"\xff\xff")).error_response
        no_text = (await ask(b"\x22\x01\xff")).error_response  # file_containing_symbol that is no UTF-8
        assert (await ask(list_services="")).list_services_response.service

    for error in (nothing, no_message, no_text):
        assert error.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "file_containing_symbol" in nothing.error_message
    assert "ServerReflectionRequest" in no_message.error_message


async def test_both_versions_answer_alike(serve: Serve) -> None:
    """Byte for byte, the question that is repeated in the answer included."""
    questions = [
        {"host": "here", "list_services": ""},
        {"host": "here", "file_by_filename": "baton/v1/event.proto"},
        *({"file_containing_symbol": symbol} for symbol in SYMBOLS),
        *(asked for asked, _named in UNKNOWN.values()),
        {},
    ]
    channel = (await serve()).client.channel

    async with stream_of(channel, "v1") as one, stream_of(channel, "v1alpha") as other:
        for question in questions:
            answer = await one(**question)
            assert answer == await other(**question)
            assert answer.original_request == pb.ServerReflectionRequest(**question)
            assert answer.valid_host == question.get("host", "")


def test_v1_describes_itself_as_v1() -> None:
    """Its file names no type of v1alpha, and has the same fields under the same numbers."""
    pool = published_pool()
    v1, v1alpha = (pool.FindServiceByName(name).file for name in SERVICES)

    text = str(descriptor_pb2.FileDescriptorProto.FromString(v1.serialized_pb))
    assert "alpha" not in text
    for name, message in v1alpha.message_types_by_name.items():
        fields = {field.name: (field.number, field.type) for field in message.fields}
        assert {f.name: (f.number, f.type) for f in v1.message_types_by_name[name].fields} == fields


def test_nothing_else_is_told() -> None:
    """What the process has loaded besides, for its own use, is nobody's matter."""
    name = "google.protobuf.FileDescriptorProto"
    assert descriptor_pool.Default().FindMessageTypeByName(name).full_name == name

    with pytest.raises(KeyError):
        published_pool().FindMessageTypeByName(name)


# --- asking -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def stream_of(channel: grpc.aio.Channel, version: str) -> AsyncIterator[Ask]:
    """Open a stream; `ask(field=…)` or `ask(bytes)` sends a question and reads its answer. It ends with OK."""
    method = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        response_deserializer=pb.ServerReflectionResponse.FromString,
    )
    call = method()

    async def ask(raw: bytes | None = None, **question: Any) -> Any:
        await soon(call.write(pb.ServerReflectionRequest(**question).SerializeToString() if raw is None else raw))
        return await soon(call.read())

    yield ask
    await soon(call.done_writing())
    assert await soon(call.read()) is grpc.aio.EOF
    assert await soon(call.code()) is grpc.StatusCode.OK


@asynccontextmanager
async def server_of(pool: descriptor_pool.DescriptorPool) -> AsyncIterator[grpc.aio.Channel]:
    """Serve nothing but reflection, of a pool."""
    served = grpc.aio.server()
    rpcs = Reflection(SERVICES, pool).rpcs()
    served.add_generic_rpc_handlers(tuple(generic_handler(name, rpcs, TimeIds()) for name in SERVICES))
    port = served.add_insecure_port("127.0.0.1:0")
    await served.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await served.stop(None)


def files_in(answer: Any) -> list[descriptor_pb2.FileDescriptorProto]:
    """Read the files of an answer."""
    assert answer.HasField("file_descriptor_response"), answer
    found = answer.file_descriptor_response.file_descriptor_proto
    return [descriptor_pb2.FileDescriptorProto.FromString(each) for each in found]


def built(files: Iterable[descriptor_pb2.FileDescriptorProto]) -> descriptor_pool.DescriptorPool:
    """Build a pool of files alone, each behind what it imports."""
    waiting = {file.name: file for file in files}
    pool = descriptor_pool.DescriptorPool()
    while waiting:
        ready = [file for file in waiting.values() if not set(file.dependency) & waiting.keys()]
        assert ready, f"an import is missing for {', '.join(waiting)}"
        for file in ready:
            pool.AddSerializedFile(file.SerializeToString())
            del waiting[file.name]
    return pool
