"""Rows of Latchkey's own format, as cells of a file."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.subjects.exports import render as rendering
from latchkey.subjects.exports.wire import CustomerRow, TransactionRow, columns
from latchkey.subjects.exports.wire import RowKind as Kind


def cells_of(row: TransactionRow | CustomerRow) -> dict[str, Any]:
    """As JSON Lines has them."""
    values = msgspec.json.decode(msgspec.json.encode(row))
    return {one.name: _written(one.kind, values[one.name]) for one in columns(type(row))}


def transactions_of(customer: Customer, catalog: Catalog) -> list[dict[str, Any]]:
    return [cells_of(row) for row in rendering.transactions(customer, catalog, 1)]


def _written(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    match kind:
        case Kind.INSTANT:
            return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)).isoformat(timespec="milliseconds")
        case Kind.MONEY:
            return str(Decimal(value).scaleb(-6))
        case Kind.JSON:
            return msgspec.json.decode(value)
        case _:
            return value
