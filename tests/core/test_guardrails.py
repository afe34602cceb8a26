"""Guardrails and filters: what they hold up, what they stop, what their answers may look like."""

import json

import pytest
from tests.core.driving import Turn
from tests.core.making import call, names

from baton_server.core.agents import Guardrail
from baton_server.core.commands import CallModel
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import GuardrailTripped, HookKind, HookSettled, TurnStatus
from baton_server.core.hooks.answers import AnswerError
from baton_server.core.hooks.packing import ModelInput, pack_input, unpack_input
from baton_server.core.hooks.question import Question
from baton_server.core.inputs import Begun
from baton_server.core.responses import read_items
from baton_server.core.run_config import RunConfig
from baton_server.core.tools import HookRef

BLOCKING = Guardrail(name="no_pii", check=HookRef(name="no_pii"), blocking=True)
BESIDE = Guardrail(name="polite", check=HookRef(name="polite"))


def test_a_blocking_guardrail_comes_before_the_model() -> None:
    """The request is owed once it has passed, and not before."""
    turn = Turn(guardrails=(BLOCKING,))
    turn.begin()
    assert [type(command) for command in turn.owed] == [Question]

    turn.guard()

    assert turn.owed == (CallModel(round=1),)


def test_a_turn_without_input_is_judged_by_its_history() -> None:
    """What the model is to be sent was not said to this agent yet."""
    turn = Turn(guardrails=(BLOCKING,), history=('{"role":"user","content":"Before."}',))

    turn.feed(Begun(items=()))

    assert turn.payload(HookKind.INPUT_GUARDRAIL) == {"input": [{"role": "user", "content": "Before."}]}
    turn.guard('{"tripped":true}')
    assert turn.reason is Reason.INPUT_GUARDRAIL_TRIPPED


def test_a_reply_waits_for_the_guardrail_beside_it() -> None:
    """It counts for nothing while the verdict is out, so that what a guardrail stops has called no function."""
    turn = Turn(guardrails=(BESIDE,))
    turn.begin()
    assert [type(command) for command in turn.owed] == [Question, CallModel]

    assert turn.reply(call()) == []
    turn.guard()
    turn.reply(call())

    assert len(turn.open) == 1


@pytest.mark.parametrize("guardrail", [BLOCKING, BESIDE])
def test_one_that_trips_ends_the_turn_and_keeps_the_input(guardrail: Guardrail) -> None:
    """The reason names it, the event has what it told, and nobody is asked any more."""
    turn = Turn(guardrails=(guardrail, BESIDE))
    turn.begin("My card is 4111 1111 1111 1111.")

    recorded = turn.guard('{"tripped":true,"info":{"found":"card"}}')

    assert names(recorded) == ["HookSettled", "GuardrailTripped", "TurnEnded"]
    assert recorded[1] == GuardrailTripped(name=guardrail.name, info_json='{"found":"card"}')
    assert (turn.status, turn.reason) == (TurnStatus.FAILED, Reason.INPUT_GUARDRAIL_TRIPPED)
    assert turn.state.failure is not None
    assert turn.state.failure.metadata == {"guardrail": guardrail.name}
    assert [in_history for _, in_history in turn.recorded()] == [True]
    assert turn.owed == ()


@pytest.mark.parametrize("late", [False, True])
def test_steered_input_is_judged_too(late: bool) -> None:
    """What comes in later is asked about alone, and waits while an earlier question is out."""
    turn = Turn(guardrails=(BLOCKING,))
    turn.begin()
    assert turn.steer("Wait!") == []
    turn.guard()
    if late:
        turn.reply(call())
        turn.settle(turn.open[0])

    turn.steer("And my card is 4111.")

    assert turn.payload(HookKind.INPUT_GUARDRAIL) == {"input": [{"content": "And my card is 4111.", "role": "user"}]}
    turn.guard('{"tripped":true}')
    assert turn.reason is Reason.INPUT_GUARDRAIL_TRIPPED


def test_what_comes_after_a_round_is_judged_anew() -> None:
    """A guardrail is asked once about each batch of input, not once for the turn."""
    turn = Turn(guardrails=(BESIDE,))
    turn.begin()
    first = turn.asked
    turn.guard()
    turn.reply(call())
    turn.settle(turn.open[0])
    assert turn.asked == []

    turn.steer("One more thing.")

    assert len(turn.asked) == 1
    assert turn.asked != first


@pytest.mark.parametrize(
    ("answer", "path"),
    [("", "$"), ("[]", "$"), ("{}", "$.tripped"), ('{"tripped":"yes"}', "$.tripped"), ('{"tripped":1}', "$.tripped")],
)
def test_nonsense_of_a_guardrail_ends_the_turn(answer: str, path: str) -> None:
    """Never taken for a pass; the reason says where the answer is wrong."""
    turn = Turn(guardrails=(BLOCKING,))
    turn.begin()

    turn.guard(answer)

    assert turn.reason is Reason.HOOK_ANSWER_INVALID
    assert turn.state.failure is not None
    assert turn.state.failure.metadata["path"] == path


def test_a_guardrail_that_nobody_answers_ends_the_turn() -> None:
    """With the reason that the host gives; an answer that comes later changes nothing."""
    turn = Turn(guardrails=(BLOCKING,))
    turn.begin()
    hook_id = turn.asked[0]
    late = Failure(reason=Reason.HOOK_TIMEOUT, message="late", metadata={"name": "no_pii"})

    turn.answer_hook(hook_id, HookKind.INPUT_GUARDRAIL, failure=late)

    assert turn.state.failure == late
    assert turn.answer_hook(hook_id, HookKind.INPUT_GUARDRAIL, '{"tripped":false}') == []


