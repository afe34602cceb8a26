"""What this library logs, where somebody wants to see it and has set up no logging of his own."""

from __future__ import annotations

import logging
import sys


def enable_verbose_stdout_logging() -> None:
    """Print all that this library logs to standard output, arguments and results of functions included."""
    log = logging.getLogger("baton")
    log.setLevel(logging.DEBUG)
    log.addHandler(logging.StreamHandler(sys.stdout))
