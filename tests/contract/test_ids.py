"""Ids of a real process: unique, and growing."""

from __future__ import annotations

from baton_server.engine.clock import TimeIds


def test_ids_grow_as_text_even_within_a_millisecond() -> None:
    """Ten thousand ids made in a row are in order and all different."""
    ids = TimeIds()

    made = [ids.new("turn") for _ in range(10_000)]

    assert made == sorted(set(made))


def test_an_id_says_what_it_is_of() -> None:
    """The prefix stands in front."""
    assert TimeIds().new("sess").startswith("sess_")
