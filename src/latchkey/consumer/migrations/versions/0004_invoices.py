"""Invoices, each as the event that told of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "billing_invoices",
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.Column("issued_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_billing_invoices"),
    )
    op.create_index("ix_billing_invoices_app_user_id", "billing_invoices", ["app_user_id"], unique=False)


def downgrade() -> None:
    op.drop_table("billing_invoices")
