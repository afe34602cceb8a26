"""Layers of options: the run's over the session's, the run's settings over the agent's."""

from types import MappingProxyType

import pytest

from baton_server.core.agents import Agent
from baton_server.core.run_config import DEFAULT_MAX_TURNS, History, HistoryMode, Pinned, RunConfig, Tracing
from baton_server.core.settings import ModelSettings

CALLER, SESSION = History(mode=HistoryMode.CALLER), History(mode=HistoryMode.SESSION)

FULL = ModelSettings(
    temperature=0.7,
    top_p=0.9,
    tool_choice="auto",
    parallel_tool_calls=True,
    truncation="auto",
    max_tokens=100,
    reasoning_effort="high",
    reasoning_summary="concise",
    verbosity="low",
    metadata={"team": "a"},
    store=True,
)


def test_settings_that_say_nothing_leave_everything() -> None:
    """The layer below decides."""
    assert FULL.under(ModelSettings()) == FULL
    assert ModelSettings().under(FULL) == FULL


@pytest.mark.parametrize(
    "silent", [{"tool_choice": ""}, {"truncation": ""}, {"metadata": {}}, {"metadata": MappingProxyType({})}]
)
def test_empty_settings_are_not_said(silent: dict[str, object]) -> None:
    """An empty text and an empty map are how a message says nothing."""
    assert FULL.under(ModelSettings(**silent)) == FULL


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 0.0), ("top_p", 0.0), ("parallel_tool_calls", False), ("store", False)],
)
def test_zero_and_false_are_said(name: str, value: object) -> None:
    """A temperature of zero is a choice."""
    laid = FULL.under(ModelSettings(**{name: value}))

    assert getattr(laid, name) == value


def test_settings_are_laid_field_by_field_and_maps_replaced_whole() -> None:
    """Labels of the two layers are not mixed."""
    laid = FULL.under(ModelSettings(max_tokens=5, metadata={"job": "b"}))

    assert (laid.max_tokens, laid.metadata, laid.temperature) == (5, {"job": "b"}, 0.7)


@pytest.mark.parametrize(
    ("over", "laid"),
    [
        (ModelSettings(reasoning_effort="high"), ("high", None)),
        (ModelSettings(reasoning_summary="auto"), (None, "auto")),
        (ModelSettings(), ("low", "concise")),
    ],
)
def test_reasoning_is_replaced_whole(over: ModelSettings, laid: tuple[str | None, str | None]) -> None:
    """An effort of one layer does not go with a summary of another."""
    settings = ModelSettings(reasoning_effort="low", reasoning_summary="concise").under(over)

    assert (settings.reasoning_effort, settings.reasoning_summary) == laid


def test_a_run_that_says_nothing_has_the_sessions_options() -> None:
    """And a session that says nothing leaves them to the run."""
    options = RunConfig(
        max_turns=3,
        model="m",
        model_settings=FULL,
        history=CALLER,
        tracing=Tracing(workflow_name="w"),
        unserved_grace_s=0.0,
        scopes=("a", "b"),
    )

    assert options.under(RunConfig()) == options
    assert RunConfig().under(options) == options


def test_a_runs_options_win_field_by_field() -> None:
    """What it leaves out is the session's."""
    session = RunConfig(max_turns=3, model="m", unserved_grace_s=5.0, scopes=("a",), history=CALLER)

    laid = session.under(RunConfig(model="n", unserved_grace_s=0.0, history=SESSION))

    assert laid == RunConfig(max_turns=3, model="n", unserved_grace_s=0.0, scopes=("a",), history=SESSION)


@pytest.mark.parametrize(
    ("session", "run", "limit"),
    [
        (RunConfig(), RunConfig(), DEFAULT_MAX_TURNS),
        (RunConfig(max_turns=3), RunConfig(), 3),
        (RunConfig(max_turns=3), RunConfig(max_turns=0), 0),
        (RunConfig(max_turns=3), RunConfig(unlimited_turns=True), None),
        (RunConfig(unlimited_turns=True), RunConfig(), None),
        (RunConfig(unlimited_turns=True), RunConfig(max_turns=4), 4),
    ],
)
def test_limit_and_no_limit_replace_one_another(session: RunConfig, run: RunConfig, limit: int | None) -> None:
    """The two fields are one option: whoever says either says both."""
    assert session.under(run).round_limit == limit


def test_handlers_are_looked_up_in_the_empty_scope_last_and_once() -> None:
    """Scopes in their order, and the empty one behind them by itself."""
    assert RunConfig().lookup == ("",)
    assert RunConfig(scopes=("mine", "", "team")).lookup == ("mine", "team", "")


def test_a_pinned_turn_asks_the_runs_model_with_the_runs_settings_over_the_agents() -> None:
    """Empty: the agent's; that empty too: the server's default."""
    agent = Agent(name="Helper", model="a", model_settings=FULL)

    assert Pinned(agent=agent, config=RunConfig()).model(agent) == "a"
    assert Pinned(agent=agent, config=RunConfig(model="r")).model(agent) == "r"
    settings = Pinned(agent=agent, config=RunConfig(model_settings=ModelSettings(max_tokens=1))).settings(agent)
    assert (settings.max_tokens, settings.top_p) == (1, 0.9)
