"""Fixtures of the crash tests."""

from tests.support.model_server import model_server

__all__ = ["model_server"]
