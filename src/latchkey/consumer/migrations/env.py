"""Run by alembic, with the connection passed by `storage/schema.py`."""

from __future__ import annotations

from alembic import context

from latchkey.consumer.storage.copy_tables import metadata
from latchkey.consumer.storage.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    # Only our own tables: the app's own alembic manages the others.
    include_name=lambda name, kind, _: kind != "table" or name in metadata.tables,
)
context.run_migrations()
