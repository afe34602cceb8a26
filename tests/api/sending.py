"""Which fields of requests a test sends: declared by the test, proved by what went over its stubs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from tests.api.calling import Client

from baton.v1 import agent_pb2, handler_pb2, runner_pb2, session_pb2

F = TypeVar("F", bound=Callable[..., Any])

FILES = (agent_pb2, session_pb2, runner_pb2, handler_pb2)

DECLARED: dict[str, frozenset[str]] = {}
"""By test: the fields that it sends, as `Message.field`."""


def sends(fields: str) -> Callable[[F], F]:
    """Declare what a test sends, a message per line: `Message: field field …`."""
    named = frozenset(
        f"{message.strip()}.{field}"
        for line in fields.strip().splitlines()
        for message, _, rest in [line.partition(":")]
        for field in rest.split()
    )

    def declare(test: F) -> F:
        DECLARED[test.__name__] = named
        return test

    return declare


def all_fields() -> set[str]:
    """Name every field of every request of the contract, and of the messages in them."""
    seen: dict[str, Descriptor] = {}
    for file in FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                _reach(method.input_type, seen)
    return {f"{message.name}.{field.name}" for message in seen.values() for field in message.fields}


def _reach(message: Descriptor, seen: dict[str, Descriptor]) -> None:
    if message.full_name in seen or not message.full_name.startswith("baton.v1."):
        return
    seen[message.full_name] = message
    for field in message.fields:
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            _reach(field.message_type, seen)


class Noted:
    """The fields that were set in what was sent."""

    def __init__(self) -> None:
        self.fields: set[str] = set()

    def note(self, message: Message) -> None:
        """Note the fields that are set, however deep."""
        for field, value in message.ListFields():
            self.fields.add(f"{message.DESCRIPTOR.name}.{field.name}")
            kind = field.message_type
            if kind is None or kind.GetOptions().map_entry or not kind.full_name.startswith("baton.v1."):
                continue
            for inner in value if field.is_repeated else (value,):
                self.note(inner)


class NotingClient(Client):
    """A client whose stubs note what they send."""

    def __init__(self, client: Client, noted: Noted) -> None:
        super().__init__(client.channel)
        for name in ("agents", "sessions", "runner", "handlers"):
            setattr(self, name, _NotingStub(getattr(self, name), noted))


class _NotingStub:
    def __init__(self, stub: Any, noted: Noted) -> None:
        self._stub, self._noted = stub, noted

    def __getattr__(self, method: str) -> Callable[..., Any]:
        rpc = getattr(self._stub, method)

        def call(*request: Message) -> Any:
            for message in request:
                self._noted.note(message)
            made = rpc(*request)
            return made if request else _NotingStream(made, self._noted)

        return call


class _NotingStream:
    def __init__(self, call: Any, noted: Noted) -> None:
        self._call, self._noted = call, noted

    async def write(self, message: Message) -> None:
        self._noted.note(message)
        await self._call.write(message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


def missing(declared: Mapping[str, frozenset[str]], known: set[str]) -> Iterator[str]:
    """Say which known fields no test declares, and which declared ones are not known."""
    told = frozenset().union(*declared.values())
    yield from (f"{field} is sent by no test" for field in sorted(known - told))
    yield from (f"{field} is no field of a request" for field in sorted(told - known))
