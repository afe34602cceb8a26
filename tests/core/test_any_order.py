"""Any order of inputs: duplicates, late results, wrong rounds, cancels at any time. The laws always hold.

They stand in `driving.assert_laws`, and are checked after every step; equality with the rebuilt state, after
every event.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.core.driving import Turn, call, hosted, refuse, say, think

from baton_server.core import hooks
from baton_server.core.agents import Guardrail, History, HookRef, RunConfig
from baton_server.core.commands import AskGuardrails, CallModel, CheckEffect, ServeCall, StopCalls
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import CancelMode, HookKind, TurnStatus
from baton_server.core.inputs import (
    CallExpired,
    CallsUnheld,
    CallTimedOut,
    GraceOver,
    NewItem,
    RedeliveryAsked,
    TextCutOff,
)
from baton_server.core.items import Settlement
from baton_server.core.state import Phase

CONFIGS = st.builds(
    RunConfig,
    max_turns=st.sampled_from([None, None, 0, 1, 2, 5]),
    unlimited_turns=st.booleans(),
    history=st.sampled_from([None, History.SESSION, History.CALLER]),
    model_input_filters=st.sampled_from([(), (), (HookRef(name="trim"),)]),
)
GUARDRAILS = st.lists(
    st.builds(Guardrail, name=st.just("no_pii"), hook=st.just(HookRef(name="no_pii")), blocking=st.booleans()),
    max_size=2,
).map(tuple)
VERDICTS = st.sampled_from(['{"tripped":false}'] * 6 + ['{"tripped":true,"info":[1]}', "{}", "nonsense"])
EFFECTS = st.sampled_from(
    ['{"effect":"none"}', '{"effect":"took_effect","output":"paid"}', '{"effect":"took_effect"}', '{"effect":"?"}']
)
ARGUMENTS = st.sampled_from(
    ['{"city":"Kyoto"}', '{"city":"Oslo"}', '{"order":1}', '{"order":2}', "{}", "", "{", "[]", '{"city":5}']
)
FUNCTIONS = st.sampled_from(["get_weather", "get_weather", "take_note", "pay", "pay"])
PICK = st.integers(0, 7)
SMALL = st.integers(0, 2)
LUCK = st.integers(0, 5)
"""Above 0, a rule that could end the turn does something ordinary instead: else no turn would live long."""
OTHERS = st.sampled_from([think(), hosted(), say("Hello."), say("")])


@st.composite
def calls(draw: st.DrawFn) -> list[NewItem]:
    """Draws calls of one reply, most of them good: ids are made distinct by the machine."""
    return [call(draw(FUNCTIONS), draw(ARGUMENTS), id=f"c{n}") for n in range(draw(st.integers(1, 4)))]


class AnyOrder(RuleBasedStateMachine):
    """Feeds a turn whatever comes."""

    turn: Turn
    texts: int = 0

    @initialize(config=CONFIGS, luck=LUCK, guardrails=GUARDRAILS)
    def accept(self, config: RunConfig, luck: int, guardrails: tuple[Guardrail, ...]) -> None:
        """A turn is accepted, and most often begun at once."""
        self.turn = Turn(config=config, guardrails=guardrails)
        if luck:
            self.turn.begin()

    def go_on(self) -> None:
        """Does the first thing that is owed, in the ordinary way."""
        match self.turn.owed[:1]:
            case (CallModel(round=number),):
                self.turn.reply(think(), call(id=f"{number}_0"), call("take_note", id=f"{number}_1"))
            case (ServeCall(call_id=call_id),):
                self.turn.settle(call_id)
            case (AskGuardrails(),):
                self.turn.guard()
            case (CheckEffect(),):
                self.turn.check('{"effect":"none"}')
            case _:
                pass

    def pick(self, number: int) -> str:
        """Picks a call of the log, open or not; or one that never was."""
        known = [*self.turn.call_ids(), "call_0a_ffffff"]
        return known[number % len(known)]

    @rule()
    def begin(self) -> None:
        """The turn's time has come, perhaps for the second time."""
        self.turn.begin()

    @rule()
    def steer(self) -> None:
        """The user says something."""
        took = self.turn.state.takes_messages
        assert bool(self.turn.steer("And?")) == took

    @precondition(lambda self: self.turn.state.phase is Phase.MODEL)
    @rule(drawn=calls(), before=st.lists(OTHERS, max_size=2), repeat=st.booleans())
    def reply_with_calls(self, drawn: list[NewItem], before: list[NewItem], repeat: bool) -> None:
        """The model calls functions, with ids of its own, one of them perhaps twice over."""
        number = self.turn.state.rounds
        fresh = [call(item.body.name, item.body.arguments, f"r{number}_{n}") for n, item in enumerate(drawn)]
        self.turn.reply(*before, *fresh, *(fresh[:1] if repeat else []))

        assert not self.turn.state.over or self.turn.reason is not Reason.MODEL_BEHAVIOR_ERROR

    @rule(items=st.lists(OTHERS, max_size=3), shift=st.sampled_from([-1, 1]))
    def reply_out_of_time(self, items: list[NewItem], shift: int) -> None:
        """The model replies for a round that is not owed."""
        assert self.turn.reply(*items, of_round=self.turn.state.rounds + 1 + shift) == []
        assert self.turn.fail(of_round=self.turn.state.rounds + 1 + shift) == []

    @rule()
    def reply_with_a_search(self) -> None:
        """The provider has searched."""
        self.turn.reply(hosted())

    @rule(items=st.lists(OTHERS, max_size=3), luck=LUCK)
    def answer(self, items: list[NewItem], luck: int) -> None:
        """The model replies without calls."""
        self.go_on() if luck else self.turn.reply(*items)

    @rule(drawn=calls(), which=SMALL, luck=LUCK)
    def misbehave(self, drawn: list[NewItem], which: int, luck: int) -> None:
        """The model does what it must not: unknown function, reused id, refusal."""
        worse = (call("get_time", id="t"), call("get_weather", '{"city":"Bergen"}', id="c0"), refuse("No."))
        self.go_on() if luck else self.turn.reply(*drawn, worse[which])

    @rule(luck=LUCK)
    def incomplete(self, luck: int) -> None:
        """The reply was cut off."""
        self.go_on() if luck else self.turn.reply(call(), incomplete_reason="content_filter")

    @rule(luck=LUCK)
    def fail(self, luck: int) -> None:
        """The request failed."""
        self.go_on() if luck else self.turn.fail()

    @rule(number=PICK, settlement=st.sampled_from(Settlement))
    def settle(self, number: int, settlement: Settlement) -> None:
        """A result comes, for any call there was."""
        call_id = self.pick(number)
        was_open = call_id in self.turn.state.open_calls
        self.texts += 1
        assert bool(self.turn.settle(call_id, f"output {self.texts}", settlement)) == was_open

    @rule(number=PICK, attempt=st.integers(1, 3), may_retry=st.booleans(), ask=st.booleans(), check=st.booleans())
    def lose(self, number: int, attempt: int, may_retry: bool, ask: bool, check: bool) -> None:
        """A worker goes away."""
        self.turn.lose(self.pick(number), attempt, may_retry=may_retry, ask=ask, check=check)

    @precondition(lambda self: any(isinstance(command, CheckEffect) for command in self.turn.owed))
    @rule(answer=EFFECTS, ask=st.booleans())
    def check(self, answer: str, ask: bool) -> None:
        """A handler says what a lost attempt did."""
        self.turn.check(answer, ask=ask)

    @rule(number=PICK)
    def redeliver(self, number: int) -> None:
        """Somebody wants a call delivered again."""
        self.turn.feed(RedeliveryAsked(call_id=self.pick(number), decided_by="me"))

    @rule(number=PICK, expires=st.booleans())
    def too_late(self, number: int, expires: bool) -> None:
        """A clock of a call runs out, perhaps of one that is settled."""
        call_id = self.pick(number)
        was_open = call_id in self.turn.state.open_calls
        given = CallExpired(call_id=call_id) if expires else CallTimedOut(call_id=call_id)
        assert bool(self.turn.feed(given)) == was_open

    @precondition(lambda self: self.turn.asked)
    @rule(answer=VERDICTS, place=SMALL, gone=st.booleans(), luck=LUCK)
    def guard(self, answer: str, place: int, gone: bool, luck: int) -> None:
        """A guardrail answers, or nobody does."""
        hook_id = self.turn.asked[place % len(self.turn.asked)]
        failure = Failure(reason=Reason.HOOK_TIMEOUT, message="late") if gone and not luck else None
        self.turn.answer_hook(hook_id, HookKind.INPUT_GUARDRAIL, answer, failure)

    @rule(round_number=st.integers(1, 4))
    def filter(self, round_number: int) -> None:
        """A filter answers for a round, perhaps for one that is not owed."""
        hook_id = hooks.filter_id(self.turn.state.turn_id, round_number, 0)
        wanted = self.turn.state.phase is Phase.MODEL and round_number == self.turn.state.rounds + 1
        wanted = wanted and bool(self.turn.pinned.config.model_input_filters) and hook_id not in self.turn.state.hooks
        assert bool(self.turn.answer_hook(hook_id, HookKind.MODEL_INPUT_FILTER, '{"input":[]}')) == wanted

    @rule(mode=st.sampled_from(CancelMode), luck=LUCK)
    def cancel(self, mode: CancelMode, luck: int) -> None:
        """Someone has had enough."""
        if luck > 2:
            self.go_on()
            return
        over = self.turn.state.over
        harder = self.turn.state.cancel not in (CancelMode.NOW, mode)
        assert bool(self.turn.cancel(mode)) == (harder and not over)

    @rule(numbers=st.lists(PICK, max_size=3))
    def unheld(self, numbers: list[int]) -> None:
        """The host tells which calls nobody holds."""
        self.turn.feed(CallsUnheld(call_ids=tuple(self.pick(n) for n in numbers)))

    @rule()
    def grace_over(self) -> None:
        """A timer fires, perhaps of nothing."""
        self.turn.feed(GraceOver())

    @rule(text=st.sampled_from(["", "Once upon"]))
    def cut_off(self, text: str) -> None:
        """Streamed text is left over."""
        self.turn.feed(TextCutOff(text=text))

    @precondition(lambda self: self.turn.fed)
    @rule(number=st.integers(0, 200))
    def again(self, number: int) -> None:
        """Something comes a second time, at any time."""
        self.turn.feed(self.turn.fed[number % len(self.turn.fed)])

    def teardown(self) -> None:
        """From anywhere, a host that does what is owed brings the turn to its end."""
        if hasattr(self, "turn"):
            finish(self.turn)


