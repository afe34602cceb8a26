"""What all tests share: a log that costs little, since faults are made on purpose."""

import sys

import structlog

# The default renderer draws tracebacks with all local variables, which takes seconds on a busy machine.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ],
    # As a server does, and past what reads the output of a command that runs in the same process.
    logger_factory=structlog.PrintLoggerFactory(sys.__stderr__),
)
