"""Words that statements share: constants written into the text, and the tenant of a table."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BindParameter, ColumnElement, Table, bindparam, literal_column

from baton_server.store.sql.schema import TENANT_DEFAULT


def constant(value: str | StrEnum) -> ColumnElement[str]:
    """Write a text into the statement itself: fixed, and seen by the planner, who matches partial indexes."""
    text = str(value).replace("'", "''")
    return literal_column(f"'{text}'")


TENANT = constant(TENANT_DEFAULT)
"""The one tenant there is so far."""


def number(value: int) -> ColumnElement[int]:
    """Write a number into the statement itself."""
    return literal_column(str(value))


def own(table: Table) -> ColumnElement[bool]:
    """Restrict a table to the tenant's rows."""
    return table.c.tenant == TENANT


def param(name: str) -> BindParameter[str]:
    """Name a value that is given with each execution, whatever its type."""
    return bindparam(name)


def keyed(table: Table, *columns: str) -> ColumnElement[bool]:
    """Restrict a table to the tenant's rows whose columns have the parameters of the same names."""
    condition = own(table)
    for column in columns:
        condition = condition & (table.c[column] == bindparam(column))
    return condition
