"""Users' phones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "billing_devices",
        sa.Column("player_id", sa.String(length=255), nullable=False),
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.Column("platform", sa.String(length=32), nullable=True),
        sa.Column("language", sa.String(length=35), nullable=True),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("player_id", name="pk_billing_devices"),
    )
    op.create_index("ix_billing_devices_app_user_id", "billing_devices", ["app_user_id"], unique=False)


def downgrade() -> None:
    op.drop_table("billing_devices")
