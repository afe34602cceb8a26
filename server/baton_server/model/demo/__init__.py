"""The built-in model: deterministic, offline, plainly labelled; calls functions by the words it is told."""

from baton_server.model.demo.model import DEMO, WORD_DELAY_S, DemoModel

__all__ = ["DEMO", "WORD_DELAY_S", "DemoModel"]
