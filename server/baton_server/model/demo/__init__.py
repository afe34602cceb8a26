"""The built-in model: deterministic, offline, plainly labelled; calls functions by the words it is told."""

from baton_server.model.demo.model import DEMO, DemoModel

__all__ = ["DEMO", "DemoModel"]
