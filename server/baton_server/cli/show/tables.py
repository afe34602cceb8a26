"""Tables without lines. On a terminal they fit its width; on a pipe nothing is cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from baton_server.cli.show.texts import one_line
from baton_server.cli.terminal import out

GAP = 2
"""Spaces between two columns."""

MOST = 1000
"""Characters of a cell; keys and names are shorter by contract."""

NARROWEST = 4
"""What is left of a column at least, in cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column. `whole`: never cut, since it is to be copied. `right`: numbers."""

    title: str
    whole: bool = True
    right: bool = False


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print rows below their titles. Texts are made safe, and put on one line."""
    width = out.width if out.is_terminal else None
    titles, *lines = table_lines(columns, rows, width)
    out.print(Text(titles, style="bold"))
    for line in lines:
        out.print(Text(line))


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    """Lay out a table, titles first. `width` in cells; None: as wide as it is."""
    cells = [[column.title for column in columns]]
    cells += [[one_line(text, MOST) for text in row] for row in rows]
    widths = [max(cell_len(row[index]) for row in cells) for index in range(len(columns))]
    if width is not None:
        _shrink(columns, widths, width)
    return [_line(columns, widths, row) for row in cells]


def _shrink(columns: Sequence[Column], widths: list[int], width: int) -> None:
    """Take what is too much from the columns that may be cut, the widest first."""
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    while excess > 0:
        cut = [index for index, column in enumerate(columns) if not column.whole and widths[index] > NARROWEST]
        if not cut:
            return
        widest = max(cut, key=lambda index: widths[index])
        widths[widest] -= 1
        excess -= 1


def _line(columns: Sequence[Column], widths: Sequence[int], row: Sequence[str]) -> str:
    made = [_cell(column, width, text) for column, width, text in zip(columns, widths, row, strict=True)]
    return (" " * GAP).join(made).rstrip()


def _cell(column: Column, width: int, text: str) -> str:
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    space = " " * (width - cell_len(text))
    return space + text if column.right else text + space
