"""Amounts with a fraction, and the bodies of events in which something could not be used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    # A column of SQLite takes fractions whatever its type is called.
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("billing_currency_transactions", "amount", type_=sa.Double(), existing_nullable=False)
    op.create_table(
        "billing_event_bodies",
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("unread_fields", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_billing_event_bodies"),
    )


def downgrade() -> None:
    op.drop_table("billing_event_bodies")
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("billing_currency_transactions", "amount", type_=sa.BigInteger(), existing_nullable=False)
