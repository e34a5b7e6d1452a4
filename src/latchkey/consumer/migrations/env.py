"""Run by alembic, with the connection that `storage/schema.py` hands over."""

from __future__ import annotations

from alembic import context

from latchkey.consumer.storage.schema import VERSION_TABLE
from latchkey.consumer.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    # The app's own alembic keeps to its tables, and this one to these.
    include_name=lambda name, kind, _: kind != "table" or name in metadata.tables,
)
context.run_migrations()
