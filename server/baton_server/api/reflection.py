"""Server reflection: what a server serves, told to grpcurl, buf and their like, as v1 and as v1alpha.

The two packages have the same messages, byte for byte, and only v1alpha's come with grpcio-reflection: one
implementation speaks with those under both names. It answers from a pool of its own, which holds what `PUBLISHED`
defines and imports, and not what else the process has loaded. Descriptors of Python stubs carry no comments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2 as pb

from baton.v1 import agent_pb2, handler_pb2, runner_pb2, session_pb2
from baton_server.api.rpc import Context, Rpc, Unreadable

PACKAGES = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
"""Those under which the service is served."""

SERVICES = tuple(f"{package}.ServerReflection" for package in PACKAGES)

PUBLISHED: tuple[FileDescriptor, ...] = tuple(
    stubs.DESCRIPTOR
    for stubs in (
        agent_pb2,
        session_pb2,
        runner_pb2,
        handler_pb2,
        health_pb2,
        pb,
        # The details of a failed rpc are made of these: a client shows those that it can look up.
        status_pb2,
        error_details_pb2,
    )
)
"""Files that are told about, besides those that they import."""

NAME_CHARACTERS = 200
"""Of an unknown name that its error repeats."""


def published_pool() -> DescriptorPool:
    """Gather `PUBLISHED` with all that it imports, and the file of reflection's v1, which comes with no package."""
    pool = DescriptorPool()
    for file in _with_imports(PUBLISHED):
        pool.AddSerializedFile(file.serialized_pb)
    pool.AddSerializedFile(_v1().SerializeToString())
    return pool


class Reflection:
    """Answers what there is: services by a list, all else from a pool."""

    def __init__(self, services: Iterable[str], pool: DescriptorPool) -> None:
        self._services, self._pool = sorted(services), pool
        self._questions: Mapping[str, Callable[[Any], pb.ServerReflectionResponse]] = {
            "list_services": self._list_services,
            "file_by_filename": self._file_by_filename,
            "file_containing_symbol": self._file_containing_symbol,
            "file_containing_extension": self._file_containing_extension,
            "all_extension_numbers_of_type": self._all_extension_numbers_of_type,
        }

    def rpcs(self) -> Mapping[str, Rpc]:
        """Say what the service consists of."""
        return {"ServerReflectionInfo": Rpc(request=pb.ServerReflectionRequest, bidi=self._serve)}

    def answer(self, request: pb.ServerReflectionRequest | Unreadable) -> pb.ServerReflectionResponse:
        """Answer one question: NOT_FOUND for an unknown name, INVALID_ARGUMENT where nothing known is asked."""
        if isinstance(request, Unreadable):
            return _error(grpc.StatusCode.INVALID_ARGUMENT, request.failure.message)
        kind = request.WhichOneof("message_request")
        if kind is None:
            wanted = ", ".join(self._questions)
            answer = _error(grpc.StatusCode.INVALID_ARGUMENT, f"The request asks for nothing: set one of {wanted}.")
        else:
            asked = getattr(request, kind)
            try:
                answer = self._questions[kind](asked)
            except KeyError:
                answer = _error(grpc.StatusCode.NOT_FOUND, f"{kind}: the server knows no {_shown(asked)}.")
        answer.valid_host = request.host
        answer.original_request.CopyFrom(request)
        return answer

    async def _serve(self, context: Context) -> None:
        while (request := await context.read()) is not grpc.aio.EOF:
            await context.write(self.answer(request))

    # Each of these raises KeyError for a name that is not there.

    def _list_services(self, _asked: str) -> pb.ServerReflectionResponse:
        services = [pb.ServiceResponse(name=name) for name in self._services]
        return pb.ServerReflectionResponse(list_services_response=pb.ListServiceResponse(service=services))

    def _file_by_filename(self, name: str) -> pb.ServerReflectionResponse:
        return _file(self._pool.FindFileByName(name))

    def _file_containing_symbol(self, name: str) -> pb.ServerReflectionResponse:
        try:
            file = self._pool.FindFileContainingSymbol(name)
        except KeyError:  # it finds all kinds of symbols but one
            file = self._pool.FindMethodByName(name).containing_service.file
        return _file(file)

    def _file_containing_extension(self, asked: pb.ExtensionRequest) -> pb.ServerReflectionResponse:
        extended = self._pool.FindMessageTypeByName(asked.containing_type)
        extension = self._pool.FindExtensionByNumber(extended, asked.extension_number)
        return _file(self._pool.FindFileContainingSymbol(extension.full_name))

    def _all_extension_numbers_of_type(self, name: str) -> pb.ServerReflectionResponse:
        extended = self._pool.FindMessageTypeByName(name)
        numbers = sorted(extension.number for extension in self._pool.FindAllExtensions(extended))
        found = pb.ExtensionNumberResponse(base_type_name=name, extension_number=numbers)
        return pb.ServerReflectionResponse(all_extension_numbers_response=found)


def _file(file: FileDescriptor) -> pb.ServerReflectionResponse:
    """Give a file, and all that it needs behind it."""
    found = [each.serialized_pb for each in _with_imports([file])]
    files = pb.FileDescriptorResponse(file_descriptor_proto=reversed(found))
    return pb.ServerReflectionResponse(file_descriptor_response=files)


def _with_imports(files: Iterable[FileDescriptor]) -> Iterator[FileDescriptor]:
    """List files and all that they import, each once, behind what it imports."""
    seen: set[str] = set()

    def visit(file: FileDescriptor) -> Iterator[FileDescriptor]:
        if file.name not in seen:
            seen.add(file.name)
            for imported in file.dependencies:
                yield from visit(imported)
            yield file

    for file in files:
        yield from visit(file)


def _v1() -> FileDescriptorProto:
    """Write the file of v1: that of v1alpha under the other package."""
    v1, v1alpha = PACKAGES
    file = FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb)
    file.name, file.package = "grpc/reflection/v1/reflection.proto", v1
    file.ClearField("options")  # names of generated code, and that it is deprecated
    for field in (field for message in file.message_type for field in message.field):
        if field.type_name:
            field.type_name = field.type_name.replace(v1alpha, v1)
    for method in (method for service in file.service for method in service.method):
        method.input_type = method.input_type.replace(v1alpha, v1)
        method.output_type = method.output_type.replace(v1alpha, v1)
    return file


def _error(code: grpc.StatusCode, message: str) -> pb.ServerReflectionResponse:
    return pb.ServerReflectionResponse(error_response=pb.ErrorResponse(error_code=code.value[0], error_message=message))


def _shown(asked: str | pb.ExtensionRequest) -> str:
    if isinstance(asked, str):
        return repr(asked[:NAME_CHARACTERS])
    return f"extension {asked.extension_number} of {asked.containing_type[:NAME_CHARACTERS]!r}"
