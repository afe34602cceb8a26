"""Hooks: each question reaches somebody who serves it, within windows, and its first answer counts."""

from __future__ import annotations

import pytest
from tests.app.calls.hooking import GUARD, PASSED, answer, ask, asked, failed, failure, hosts, occasion, says
from tests.support.room import Room

from baton_server.app.calls.frames import Ask
from baton_server.app.calls.hooks import MOST_WAITING, Answer
from baton_server.core.errors import Reason
from baton_server.core.events import HookKind

# -- who is asked --------------------------------------------------------------------------------


async def test_a_question_is_answered_by_who_serves_it(room: Room) -> None:
    """The worker is told whose moment it is and until when; the asker gets the answer as it came."""
    worker = await room.worker(*hosts("no_pii"))

    (future,) = ask(room, "no_pii", agent="Helper", round=3)
    batch = worker.expect(Ask)

    assert (batch.session_id, batch.turn_id, batch.agent, batch.round) == ("sess_1", "turn_1", "Helper", 3)
    (question,) = batch.questions
    assert (question.hook_id, question.attempt, question.kind, question.name) == ("hook_no_pii", 1, GUARD, "no_pii")
    assert question.payload_json == '{"input":[]}'
    assert question.deadline == room.clock.wall() + 30
    assert answer(room, worker, batch, answer_json='{ "tripped": false }')
    assert future.result() == Answer(
        hook_id="hook_no_pii", answer_json='{ "tripped": false }', worker_id=worker.id
    )  # fmt: skip


async def test_a_function_or_another_kind_of_the_name_is_not_asked(room: Room) -> None:
    """A name is served by kind."""
    function = await room.worker("no_pii")
    filters = await room.worker(*hosts("no_pii", kind=HookKind.MODEL_INPUT_FILTER))

    ask(room, "no_pii")

    function.nothing()
    filters.nothing()


async def test_the_first_scope_that_serves_the_name_has_the_question(room: Room) -> None:
    """Also while its worker has no room: who serves it elsewhere may mean something else."""
    elsewhere = await room.worker(*hosts("no_pii"))
    mine = await room.worker(*hosts("no_pii"), scopes=("svc-7",), max_hook_batches=1)

    for number in range(2):
        room.hooks.ask(occasion(scopes=("svc-7", "")), [asked("no_pii", f"hook_{number}")])

    mine.expect(Ask)
    mine.nothing()
    elsewhere.nothing()


async def test_what_one_moment_asks_of_one_worker_is_one_batch(room: Room) -> None:
    """In the order in which it was asked; what only another serves is asked there."""
    worker = await room.worker(*hosts("a", "b", "c"))
    other = await room.worker(*hosts("d"))

    ask(room, "a", "d", "b", "c")

    assert [question.name for question in worker.expect(Ask).questions] == ["a", "b", "c"]
    assert [question.name for question in other.expect(Ask).questions] == ["d"]


async def test_a_moment_is_not_scattered_over_workers_that_all_serve_it(room: Room) -> None:
    """One batch costs one place in one window."""
    workers = [await room.worker(*hosts("a", "b", "c")) for _ in range(3)]

    ask(room, "a", "b", "c")

    assert sorted(len(worker.frames) for worker in workers) == [0, 0, 1]


async def test_several_moments_are_several_batches(room: Room) -> None:
    """Each has its own id, unique on the stream."""
    worker = await room.worker(*hosts("a", "b"))

    ask(room, "a")
    ask(room, "b", turn_id="turn_2")
    first, second = worker.expect(Ask), worker.expect(Ask)

    assert first.batch_id != second.batch_id
    assert (first.turn_id, second.turn_id) == ("turn_1", "turn_2")


async def test_the_worker_with_most_room_is_asked(room: Room) -> None:
    """As windows are wide, and as they fill."""
    narrow = await room.worker(*hosts("a"), max_hook_batches=1)
    wide = await room.worker(*hosts("a"), max_hook_batches=3)

    for number in range(4):
        room.hooks.ask(occasion(), [asked("a", f"hook_{number}")])

    assert (len(narrow.frames), len(wide.frames)) == (1, 3)


async def test_hooks_take_no_credit(room: Room) -> None:
    """Functions that run long starve none of them."""
    worker = await room.worker(*hosts("a"), "f", credit=0)

    ask(room, "a")

    worker.expect(Ask)


# -- windows -------------------------------------------------------------------------------------


async def test_no_more_batches_are_out_than_the_worker_said(room: Room) -> None:
    """More wait, oldest first; an answer makes room for the next."""
    worker = await room.worker(*hosts("a"), max_hook_batches=2)
    for number in range(4):
        room.hooks.ask(occasion(), [asked("a", f"hook_{number}")])
    first, second = worker.expect(Ask), worker.expect(Ask)
    worker.nothing()

    assert answer(room, worker, second)
    third = worker.expect(Ask)
    worker.nothing()
    assert answer(room, worker, first)

    assert third.questions[0].hook_id == "hook_2"
    assert worker.expect(Ask).questions[0].hook_id == "hook_3"


