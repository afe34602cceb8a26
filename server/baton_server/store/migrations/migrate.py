"""Runs the steps that a database has not seen."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Engine


class SchemaUnknown(Exception):
    """The database was written by a newer version, whose steps are not known here."""


def migrate(engine: Engine) -> None:
    """Bring the database to the newest schema. Raises SchemaUnknown."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise SchemaUnknown(f"its schema is none of this version's ({error})") from error
