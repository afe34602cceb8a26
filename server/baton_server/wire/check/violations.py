"""Violations: what is wrong with a request, gathered field by field, told all at once.

A path names a field as proto does, `agent.tools[2].function.name`; of a oneof without an arm it is the oneof's
own name. Lengths are in characters, as Python counts them. Faults of a graph of agents have a reason of their own,
which is told where nothing else is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from baton_server.core import jsontext
from baton_server.core.errors import Failure, FieldViolation, Reason, Refused, clip
from baton_server.wire.errors import MESSAGE_BYTES, violations_message
from baton_server.wire.times import read_duration

ID_CHARACTERS = 128
LABELS, LABEL_KEY, LABEL_VALUE = 16, 64, 512
SCOPES, SCOPE_CHARACTERS = 8, 256
MESSAGE_FLOOR = 65_536

FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")

_STRING = 9  # FieldDescriptor.TYPE_STRING


class Violations:
    """Gathers what is wrong. Each method checks one thing of one field and adds what it finds."""

    def __init__(self) -> None:
        self._found: list[FieldViolation] = []
        self._faults: list[tuple[FieldViolation, Mapping[str, str]]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def found(self) -> tuple[FieldViolation, ...]:
        """All that was found so far."""
        return tuple(self._found)

    def add(self, path: str, problem: str) -> None:
        """Note that a field is wrong."""
        self._found.append(FieldViolation(path=path, problem=problem))

    def fault(self, path: str, words: str, /, **facts: str) -> None:
        """Note that a graph of agents does not hold together. `facts`: metadata of AGENT_GRAPH_INVALID."""
        self._faults.append((FieldViolation(path=path, problem=words), facts))

    # -- texts ----------------------------------------------------------------------------------

    def text(self, path: str, value: str, most: int, *, required: bool = False) -> None:
        """Check the length of a text."""
        if required and not value:
            self.add(path, f"is required, 1 to {most} characters")
        elif len(value) > most:
            self.add(path, f"has {len(value)} characters, at most {most} are allowed")

    def id(self, path: str, value: str) -> None:
        """Check a required id or request_id."""
        self.text(path, value, ID_CHARACTERS, required=True)

    def optional_id(self, path: str, value: str) -> None:
        """Check an id that may be empty."""
        self.text(path, value, ID_CHARACTERS)

    def function_name(self, path: str, value: str) -> None:
        """Check the name of a function."""
        if not FUNCTION_NAME.fullmatch(value):
            self.add(path, f"is {value[:80]!r}, must be 1 to 64 of A-Z a-z 0-9 _ -")

    def optional_function_name(self, path: str, value: str) -> None:
        """Check the name of a function that may be empty."""
        if value:
            self.function_name(path, value)

    def digest(self, path: str, value: str) -> None:
        """Check a required SHA-256 digest."""
        if not _DIGEST.fullmatch(value):
            self.add(path, f"is {value[:80]!r}, must be 64 lower-case hex digits")

    def optional_digest(self, path: str, value: str) -> None:
        """Check a SHA-256 digest that may be empty."""
        if value:
            self.digest(path, value)

    def json(self, path: str, text: str) -> object:
        """Check that a text is JSON; returns its shape, None also where it is none."""
        try:
            shape: object = jsontext.parse(text)
        except jsontext.JsonError as error:
            self.add(path, f"is {error}")
            return None
        return shape

    def json_object(self, path: str, text: str) -> Mapping[str, object] | None:
        """Check that a text is a JSON object; returns its shape, None where it is none."""
        before = len(self._found)
        shape = self.json(path, text)
        if isinstance(shape, dict):
            return shape
        if len(self._found) == before:
            self.add(path, f"is {text[:80]!r}, must be a JSON object")
        return None

    def typed_object(self, path: str, text: str) -> Mapping[str, object]:
        """Check that a text is a JSON object with a text `type`; returns its shape, empty where it is none."""
        before = len(self._found)
        shape = self.json_object(path, text) or {}
        # Shapes have numbers as texts: a text is told from one by its quotes.
        said = shape and any(name == "type" and raw[0] == '"' and value for name, value, raw in jsontext.members(text))
        if len(self._found) == before and not said:
            self.add(path, 'must have a "type" that is a text')
        return shape if said else {}

    def one_of(self, path: str, value: str, allowed: Iterable[str]) -> None:
        """Check a text that is empty or one of some words."""
        words = tuple(allowed)
        if value and value not in words:
            self.add(path, f"is {value[:80]!r}, must be empty or one of {', '.join(words)}")

    def no_nul(self, message: Message, path: str = "") -> None:
        """Refuse NUL characters in any text, however deep: a database keeps no such text."""
        # Zero bytes stand for other things too, so finding one only means that a look is due.
        if b"\0" in message.SerializeToString():
            for where in _with_nul(message, path):
                self.add(where, "holds a NUL character")

    # -- numbers --------------------------------------------------------------------------------

    def between(self, path: str, value: float, low: float, high: float) -> None:
        """Check a number's range; NaN is in none."""
        if not low <= value <= high:
            self.add(path, f"is {value}, must be {low} to {high}")

    def at_least(self, path: str, value: int, low: int) -> None:
        """Check a number's lower bound."""
        if value < low:
            self.add(path, f"is {value}, must be at least {low}")

    def page_size(self, path: str, value: int, most: int = 100) -> None:
        """Check how many a list is to give; 0 leaves it to the server."""
        self.between(path, value, 0, most)

    def message_bytes(self, path: str, value: int) -> None:
        """Check the largest message that a peer takes; 0 leaves it to the server."""
        if value != 0 and value < MESSAGE_FLOOR:
            self.add(path, f"is {value}, must be 0 or at least {MESSAGE_FLOOR}")

    def duration(self, path: str, value: Duration, low_s: float, high_s: float) -> None:
        """Check a duration's range in seconds."""
        if abs(value.nanos) > 999_999_999 or value.seconds * value.nanos < 0:
            self.add(path, "is no duration: seconds and nanos must have one sign, nanos below one second")
        else:
            self.between_s(path, read_duration(value), low_s, high_s)

    def between_s(self, path: str, seconds: float, low_s: float, high_s: float) -> None:
        """Check a number of seconds."""
        if not low_s <= seconds <= high_s:
            self.add(path, f"is {seconds:g} s, must be {low_s:g} s to {high_s:g} s")

    # -- sets of values -------------------------------------------------------------------------

    def enum(self, path: str, value: int, kind: Any, *, required: bool = False) -> None:
        """Check an enum's number; `kind` is the generated enum. Required: 0 is wrong too."""
        if value not in kind.values():
            self.add(path, f"is {value}, which is no {kind.DESCRIPTOR.name}")
        elif required and value == 0:
            self.add(path, f"is {kind.Name(0)}, must be another {kind.DESCRIPTOR.name}")

    def is_true(self, path: str, value: bool, otherwise: str) -> None:
        """Check a flag that says something only when it is true. `otherwise`: what to do in place of false."""
        if not value:
            self.add(path, f"is false, must be true; or {otherwise}")

    def at_most(self, path: str, count: int, most: int, what: str) -> None:
        """Check how many elements a list has."""
        if count > most:
            self.add(path, f"has {count} {what}, at most {most} are allowed")

    def arm(self, path: str, message: Message, oneof: str) -> str | None:
        """Check that a oneof is set; returns the name of its arm."""
        arm: str | None = message.WhichOneof(oneof)
        if arm is None:
            names = [field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields]
            self.add(join(path, oneof), f"exactly one of {', '.join(names)} is required")
        return arm

    def labels(self, path: str, labels: Mapping[str, str]) -> None:
        """Check metadata."""
        self.at_most(path, len(labels), LABELS, "pairs")
        for key, value in labels.items():
            where = f"{path}[{key[:LABEL_KEY]!r}]"
            if not 1 <= len(key) <= LABEL_KEY:
                self.add(where, f"has a key of {len(key)} characters, 1 to {LABEL_KEY} are allowed")
            if len(value) > LABEL_VALUE:
                self.add(where, f"has {len(value)} characters, at most {LABEL_VALUE} are allowed")

    def scopes(self, path: str, scopes: Iterable[str], *, required: bool = False) -> None:
        """Check scopes. Required: the empty one may not be named."""
        given = list(scopes)
        self.at_most(path, len(given), SCOPES, "scopes")
        for index, scope in enumerate(given):
            self.text(f"{path}[{index}]", scope, SCOPE_CHARACTERS, required=required)

    # -- the end --------------------------------------------------------------------------------

    def raise_if_any(self) -> None:
        """Raise Refused with all that was found, if anything was.

        INVALID_REQUEST; AGENT_GRAPH_INVALID where faults of a graph are all that is wrong.
        """
        if self._found:
            violations = (*self._found, *(fault for fault, _ in self._faults))
            failure = Failure(
                reason=Reason.INVALID_REQUEST,
                message=violations_message(violations),
                metadata={"fields": str(len(violations))},
            )
            raise Refused(failure, violations)
        if self._faults:
            words = "; ".join(f"{fault.path}: {fault.problem}" for fault, _ in self._faults)
            raise Refused(
                Failure(
                    reason=Reason.AGENT_GRAPH_INVALID,
                    message=clip(f"The graph of agents does not hold together: {words}.", MESSAGE_BYTES),
                    metadata=self._faults[0][1],
                )
            )


def join(path: str, name: str) -> str:
    """Go one name deeper into a path; empty: the request itself."""
    return f"{path}.{name}" if path else name


def _with_nul(message: Message, path: str) -> Iterator[str]:
    for field, value in message.ListFields():
        where = join(path, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            # Every map of ours is from text to text.
            yield from (where for key, text in value.items() if "\0" in key or "\0" in text)
        elif field.message_type is not None:
            many = enumerate(value) if field.is_repeated else [(-1, value)]
            for index, inner in many:
                yield from _with_nul(inner, where if index < 0 else f"{where}[{index}]")
        elif field.type == _STRING:
            texts = list(value) if field.is_repeated else [value]
            for index, text in enumerate(texts):
                if "\0" in text:
                    yield f"{where}[{index}]" if field.is_repeated else where
