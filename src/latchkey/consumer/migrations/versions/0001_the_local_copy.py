"""The local copy, its jobs, what was set aside, invoices and users' phones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "billing_aliases",
        sa.Column("alias", sa.String(length=255), nullable=False),
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("alias", name="pk_billing_aliases"),
    )
    op.create_index("ix_billing_aliases_app_user_id", "billing_aliases", ["app_user_id"], unique=False)
    op.create_table(
        "billing_currency_transactions",
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.Column("currency", sa.String(length=255), nullable=False),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("transaction_type", sa.String(length=255), nullable=False),
        sa.Column("happened_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_billing_currency_transactions"),
    )
    op.create_index(
        "ix_billing_currency_transactions_app_user_id", "billing_currency_transactions", ["app_user_id"], unique=False
    )
    op.create_table(
        "billing_enrollments",
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.Column("experiment_id", sa.String(length=255), nullable=False),
        sa.Column("variant_id", sa.String(length=255), nullable=False),
        sa.Column("enrolled_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("app_user_id", "experiment_id", name="pk_billing_enrollments"),
    )
    op.create_table(
        "billing_entitlements",
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.Column("entitlement_id", sa.String(length=255), nullable=False),
        sa.Column("product_id", sa.String(length=255), nullable=True),
        sa.Column("is_active", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("granted_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("grace_period_expires_at", sa.BigInteger(), nullable=True),
        sa.Column("purchase_date", sa.BigInteger(), nullable=True),
        sa.Column("store", sa.String(length=255), nullable=True),
        sa.Column("environment", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("app_user_id", "entitlement_id", name="pk_billing_entitlements"),
    )
    op.create_table(
        "billing_events_set_aside",
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("event_type", sa.String(length=255), nullable=False),
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="1", nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("last_attempt_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_billing_events_set_aside"),
    )
    op.create_table(
        "billing_jobs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("payload", JSON, server_default="{}", nullable=False),
        sa.Column("asked", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("run_at", sa.BigInteger(), nullable=False),
        sa.Column("leased_until", sa.BigInteger(), nullable=True),
        sa.Column("lease", sa.String(length=64), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_billing_jobs"),
    )
    op.create_index("ix_billing_jobs_run_at", "billing_jobs", ["run_at"], unique=False)
    op.create_index("ux_billing_jobs_kind_key", "billing_jobs", ["kind", "key"], unique=True)
    op.create_table(
        "billing_processed_events",
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("event_type", sa.String(length=255), nullable=False),
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.Column("environment", sa.String(length=255), nullable=True),
        sa.Column("processed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_billing_processed_events"),
    )
    op.create_table(
        "billing_progress",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_billing_progress"),
    )
    op.create_table(
        "billing_subscriptions",
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.Column("external_user_id", sa.Text(), nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("is_active", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("subscription_status", sa.String(length=32), nullable=True),
        sa.Column("product_id", sa.String(length=255), nullable=True),
        sa.Column("entitlements", JSON, server_default="{}", nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("purchased_at", sa.BigInteger(), nullable=True),
        sa.Column("cancelled_at", sa.BigInteger(), nullable=True),
        sa.Column("trial_end_at", sa.BigInteger(), nullable=True),
        sa.Column("grace_period_expires_at", sa.BigInteger(), nullable=True),
        sa.Column("auto_renew", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("billing_issue", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("store", sa.String(length=255), nullable=True),
        sa.Column("environment", sa.String(length=255), nullable=True),
        sa.Column("last_webhook_event_id", sa.String(length=255), nullable=True),
        sa.Column("last_webhook_event_type", sa.String(length=255), nullable=True),
        sa.Column("last_revenue_sync_at", sa.BigInteger(), nullable=True),
        sa.Column("last_updated", sa.BigInteger(), nullable=True),
        sa.Column("subscriptions", JSON, server_default="{}", nullable=False),
        sa.Column("last_sequence", sa.BigInteger(), nullable=True),
        sa.Column("last_event_at", sa.BigInteger(), nullable=True),
        sa.Column("stale", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("read_sequence", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("app_user_id", name="pk_billing_subscriptions"),
    )
    op.create_index(
        "ix_billing_subscriptions_last_revenue_sync_at", "billing_subscriptions", ["last_revenue_sync_at"], unique=False
    )
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
    op.create_table(
        "billing_invoices",
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("app_user_id", sa.String(length=255), nullable=False),
        sa.Column("issued_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_billing_invoices"),
    )
    op.create_index("ix_billing_invoices_app_user_id", "billing_invoices", ["app_user_id"], unique=False)
    op.create_table(
        "billing_event_bodies",
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("unread_fields", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_billing_event_bodies"),
    )
