"""What alembic runs: the steps in one transaction, on the connection that it was given."""

from alembic import context

from baton_server.store.sql.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
connection.commit()
