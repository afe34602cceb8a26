"""Fixtures of the crash tests."""

from tests.support.model_server import model_server
from tests.support.stage import stage

__all__ = ["model_server", "stage"]
