"""Help texts: the docstring of a command, whose paragraphs flow to the width of the terminal."""

from __future__ import annotations

import inspect

import typer


def flow_help(app: typer.Typer) -> None:
    """Make the paragraphs of all commands flow; call it when all are there.

    Typer does so with the first one alone, and breaks the others where the source does.
    """
    for command in app.registered_commands:
        text = command.help or inspect.getdoc(command.callback) or ""
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            flow_help(group.typer_instance)
