"""The latest of something: what was not used for the longest time goes first, and weights stay within the bound."""

from __future__ import annotations

from baton_server.app.recent import Recent


def test_what_was_used_stays() -> None:
    """A look counts as a use."""
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1

    recent.put("c", 3)

    assert [recent.get(key) for key in "abc"] == [1, None, 3]


def test_weights_together_stay_within_the_bound() -> None:
    """A heavy value takes the place of many light ones; one that is replaced weighs no more."""
    recent: Recent[str, int] = Recent(10)
    recent.put("a", 1, 4)
    recent.put("b", 2, 4)
    recent.put("b", 3, 6)
    assert (recent.get("a"), recent.get("b")) == (1, 3)

    recent.put("c", 4, 5)

    assert [recent.get(key) for key in "abc"] == [None, None, 4]


def test_what_is_too_heavy_is_not_kept() -> None:
    """Whatever else there was goes with it, which costs another read and nothing more."""
    recent: Recent[str, int] = Recent(10)
    recent.put("a", 1, 11)

    assert recent.get("a") is None
    recent.put("b", 2, 10)
    assert recent.get("b") == 2


def test_what_is_discarded_makes_room() -> None:
    """Discarding what is not there changes nothing."""
    recent: Recent[str, int] = Recent(1)
    recent.put("a", 1)

    recent.discard("a")
    recent.discard("a")
    recent.put("b", 2)

    assert (recent.get("a"), recent.get("b")) == (None, 2)
