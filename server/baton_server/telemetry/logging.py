"""Logs: one line of facts per event, on standard error; JSON where a program reads them."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(level: str, as_json: bool) -> None:
    """Set the log up for the process. `level`: a name of the logging module, for example INFO."""
    render = (
        structlog.processors.JSONRenderer()
        if as_json
        # Plain: the default one prints local variables, and with them keys and what users said.
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if as_json else structlog.processors.StackInfoRenderer(),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