def test_an_answer_counts_once() -> None:
    """A worker that says it twice, or another that says otherwise, is not heard."""
    turn = Turn(guardrails=(BESIDE,))
    turn.begin()
    hook_id = turn.asked[0]
    turn.guard()

    assert turn.answer_hook(hook_id, HookKind.INPUT_GUARDRAIL, '{"tripped":true}') == []


def test_the_run_s_guardrails_stand_behind_the_agent_s() -> None:
    """Both are asked, each under an id of its own."""
    turn = Turn(guardrails=(BLOCKING,), config=RunConfig(input_guardrails=(BESIDE,)))
    turn.begin()

    assert [question.ref.name for question in turn.questions()] == ["no_pii", "polite"]
    assert len(set(turn.asked)) == 2


def test_a_filter_s_answer_is_kept_until_its_round_is_over() -> None:
    """So a request that is made again takes it from the log; the next round's filter is asked anew."""
    turn = Turn(config=RunConfig(model_input_filters=(HookRef(name="trim"),)))
    turn.begin()
    hook_id = turn.question(HookKind.MODEL_INPUT_FILTER).hook_id

    (settled,) = turn.answer(HookKind.MODEL_INPUT_FILTER, '{"input":[]}')

    assert isinstance(settled, HookSettled)
    assert turn.state.own.hooks[hook_id].answer_json == '{"input":[]}'
    turn.reply(call())
    assert turn.state.own.hooks == {}
    assert turn.answer_hook(hook_id, HookKind.MODEL_INPUT_FILTER, '{"input":[]}') == []


def test_a_filter_without_an_answer_ends_the_turn() -> None:
    """The request that it was to change is not sent as it is."""
    turn = Turn(config=RunConfig(model_input_filters=(HookRef(name="trim"),)))
    turn.begin()
    raised = Failure(reason=Reason.HOOK_RAISED, message="KeyError")

    turn.answer(HookKind.MODEL_INPUT_FILTER, failure=raised)

    assert (turn.status, turn.reason) == (TurnStatus.FAILED, Reason.HOOK_RAISED)


ITEMS = ('{"role":"user","content":"a"}', '{"type":"x","n":1.0}', '{"role":"user","content":"c"}')


def test_a_packed_answer_says_by_position_what_was_kept() -> None:
    """However the client wrote the items anew: what it kept goes back to the model byte for byte."""
    answer = json.dumps({"input": [json.loads(ITEMS[2]), {"role": "user", "content": "new"}, json.loads(ITEMS[0])]})

    packed = pack_input(ITEMS, answer)

    assert packed == '{"input":[{"$kept":[2,3]},{"role": "user", "content": "new"},{"$kept":[0,1]}]}'
    given = unpack_input(ModelInput(instructions="Be brief.", items=ITEMS), packed)
    assert given == ModelInput(
        instructions="Be brief.", items=(ITEMS[2], '{"role": "user", "content": "new"}', ITEMS[0])
    )


def test_a_long_input_that_is_kept_packs_into_a_few_bytes() -> None:
    """The log does not grow with the square of the session."""
    items = tuple(json.dumps({"role": "user", "content": f"{n} " * 200}) for n in range(500))

    packed = pack_input(items, f'{{"instructions":"i","input":[{",".join(items)}]}}')

    assert packed == '{"instructions":"i","input":[{"$kept":[0,500]}]}'
    assert unpack_input(ModelInput(instructions=None, items=items), packed).items == items


def test_instructions_that_are_null_are_none_and_those_left_out_stay() -> None:
    """A filter that says nothing of them leaves them."""
    given = ModelInput(instructions="Be brief.", items=())

    assert unpack_input(given, pack_input((), '{"input":[],"instructions":null}')).instructions is None
    assert unpack_input(given, pack_input((), '{"input":[]}')).instructions == "Be brief."
    assert unpack_input(given, pack_input((), '{"input":[],"instructions":"Sing."}')).instructions == "Sing."


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ("null", "$"),
        ("{}", "$.input"),
        ('{"input":"a"}', "$.input"),
        ('{"input":["a"]}', "$.input[0]"),
        ('{"input":[{"$kept":[0,9]}]}', "$.input[0]"),
        ('{"input":[],"instructions":5}', "$.instructions"),
        ('{"input":[' + "[" * 200, "$"),
    ],
)
def test_nonsense_of_a_filter_is_told_with_its_place(answer: str, path: str) -> None:
    """Its author reads where the answer is wrong."""
    with pytest.raises(AnswerError) as raised:
        pack_input(ITEMS, answer)

    assert raised.value.path == path


def test_a_number_is_no_text() -> None:
    """An item in which 1 has become "1" was changed, and goes as it was changed."""
    assert pack_input(('{"n":1}',), '{"input":[{"n":"1"}]}') == '{"input":[{"n":"1"}]}'


def test_a_question_carries_the_items_as_they_are() -> None:
    """Neither a big integer nor a float changes on the way to a guardrail."""
    items = ('{"type":"x","n":9007199254740993}', '{"type":"x","n":1.0}')
    turn = Turn(guardrails=(BLOCKING,), history=items[:1])
    turn.feed(Begun(items=read_items(f"[{items[1]}]")))

    (question,) = turn.questions()

    assert question.payload(turn.history) == f'{{"input":[{items[0]},{items[1]}]}}'