def finish(turn: Turn) -> None:
    """Does what is owed until nothing is, answering with results and texts alone."""
    turn.begin()
    for call_id in [] if turn.owed else turn.open:
        turn.settle(call_id)
    while turn.owed:
        match turn.owed[0]:
            case CallModel():
                turn.reply(say("That is all."))
            case ServeCall(call_id=call_id):
                turn.settle(call_id)
            case StopCalls():
                turn.feed(GraceOver())
            case AskGuardrails():
                turn.guard()
            case CheckEffect():
                turn.check('{"effect":"none"}')
        for call_id in [] if turn.owed else turn.open:  # of unknown effect: somebody outside knows
            turn.settle(call_id)
    assert turn.state.over


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=300, stateful_step_count=40)


@given(limit=st.integers(0, 6), counts=st.lists(st.integers(1, 3), min_size=7, max_size=7), bad=st.booleans())
def test_a_model_that_only_calls_is_stopped_by_the_limit_of_rounds(limit: int, counts: list[int], bad: bool) -> None:
    """Whatever it calls, and however it words the arguments: exactly so many requests, then the end."""
    turn = Turn(config=RunConfig(max_turns=limit))
    turn.begin()

    requests = 0
    while turn.owed:
        for command in turn.owed:
            if isinstance(command, CallModel):
                arguments = "{" if bad else '{"city":"Kyoto"}'
                made = (call(arguments=arguments, id=f"{requests}_{n}") for n in range(counts[requests]))
                turn.reply(*made)
                requests += 1
            elif isinstance(command, ServeCall):
                turn.settle(command.call_id)

    assert (requests, turn.status, turn.reason) == (limit, TurnStatus.FAILED, Reason.MAX_TURNS_EXCEEDED)
    assert len(turn.outputs) == sum(counts[:limit])


@given(order=st.permutations(range(5)), failing=st.sets(st.integers(0, 4)))
def test_outputs_are_in_call_order_for_any_order_of_results(order: list[int], failing: set[int]) -> None:
    """Failing siblings included: none is lost because another failed."""
    turn = Turn()
    turn.begin()
    turn.reply(*(call(id=f"c{n}") for n in range(5)))
    ids = turn.open

    for n in order:
        turn.settle(ids[n], f"output {n}", Settlement.FAILURE if n in failing else Settlement.OUTPUT)

    assert turn.outputs == [f"output {n}" for n in range(5)]
    assert [item["call_id"] for item in turn.input if "output" in item] == [f"c{n}" for n in range(5)]
