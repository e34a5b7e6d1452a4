"""The tables. Their names begin with `billing_`, because they share a database with the app's own.

Instants are epoch milliseconds. A test keeps this equal to the result of the migrations.
"""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, get_args

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.dialects.postgresql import JSONB

from latchkey.consumer.rules.event_handlers import CurrencyRow, EnrollmentRow, InvoiceRow
from latchkey.consumer.rules.record import Entitlement, Subscription
from latchkey.consumer.rules.timestamps import Ms

ID = 255

metadata = sa.MetaData(naming_convention={"pk": "pk_%(table_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"})

_json = sa.JSON().with_variant(JSONB(), "postgresql")
# SQLite autoincrements only a column of the type INTEGER.
_serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _instant(name: str, *, nullable: bool = True) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


# What a field of a struct is in a table. An amount is a number of any kind: the specification does not give its type.
_TYPES: dict[Any, Any] = {
    float: sa.Double,
    bool: sa.Boolean,
    int: sa.BigInteger,
    bytes: sa.LargeBinary,
    str: sa.String(ID),
    Mapping[str, Any]: _json,
}


def _columns(row: type[Struct], *key: str, long: tuple[str, ...] = ()) -> list[sa.Column[Any]]:
    """A column for each field of the struct, in the same order and with its default. `long` are texts of any length."""
    columns: list[sa.Column[Any]] = []
    for field in msgspec.structs.fields(row):
        kinds = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
        type = next(type for kind, type in _TYPES.items() if kind in kinds)
        default: Any = "{}" if type is _json else None
        if isinstance(field.default, int):
            default = "0" if type is sa.BigInteger else sa.true() if field.default else sa.false()
        columns.append(
            sa.Column(
                field.name,
                sa.Text if field.name in long else type,
                primary_key=field.name in key,
                nullable=NoneType in kinds,
                server_default=default,
            )
        )
    return columns


subscriptions = sa.Table(
    "billing_subscriptions",
    metadata,
    *_columns(Subscription, "app_user_id", long=("external_user_id", "email")),
    # The sweep checks users first who were not checked for the longest time.
    sa.Index(None, "last_revenue_sync_at"),
)

entitlements = sa.Table(
    "billing_entitlements",
    metadata,
    sa.Column("app_user_id", sa.String(ID), primary_key=True),
    *_columns(Entitlement, "entitlement_id"),
)


class ProcessedEvent(Struct, frozen=True):
    event_id: str
    event_type: str
    app_user_id: str
    environment: str | None
    processed_at: Ms


processed_events = sa.Table("billing_processed_events", metadata, *_columns(ProcessedEvent, "event_id"))

# Other ids of a customer, and the id its record is stored under.
aliases = sa.Table(
    "billing_aliases",
    metadata,
    sa.Column("alias", sa.String(ID), primary_key=True),
    sa.Column("app_user_id", sa.String(ID), nullable=False),
    sa.Index(None, "app_user_id"),
)

currency_transactions = sa.Table(
    "billing_currency_transactions", metadata, *_columns(CurrencyRow, "event_id"), sa.Index(None, "app_user_id")
)

enrollments = sa.Table("billing_enrollments", metadata, *_columns(EnrollmentRow, "app_user_id", "experiment_id"))

invoices = sa.Table("billing_invoices", metadata, *_columns(InvoiceRow, "event_id"), sa.Index(None, "app_user_id"))

jobs = sa.Table(
    "billing_jobs",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("kind", sa.String(64), nullable=False),
    # One job per kind and key is enough: if added again, it runs once more.
    sa.Column("key", sa.String(ID), nullable=False),
    sa.Column("payload", _json, nullable=False, server_default="{}"),
    sa.Column("asked", sa.BigInteger, nullable=False, server_default="1"),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    _instant("run_at", nullable=False),
    # The lease of the job's current holder, with a new token for each holder.
    _instant("leased_until"),
    sa.Column("lease", sa.String(64)),
    sa.Column("last_error", sa.Text),
    _instant("created_at", nullable=False),
    sa.Index("ux_billing_jobs_kind_key", "kind", "key", unique=True),
    sa.Index(None, "run_at"),
)


class SetAside(Struct, frozen=True):
    event_id: str
    event_type: str
    app_user_id: str
    error: str
    attempts: int
    received_at: Ms
    last_attempt_at: Ms
    body: bytes


set_aside = sa.Table("billing_events_set_aside", metadata, *_columns(SetAside, "event_id", long=("error",)))

# Events with fields that could not be used, each as received.
event_bodies = sa.Table(
    "billing_event_bodies",
    metadata,
    sa.Column("event_id", sa.String(ID), primary_key=True),
    # Names of the fields, separated by commas.
    sa.Column("unread_fields", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    _instant("received_at", nullable=False),
)

# Phones, by their push player id. One belongs to the user who registered it last.
devices = sa.Table(
    "billing_devices",
    metadata,
    sa.Column("player_id", sa.String(ID), primary_key=True),
    sa.Column("app_user_id", sa.String(ID), nullable=False),
    sa.Column("platform", sa.String(32)),
    sa.Column("language", sa.String(35)),
    _instant("registered_at", nullable=False),
    _instant("last_seen_at", nullable=False),
    sa.Index(None, "app_user_id"),
)

# The position in the service's feed.
progress = sa.Table(
    "billing_progress",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    _instant("updated_at", nullable=False),
)
