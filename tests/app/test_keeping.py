"""Who keeps a session's history: the first turn that is either's decides, and the other kind is refused."""

from __future__ import annotations

import pytest

from baton_server.app.keeping import check_takes_items, keeper_after
from baton_server.core.errors import Reason, Refused
from baton_server.core.run_config import HistoryMode
from baton_server.ports.store import SessionRow

SESSION, MODEL = "SESSION", "MODEL"


def session(keeper: str) -> SessionRow:
    """Make a session whose history somebody keeps."""
    return SessionRow(session_id="sess_1", history_keeper=keeper)


@pytest.mark.parametrize(
    ("mode", "keeper"),
    [
        (HistoryMode.SESSION, SESSION),
        (HistoryMode.CONVERSATION, MODEL),
        (HistoryMode.RESPONSE, MODEL),
        (HistoryMode.CALLER, None),
        (HistoryMode.STORED, None),
    ],
)
def test_the_first_turn_decides(mode: HistoryMode, keeper: str | None) -> None:
    """But for one whose history is kept by neither."""
    assert keeper_after(session(""), mode) == keeper


@pytest.mark.parametrize("keeper", [SESSION, MODEL])
@pytest.mark.parametrize("mode", [HistoryMode.CALLER, HistoryMode.STORED])
def test_what_is_kept_elsewhere_fits_both(keeper: str, mode: HistoryMode) -> None:
    """And changes nothing."""
    assert keeper_after(session(keeper), mode) is None


def test_the_same_kind_goes_on() -> None:
    """A conversation and a chain of replies are both the model's."""
    assert keeper_after(session(SESSION), HistoryMode.SESSION) is None
    assert keeper_after(session(MODEL), HistoryMode.CONVERSATION) is None
    assert keeper_after(session(MODEL), HistoryMode.RESPONSE) is None


@pytest.mark.parametrize(
    ("keeper", "mode"),
    [(SESSION, HistoryMode.CONVERSATION), (SESSION, HistoryMode.RESPONSE), (MODEL, HistoryMode.SESSION)],
)
def test_the_other_kind_is_refused_by_name(keeper: str, mode: HistoryMode) -> None:
    """Half of the history would be missing in either place."""
    with pytest.raises(Refused) as refused:
        keeper_after(session(keeper), mode)

    assert refused.value.failure.reason is Reason.HISTORY_MIXED
    assert dict(refused.value.failure.metadata) == {"session": keeper, "turn": mode.value}
    assert "sess_1" in refused.value.failure.message


def test_items_are_added_only_where_a_turn_will_see_them() -> None:
    """The model's API has them not."""
    check_takes_items(session(""))
    check_takes_items(session(SESSION))
    with pytest.raises(Refused) as refused:
        check_takes_items(session(MODEL))

    assert dict(refused.value.failure.metadata) == {"session": MODEL, "turn": "SESSION"}
