"""Any order of inputs: duplicates, late results, wrong rounds, cancels at any time. The laws always hold.

They stand in `laws.py`, and are checked after every step; equality with the rebuilt state, after every event.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.core.driving import Turn
from tests.core.making import call, hosted, say, think
from tests.core.wild import CONFIGS, GOOD, WORDS, WORSE, answers, graphs, replies

from baton_server.core.agents import Agent
from baton_server.core.commands import CallModel, CheckEffect, Command, ServeCall, StopCalls
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import CancelMode, Decision, TurnStatus
from baton_server.core.hooks.question import Question
from baton_server.core.inputs import (
    Begun,
    Broken,
    CallExpired,
    CallsUnheld,
    CallTimedOut,
    DecisionMade,
    DecisionsMade,
    GraceOver,
    ModelTried,
    NewItem,
    RedeliveryAsked,
    TextCutOff,
)
from baton_server.core.items import FunctionCall, Settlement
from baton_server.core.responses import read_items, user_message
from baton_server.core.run_config import RunConfig

BEFORE = '{"role":"user","content":"Before."}'
CARRIED = (
    '[{"content":"Hi","role":"user"},{"type":"function_call","call_id":"x","name":"pay","arguments":"{}"},'
    '{"type":"function_call_output","call_id":"x","output":"paid"}]'
)
EFFECTS = st.sampled_from(
    ['{"effect":"none"}', '{"effect":"took_effect","output":"paid"}', '{"effect":"took_effect"}', '{"effect":"?"}']
)
PICK = st.integers(0, 7)
SMALL = st.integers(0, 2)
LUCK = st.integers(0, 5)
"""Above 0, a rule that could end the turn does something ordinary instead: else no turn would live long."""
GIVEN_UP = st.sampled_from([Reason.HOOK_TIMEOUT, Reason.HOOK_RAISED, Reason.HOOK_UNSERVED])


class AnyOrder(RuleBasedStateMachine):
    """Feeds a turn whatever comes."""

    turn: Turn
    texts: int = 0
    scripted: int = 0

    @initialize(config=CONFIGS, luck=LUCK, graph=graphs())
    def accept(self, config: RunConfig, luck: int, graph: tuple[Agent, tuple[Agent, ...]]) -> None:
        """A turn is accepted, and most often begun at once; sometimes it goes on from another one."""
        carried = read_items(CARRIED) if luck == 1 else ()
        continues = "turn_09" if carried else ""
        self.turn = Turn(config=config, agent=graph[0], others=graph[1], history=(BEFORE,), continues=continues)
        if luck:
            self.turn.feed(Begun(items=(user_message("Hi"),), carried=carried))

    def go_on(self) -> None:
        """Does the first thing that is owed, in the ordinary way."""
        for command in self.turn.owed[:1]:
            if isinstance(command, CallModel):
                self.scripted += 1
                kinds = (GOOD[:2], GOOD[4:5], GOOD[2:5], GOOD[5:], GOOD[1:2] + GOOD[4:])
                chosen = kinds[self.scripted % len(kinds)]
                items = self.fresh([call(*one) for one in chosen], command.run_path)
                self.turn.reply(think(), *items, path=command.run_path)
            else:
                ordinary(self.turn, command)

    def pick(self, number: int) -> str:
        """Picks a call of the log, open or not; or one that never was."""
        known = [*self.turn.call_ids(), "call_0a_ffffff"]
        return known[number % len(known)]

    def pick_function(self, number: int) -> str:
        """Picks a call of a function, open or not; or one that never was."""
        known = [one for one in self.turn.state.calls if self.turn.state.function(one) is not None]
        return [*known, "call_0a_ffffff"][number % (len(known) + 1)]

    def fresh(self, items: list[NewItem], path: tuple[str, ...]) -> list[NewItem]:
        """Gives the calls of a reply ids that nothing had before."""
        number = f"{''.join(path)}_{self.turn.state.runs[path].rounds}"
        made = []
        for n, item in enumerate(items):
            body = item.body
            made.append(call(body.name, body.arguments, f"r{number}_{n}") if isinstance(body, FunctionCall) else item)
        return made

    @rule()
    def begin(self) -> None:
        """The turn's time has come, perhaps for the second time."""
        self.turn.begin()

    @rule()
    def steer(self) -> None:
        """The user says something."""
        took = self.turn.taking
        assert bool(self.turn.steer("And?")) == took

    @precondition(lambda self: self.turn.requests)
    @rule(drawn=replies(), which=SMALL, repeat=st.booleans())
    def reply_with_calls(self, drawn: list[NewItem], which: int, repeat: bool) -> None:
        """The model calls functions, with ids of its own, one of them perhaps twice over."""
        command = self.turn.requests[which % len(self.turn.requests)]
        fresh = self.fresh(drawn, command.run_path)
        self.turn.reply(*fresh, *(fresh[-1:] if repeat else []), path=command.run_path)

    @precondition(lambda self: any(self.turn.state.runs[one.run_path].asked for one in self.turn.requests))
    @rule(drawn=replies(), which=SMALL, number=PICK, beside=st.integers(0, 3), spaced=st.booleans())
    def say_again(self, drawn: list[NewItem], which: int, number: int, beside: int, spaced: bool) -> None:
        """The model says a call that it has said before: alone, behind a thought, or with others."""
        requests = [one for one in self.turn.requests if self.turn.state.runs[one.run_path].asked]
        path = requests[which % len(requests)].run_path
        asked = list(self.turn.state.runs[path].asked.items())
        model_call_id, (name, arguments) = asked[number % len(asked)]
        again = call(name, f"{arguments} " if spaced else arguments, model_call_id)
        others = self.fresh(drawn, path)
        self.turn.reply(
            *([again], [think(), again], [think(), again, *others], [*others, again, again])[beside], path=path
        )

    @rule(items=st.lists(WORDS, max_size=3), shift=st.sampled_from([-1, 1]))
    def reply_out_of_time(self, items: list[NewItem], shift: int) -> None:
        """The model replies for a round that is not owed."""
        number = self.turn.state.rounds + 1 + shift
        assert self.turn.reply(*items, of_round=number) == []
        assert self.turn.fail(of_round=number) == []

    @precondition(lambda self: not any(command.run_path == () for command in self.turn.requests))
    @rule(items=st.lists(WORDS, max_size=3))
    def reply_unasked(self, items: list[NewItem]) -> None:
        """The model replies though nothing is asked of it, or something must come first."""
        assert self.turn.reply(*items) == []

    @rule(steps=st.integers(1, 8))
    def go_on_for_a_while(self, steps: int) -> None:
        """Everybody does what is asked of them."""
        for _ in range(steps):
            self.go_on()

    @rule()
    def reply_with_a_search(self) -> None:
        """The provider has searched."""
        self.turn.reply(hosted())

    @rule(items=st.lists(WORDS, max_size=3), luck=LUCK, which=SMALL)
    def say(self, items: list[NewItem], luck: int, which: int) -> None:
        """The model replies without calls; in a nested run that ends the call."""
        requests = self.turn.requests
        path = requests[which % len(requests)].run_path if requests else ()
        self.go_on() if luck > 2 and not path else self.turn.reply(*items, path=path)

    @precondition(lambda self: self.turn.requests)
    @rule(drawn=replies(), worse=WORSE, luck=LUCK, which=SMALL)
    def misbehave(self, drawn: list[NewItem], worse: NewItem, luck: int, which: int) -> None:
        """The model does what it must not: unknown function, reused id, refusal."""
        path = self.turn.requests[which % len(self.turn.requests)].run_path
        self.go_on() if luck > 1 else self.turn.reply(*self.fresh(drawn[:luck], path), worse, path=path)

    @rule(luck=LUCK)
    def incomplete(self, luck: int) -> None:
        """The reply was cut off."""
        self.go_on() if luck else self.turn.reply(call(), incomplete_reason="content_filter")

    @rule(luck=LUCK)
    def fail(self, luck: int) -> None:
        """The request failed, of the run that asks last."""
        requests = self.turn.requests
        self.go_on() if luck > 1 else self.turn.fail(path=requests[-1].run_path if requests else ())

    @rule(attempt=st.integers(1, 3))
    def try_again(self, attempt: int) -> None:
        """A request failed, and is made again."""
        failure = Failure(reason=Reason.MODEL_TIMEOUT, message="slow")
        number = self.turn.state.own.round
        self.turn.feed(ModelTried(round=number, model_attempt=attempt, failure=failure, retry_after_s=1.0))

    @rule(luck=st.integers(0, 20))
    def break_down(self, luck: int) -> None:
        """The host cannot go on with the turn."""
        over = self.turn.state.over
        if not luck:
            assert bool(self.turn.feed(Broken(failure=Failure(reason=Reason.INTERNAL, message="broken")))) != over

    @rule(number=PICK, settlement=st.sampled_from(Settlement))
    def settle(self, number: int, settlement: Settlement) -> None:
        """A result comes, for any call there was."""
        call_id = self.pick_function(number)
        was_open = call_id in self.turn.state.open_calls
        self.texts += 1
        assert bool(self.turn.settle(call_id, f"output {self.texts}", settlement)) == was_open

    @rule(number=PICK, attempt=st.integers(1, 3), may_retry=st.booleans(), ask=st.booleans(), check=st.booleans())
    def lose(self, number: int, attempt: int, may_retry: bool, ask: bool, check: bool) -> None:
        """A worker goes away."""
        call_id = self.pick_function(number)
        if call_id in self.turn.served or call_id not in self.turn.state.open_calls:
            self.turn.lose(call_id, attempt, may_retry=may_retry, ask=ask, check=check)

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
        call_id = self.pick_function(number)
        was_open = call_id in self.turn.state.open_calls
        given = CallExpired(call_id=call_id) if expires else CallTimedOut(call_id=call_id)
        assert bool(self.turn.feed(given)) == was_open

    @rule(number=PICK, approve=st.booleans(), always=st.booleans(), expired=st.booleans())
    def decide(self, number: int, approve: bool, always: bool, expired: bool) -> None:
        """Somebody decides about a call, perhaps about one that waits for nothing, or for the second time."""
        call_id = self.pick(number)
        open_call = self.turn.state.open_calls.get(call_id)
        waits = open_call is not None and open_call.awaiting is not None
        approve = approve and not expired
        assert bool(self.turn.decide(call_id, approve=approve, always=always, expired=expired)) == waits

    @rule(drawn=st.lists(st.tuples(PICK, st.booleans(), st.booleans()), min_size=1, max_size=4))
    def decide_together(self, drawn: list[tuple[int, bool, bool]]) -> None:
        """Several decisions come at one moment, some perhaps about one call."""
        made = [Decision(call_id=self.pick(number), approve=yes, always=lasts) for number, yes, lasts in drawn]
        waits = [one for one in self.turn.state.open_calls.values() if one.awaiting is not None]
        counts = {one.call_id for one in made} & {one.call_id for one in waits}
        fed = DecisionsMade(made=tuple(DecisionMade(decision=one) for one in made))
        assert bool(self.turn.feed(fed)) == bool(counts)

    @precondition(lambda self: self.turn.questions())
    @rule(which=PICK, way=SMALL, luck=LUCK)
    def answer(self, which: int, way: int, luck: int) -> None:
        """A program answers, most often so that the turn goes on."""
        question = self.turn.questions()[which % len(self.turn.questions())]
        assert self.turn.answer(question, answers(self.turn, question, 0 if luck > 2 else way))

    @precondition(lambda self: self.turn.questions())
    @rule(which=PICK, nonsense=st.sampled_from(["", "[]", '{"input":5}']), luck=LUCK)
    def answer_nonsense(self, which: int, nonsense: str, luck: int) -> None:
        """A program answers what nobody can use."""
        question = self.turn.questions()[which % len(self.turn.questions())]
        self.go_on() if luck > 1 else self.turn.answer(question, nonsense)

    @precondition(lambda self: self.turn.questions())
    @rule(which=PICK, reason=GIVEN_UP, luck=LUCK)
    def give_up(self, which: int, reason: Reason, luck: int) -> None:
        """Nobody answers, or the program raises."""
        question = self.turn.questions()[which % len(self.turn.questions())]
        failure = Failure(reason=reason, message="late")
        self.go_on() if luck > 1 else self.turn.answer(question, failure=failure)

    @rule(mode=st.sampled_from(CancelMode), luck=LUCK)
    def cancel(self, mode: CancelMode, luck: int) -> None:
        """Someone has had enough."""
        if luck > 1:
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


def ordinary(turn: Turn, command: Command) -> None:
    """Does one thing that is owed, with results, texts and answers that let the turn go on."""
    match command:
        case CallModel(run_path=path):
            turn.reply(say('{"response":["That is all."]}'), path=path)
        case ServeCall(call_id=call_id):
            turn.settle(call_id)
        case StopCalls():
            turn.feed(GraceOver())
        case CheckEffect():
            turn.check('{"effect":"none"}')
        case Question():
            turn.answer(command, answers(turn, command, 0))


def finish(turn: Turn) -> None:
    """Does what is owed until nothing is; what waits for somebody outside is settled or decided by somebody."""
    turn.begin()
    for _ in range(500):
        if turn.state.over:
            return
        if turn.owed:
            ordinary(turn, turn.owed[0])
            continue
        call_id = turn.open[0]
        waits = turn.state.open_calls[call_id].awaiting is not None
        assert turn.decide(call_id, approve=False) if waits else turn.settle(call_id)
    raise AssertionError("the turn goes on for ever")


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
