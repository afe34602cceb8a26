"""Who serves what: by kind, name and version, in the scopes of their workers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from baton_server.app.calls.frames import Credit, Handler, HandlerKey, Link
from baton_server.app.calls.registry import UNSERVED_REMEMBERED_S, Registry
from baton_server.app.calls.worker import Worker
from baton_server.core.errors import Reason
from baton_server.core.events import HookKind

CITY = '{"type":"object","required":["city"]}'
PLACE = '{"type":"object","required":["place"]}'


def attached(registry: Registry, worker_id: str, *handlers: Handler, scopes: tuple[str, ...] = ("",)) -> Worker:
    """Attach a worker with credit that serves these handlers."""
    worker = Worker(
        worker_id=worker_id, instance_id=worker_id, holder=worker_id, scopes=scopes, link=cast(Link, None), heard_at=0.0
    )
    worker.welcomed = True
    worker.grant(Credit(messages=10), 100)
    registry.add(worker)
    for handler in handlers:
        assert registry.register(worker, handler) is None
    return worker


def function(version: str = "", **said: Any) -> Handler:
    """Make a handler of the function f."""
    return Handler(name="f", version=version, **said)


def found(registry: Registry, version: str = "", scopes: tuple[str, ...] = ("",), avoid: str = "") -> str | None:
    """Say who gets a call of f."""
    one = registry.find("f", version, scopes, avoid)
    return None if one is None else one[0].worker_id


# -- versions ------------------------------------------------------------------------------------


def test_a_call_without_a_version_goes_to_the_newest() -> None:
    """The newest is the version that was registered first after all others, not the worker that came last."""
    registry = Registry()
    attached(registry, "old", function("1"))
    new = attached(registry, "new", function("2"))
    attached(registry, "old again", function("1"))

    assert found(registry) == "new"
    new.credit = 0
    assert found(registry) in ("old", "old again")


def test_a_call_with_a_version_goes_to_no_other() -> None:
    """However much room the others have."""
    registry = Registry()
    old = attached(registry, "old", function("1"))
    attached(registry, "new", function("2"))

    assert found(registry, "1") == "old"
    old.credit = 0
    assert found(registry, "1") is None
    assert found(registry, "3") is None


def test_the_first_scope_that_serves_the_name_has_it_whatever_its_versions() -> None:
    """A later scope may mean something else by the name."""
    registry = Registry()
    attached(registry, "own", function("1"), scopes=("own",))
    attached(registry, "general", function("2"))

    assert found(registry, "2", ("own", "")) is None
    assert not registry.serves("f", ("own", ""), "2")
    assert registry.serves("f", ("own", ""), "1")
    assert registry.serves("f", ("own", ""))


def test_a_version_keeps_its_rank_while_its_workers_restart() -> None:
    """A rollout is not undone because the workers of the old version come back last."""
    registry = Registry()
    old = attached(registry, "old", function("1"))
    attached(registry, "new", function("2"))
    registry.remove(old, 10.0)
    registry.forget_unserved(11.0)

    attached(registry, "old again", function("1"))

    assert found(registry) == "new"


def test_a_version_that_was_gone_for_long_begins_anew() -> None:
    """What is kept about versions is bounded."""
    registry = Registry()
    old = attached(registry, "old", function("1"))
    attached(registry, "new", function("2"))
    registry.remove(old, 10.0)
    registry.forget_unserved(11.0 + UNSERVED_REMEMBERED_S)

    attached(registry, "old again", function("1"))

    assert found(registry) == "old again"
    assert registry.unserved_since("f", ("",), "1") is None


def test_versions_stand_side_by_side_with_other_parameters() -> None:
    """Within one version they must agree; a refused handler is remembered, for whoever asks why nothing comes."""
    registry = Registry()
    attached(registry, "one", function("1", parameters_json=CITY))
    attached(registry, "two", function("2", parameters_json=PLACE))
    third = attached(registry, "three")

    failure = registry.register(third, function("2", parameters_json=CITY))

    assert failure is not None
    assert (failure.reason, dict(failure.metadata)) == (
        Reason.HANDLER_CONFLICT,
        {"name": "f", "scope": "", "version": "2"},
    )
    assert third.refused == {function("2").key: failure}
    assert registry.register(third, function("2", parameters_json=PLACE)) is None
    assert third.refused == {}


def test_one_worker_may_serve_several_versions() -> None:
    """And takes each of them back alone."""
    registry = Registry()
    worker = attached(registry, "both", function("1"), function("2"))

    registry.unregister(worker, (function("2").key,), 5.0)

    assert found(registry) == "both"
    assert found(registry, "2") is None
    assert registry.unserved_since("f", ("",), "2") == 5.0
    assert registry.unserved_since("f", ("",)) is None


def test_what_is_said_about_a_function_is_that_of_the_newest_version_with_parameters() -> None:
    """Where nobody says any, it is that of whoever serves it."""
    registry = Registry()
    attached(registry, "one", function("1", parameters_json=CITY))
    attached(registry, "two", function("2"))

    assert registry.handler("f", ("",)) == function("1", parameters_json=CITY)
    assert registry.handler("f", ("",), "2") == function("2")
    assert registry.handler("f", ("",), "3") is None
    attached(registry, "three", function("3", parameters_json=PLACE))
    assert registry.handler("f", ("",)) == function("3", parameters_json=PLACE)


def test_a_worker_that_gave_a_call_back_gets_it_only_if_no_other_can() -> None:
    """An older version is another one."""
    registry = Registry()
    old = attached(registry, "old", function("1"))
    attached(registry, "new", function("2"))

    assert found(registry, avoid="new") == "old"
    old.credit = 0
    assert found(registry, avoid="new") == "new"


# -- hooks ---------------------------------------------------------------------------------------


def test_a_hook_and_a_function_of_one_name_are_two_things() -> None:
    """A check has the name of the function that it checks."""
    registry = Registry()
    check = Handler(name="f", kind=HookKind.EFFECT_CHECK)
    worker = attached(registry, "both", function(), check)
    registry.unregister(worker, (function().key,), 3.0)

    assert found(registry) is None
    assert not registry.serves("f", ("",))
    assert registry.serves("f", ("",), kind=HookKind.EFFECT_CHECK)
    assert registry.hosts(HookKind.EFFECT_CHECK, "f", ("own", "")) == (worker,)
    assert registry.hosts(HookKind.INPUT_GUARDRAIL, "f", ("",)) == ()


def test_hooks_are_hosted_in_the_first_scope_alone_lost_workers_included() -> None:
    """A lost one may come back within its grace."""
    registry = Registry()
    check = Handler(name="f", kind=HookKind.EFFECT_CHECK)
    own = attached(registry, "own", check, scopes=("own",))
    attached(registry, "general", check)
    own.lose(1.0)

    assert registry.hosts(HookKind.EFFECT_CHECK, "f", ("own", "")) == (own,)


# -- room ----------------------------------------------------------------------------------------


def test_a_handler_may_be_bounded_by_itself() -> None:
    """A worker with credit left takes no more calls of a handler than that one says."""
    registry = Registry()
    key = HandlerKey(kind=None, name="f")
    worker = attached(registry, "w", function(max_concurrency=2), Handler(name="g"))
    worker.hold(key, 0)
    assert found(registry) == "w"
    worker.hold(key, 0)

    assert found(registry) is None
    assert worker.busy(key)
    assert registry.find("g", "", ("",)) is not None
    worker.let_go(key, 0)
    assert found(registry) == "w"


@pytest.mark.parametrize("gone", ["lost_at", "ends_at"])
def test_a_worker_that_is_on_its_way_out_takes_nothing(gone: str) -> None:
    """Neither one whose stream broke nor one that was asked to attach anew; its names are served all the same."""
    registry = Registry()
    worker = attached(registry, "w", function())
    setattr(worker, gone, 1.0)

    assert found(registry) is None
    assert registry.serves("f", ("",))
