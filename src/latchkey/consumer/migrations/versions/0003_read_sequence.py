"""Which event the last answer of the service included."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("billing_subscriptions", sa.Column("read_sequence", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("billing_subscriptions", "read_sequence")
