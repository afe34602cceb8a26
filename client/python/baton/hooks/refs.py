"""Hooks of an agent or a run as the contract names them; and those of this process, gathered to be hosted.

Whatever is written for the wire names its hooks through a `RefOf`. Written once with `Gathered`, it tells which hooks
of this process it has; written again with what hosts them, it carries their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from baton.errors import UserError
from baton.hooks import RemoteHook, adapted, name_of
from baton.hooks.kinds import HOOK_KINDS, HookKind
from baton.v1 import agent_pb2

MOST_NAME = 56
"""Characters of a local hook's name: what its scope may need to add still fits into 64."""

LOCAL_TIMEOUT_S = 600.0
"""How long a hook of this process may take: the most that the contract knows. Where the process is gone, or does not
answer, the server finds out by itself; so time alone is no reason to fail a run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HookUse:
    """A hook where it is used. `kind`: its name in HOOK_KINDS. `name`: how it is called, any text.

    `source`: a RemoteHook, or the object by which the agent or the run names a hook of this process; one object is one
    hook of a kind. `function` takes the data of the kind alone; None: it is a RemoteHook's.
    """

    kind: str
    source: Any
    name: str
    function: Callable[[Any], Any] | None


RefOf = Callable[[HookUse], agent_pb2.HookRef]
"""Names a hook for the wire."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalHook:
    """A hook of this process, under the name by which it is served. `raises`: what it raises, the run's caller gets."""

    kind: HookKind
    name: str
    source: object
    function: Callable[[Any], Any]
    raises: bool = False


def hook_use(
    kind: str,
    given: RemoteHook | Callable[..., Any],
    arguments: Callable[[Any], tuple[Any, ...]] | None = None,
    answer: Callable[[Any, Any], Any] | None = None,
    *,
    source: object = None,
    name: str | None = None,
) -> HookUse:
    """Use a hook: one elsewhere, or a function. `arguments`, `answer`: as of `adapted`; None: the data, what it says.

    `source` None: the function is named by itself. `name` None: by its own name.
    """
    if isinstance(given, RemoteHook):
        return HookUse(kind=kind, source=given, name=given.name, function=None)
    function = given if arguments is None else adapted(given, arguments, answer or _as_said)
    return HookUse(kind=kind, source=source or given, name=name or name_of(given), function=function)


def only_remote(use: HookUse) -> agent_pb2.HookRef:
    """Name a RemoteHook. Raises UserError for a function of this process, which nothing hosts here."""
    if use.function is not None:
        raise UserError(
            f"the hook {use.name!r} is a function of this process, which only a run of this process can host; serve it "
            "by a Worker and name it by RemoteHook"
        )
    made = agent_pb2.HookRef(name=use.source.name)
    if use.source.timeout is not None:
        made.timeout.FromTimedelta(timedelta(seconds=use.source.timeout))
    return made


def local_ref(name: str) -> agent_pb2.HookRef:
    """Name a hook of this process."""
    made = agent_pb2.HookRef(name=name)
    made.timeout.FromTimedelta(timedelta(seconds=LOCAL_TIMEOUT_S))
    return made


class Gathered:
    """The local hooks of one run, each under a name of its own. `ref_of` is a RefOf."""

    def __init__(self) -> None:
        self._hooks: dict[tuple[str, int], LocalHook] = {}
        self._taken: set[tuple[str, str]] = set()

    @property
    def hooks(self) -> list[LocalHook]:
        """All of them, in the order in which they were named."""
        return list(self._hooks.values())

    def ref_of(self, use: HookUse) -> agent_pb2.HookRef:
        """Name a hook, and keep it if it is of this process."""
        if use.function is None:
            return only_remote(use)
        key = (use.kind, id(use.source))
        if key not in self._hooks:
            own = self._own_name(use)
            self._taken.add((use.kind, own))
            self._hooks[key] = LocalHook(kind=HOOK_KINDS[use.kind], name=own, source=use.source, function=use.function)
        return local_ref(self._hooks[key].name)

    def _own_name(self, use: HookUse) -> str:
        """Make a name that fits the contract and that no other hook of the kind has here."""
        plain = re.sub("[^A-Za-z0-9_-]", "_", use.name)[:MOST_NAME] or use.kind
        own, number = plain, 1
        while (use.kind, own) in self._taken:
            number += 1
            own = f"{plain[: MOST_NAME - 5]}_{number}"
        return own


def _as_said(_data: Any, said: Any) -> Any:
    return said
