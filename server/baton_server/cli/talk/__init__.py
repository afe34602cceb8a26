"""Talking with an agent: a turn is followed, shown as it goes, and answered."""
