"""Hypothesis for the core: the same examples every time, none kept on disk, no limit of time for each."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "core",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=150,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("core")