async def test_a_batch_counts_until_its_last_answer(room: Room) -> None:
    """Some answers may come first, and count as they come."""
    worker = await room.worker(*hosts("a", "b"), max_hook_batches=1)
    both = ask(room, "a", "b")
    room.hooks.ask(occasion(), [asked("a", "hook_next")])
    batch = worker.expect(Ask)

    assert answer(room, worker, batch, 1)
    worker.nothing()
    assert [future.done() for future in both] == [False, True]
    assert answer(room, worker, batch, 0)

    assert worker.expect(Ask).questions[0].hook_id == "hook_next"


async def test_a_moment_that_waits_is_asked_as_one_batch(room: Room) -> None:
    """Waiting does not take it apart."""
    worker = await room.worker(*hosts("a", "b", "c"), max_hook_batches=1)
    ask(room, "c")
    ask(room, "a", "b")
    batch = worker.expect(Ask)

    answer(room, worker, batch)

    assert [question.name for question in worker.expect(Ask).questions] == ["a", "b"]
    worker.nothing()


async def test_a_worker_that_comes_is_asked_what_waits(room: Room) -> None:
    """By its Hello or by a Register; nothing comes before its Welcome."""
    (first,) = ask(room, "a")
    (second,) = ask(room, "b")

    worker = await room.worker(*hosts("a"))
    answer(room, worker, worker.expect(Ask))
    room.workers.register(worker.attached.worker, hosts("b"))
    answer(room, worker, worker.expect(Ask))

    assert (first.result().answer_json, second.result().answer_json) == (PASSED, PASSED)


async def test_too_many_that_wait_are_refused(room: Room) -> None:
    """A crowd is told at once, and costs no memory."""
    room.hooks.ask(occasion(), [asked("a", f"hook_{number}") for number in range(MOST_WAITING)])

    (one_more,) = ask(room, "a")

    assert await failed(room, one_more) is Reason.HOOK_TIMEOUT
    assert str(MOST_WAITING) in failure(one_more).message


# -- answers -------------------------------------------------------------------------------------


async def test_an_answer_counts_once(room: Room) -> None:
    """The first one; a second, one to an attempt that never was, and one from who was not asked do not."""
    worker, other = await room.worker(*hosts("a")), await room.worker("f")
    (future,) = ask(room, "a")
    batch = worker.expect(Ask)
    unknown = Ask(
        batch_id="b", session_id="s", turn_id="t", agent="A", round=1,
        questions=(asked("z").question(1, 0.0), asked("a").question(2, 0.0)),
    )  # fmt: skip

    assert not answer(room, other, batch)
    assert room.hooks.replied(worker.id, [says(unknown, 0), says(unknown, 1), says(batch), says(batch)]) == [
        False,
        False,
        True,
        False,
    ]

    assert future.result().worker_id == worker.id
    worker.nothing()


async def test_a_hook_that_raised_fails_with_its_type(room: Room) -> None:
    """And the end of its stack, for its author."""
    worker = await room.worker(*hosts("a"))
    (future,) = ask(room, "a")

    answer(room, worker, worker.expect(Ask), failure="… KeyError: 'x'", crash_type="KeyError")

    assert await failed(room, future) is Reason.HOOK_RAISED
    told = failure(future)
    assert told.metadata == {"kind": "INPUT_GUARDRAIL", "name": "a", "type": "KeyError"}
    assert told.message == "The hook 'a' (INPUT_GUARDRAIL) raised KeyError: … KeyError: 'x'"
    assert future.result().worker_id == worker.id


async def test_a_hook_that_says_a_failure_has_no_type(room: Room) -> None:
    """Its words may be shown."""
    worker = await room.worker(*hosts("a"))
    (future,) = ask(room, "a")

    answer(room, worker, worker.expect(Ask), failure="the list is away")

    told = failure(future)
    assert told.metadata == {"kind": "INPUT_GUARDRAIL", "name": "a"}
    assert told.message.endswith("said that it failed: the list is away")


@pytest.mark.parametrize("words", ["", "x" * 768])
async def test_the_message_of_a_failure_stays_short(room: Room, words: str) -> None:
    """It fits into 1 KiB with the longest name and type."""
    name = "n" * 64
    worker = await room.worker(*hosts(name))
    (future,) = ask(room, name)

    answer(room, worker, worker.expect(Ask), failure=words, crash_type="é" * 256)

    told = failure(future)
    assert len(told.message.encode()) <= 1024


async def test_what_is_asked_already_keeps_its_future(room: Room) -> None:
    """A turn that is looked at again asks nobody twice."""
    worker = await room.worker(*hosts("a"))

    (first,) = ask(room, "a")
    (again,) = ask(room, "a")

    assert again is first
    worker.expect(Ask)
    worker.nothing()
