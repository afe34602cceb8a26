"""Every statement, built once in SQLAlchemy Core and kept as text for one dialect.

A name of a bound parameter is the name of a column, or says what it stands for.
"""

from baton_server.store.sql.statements.queries import Queries
from baton_server.store.sql.statements.writes import Writes

__all__ = ["Queries", "Writes"]
