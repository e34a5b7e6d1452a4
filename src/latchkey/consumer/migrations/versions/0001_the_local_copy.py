"""The local copy, its jobs, events that were set aside, invoices and users' phones.

Nothing is released yet: the tables are those of `tables.py`. The first release writes them out here, because a released
migration never changes.
"""

from __future__ import annotations

from alembic import op

from latchkey.consumer.storage.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
