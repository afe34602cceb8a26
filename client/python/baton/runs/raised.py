"""What hooks of this process raised in a run, so that its caller gets the very exception that the program knows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from baton.errors import AgentsException, UserError
from baton.hooks import is_async
from baton.hooks.refs import LocalHook
from baton.v1 import event_pb2

_FAILED = ("HOOK_RAISED", "HOOK_ANSWER_INVALID")

_BORNE = frozenset(
    {
        event_pb2.HANDLER_KIND_NEEDS_APPROVAL,
        event_pb2.HANDLER_KIND_TOOL_ERROR,
        event_pb2.HANDLER_KIND_BLOCKED_OUTPUT,
        event_pb2.HANDLER_KIND_AGENT_INPUT,
        event_pb2.HANDLER_KIND_AGENT_OUTPUT,
        event_pb2.HANDLER_KIND_CUSTOM_DATA,
        event_pb2.HANDLER_KIND_MODEL_RETRY,
        event_pb2.HANDLER_KIND_LIFECYCLE,  # those that nobody waits for
    }
)
"""Kinds of which a run, or its root, goes on without an answer."""


class Raised:
    """Of one run. The last exception of each hook, by its kind and name."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str], Exception] = {}

    def watching(self, hook: LocalHook) -> LocalHook:
        """Make a hook that does the same, and is remembered here where it fails."""
        key = (event_pb2.HandlerKind.Name(hook.kind.number).removeprefix("HANDLER_KIND_"), hook.name)
        kind = replace(hook.kind, write=self._watched_write(key, hook.kind.write))
        raises = hook.kind.number not in _BORNE
        return replace(hook, kind=kind, function=self._watched(key, hook.function), raises=raises)

    def in_place_of(self, error: AgentsException) -> Exception:
        """Find what a failed hook raised; the error itself, if it is of another kind or the hook is not this process's.

        Where it gave what is no answer of its kind that is a UserError.
        """
        if error.reason not in _FAILED:
            return error
        kind, name = error.metadata.get("kind", ""), error.metadata.get("name", "")
        for (known_kind, known), raised in self._errors.items():
            if known_kind == kind and re.fullmatch(rf"{re.escape(known)}(-\d+)?", name):  # its lane's suffix
                return raised
        return error

    def _watched(self, key: tuple[str, str], function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def later(said: Awaitable[Any]) -> Any:
            try:
                return await said
            except Exception as error:
                self._errors[key] = error
                raise

        def call(data: Any) -> Any:
            try:
                said = function(data)
            except Exception as error:
                self._errors[key] = error
                raise
            return later(said) if inspect.isawaitable(said) else said

        async def call_async(data: Any) -> Any:
            return await later(function(data))

        return call_async if is_async(function) else call

    def _watched_write(self, key: tuple[str, str], write: Callable[[str, Any], str]) -> Callable[[str, Any], str]:
        def watched(name: str, said: Any) -> str:
            try:
                return write(name, said)
            except TypeError as error:
                self._errors[key] = UserError(str(error))
                raise

        return watched
