"""Fixtures of the use cases' tests."""

from tests.support.stage import empty_stage, stage

__all__ = ["empty_stage", "stage"]
