"""The local copy, its jobs, events that were set aside, invoices and users' phones.

Nothing is released yet: the tables are those of `copy_tables.py`. The first release writes them out, because a released
migration never changes.
"""

from alembic import op

from latchkey.consumer.storage.copy_tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
