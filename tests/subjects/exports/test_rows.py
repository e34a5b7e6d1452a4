"""Rows of an export: what they hold of a customer, and that their columns stay as they are."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import json, structs
from msgspec.structs import replace

from latchkey.domain.customers.customer import Attribute, LastSeen, with_attributes, with_purchase, with_subscription
from latchkey.domain.customers.promotion import grant
from latchkey.domain.instants import DAY
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Reason
from latchkey.domain.stores.test_store import actions
from latchkey.subjects.exports import render as rows
from latchkey.subjects.exports import wire
from latchkey.subjects.exports.wire import ROWS, SCHEMA_VERSION, Row, columns
from tests.domain.book import Book
from tests.domain.shop import CATALOG, NOON, PRO_LIFETIME, PRO_MONTHLY, bought, someone, subscribed
from tests.engine import lives

GOLDEN = Path(__file__).parent / "golden"


def described() -> str:
    """The columns of every kind of row, as they are kept in the golden file."""
    lines = [f"schema version {SCHEMA_VERSION}"]
    for name, row in ROWS.items():
        lines.append(f"\n[{name}]")
        lines.extend(f"{one.name}: {one.kind}{'?' if one.nullable else ''}" for one in columns(row))
    return "\n".join(lines) + "\n"


def test_the_columns_are_those_of_the_golden_file() -> None:
    """Files that somebody loads every night must not change under them. A new column comes last, with a new schema
    version and a new golden file; nothing else may change."""
    assert described() == (GOLDEN / f"schema_{SCHEMA_VERSION}.txt").read_text()


def test_a_new_schema_version_only_adds_columns_at_the_end() -> None:
    def sections(version: int) -> list[str]:
        return [one.strip() for one in (GOLDEN / f"schema_{version}.txt").read_text().split("\n\n")[1:]]

    for version in range(2, SCHEMA_VERSION + 1):
        for before, after in zip(sections(version - 1), sections(version), strict=True):
            assert f"{after}\n".startswith(f"{before}\n")
        assert sections(version - 1) != sections(version)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_column_says_what_it_means(row: type[Row]) -> None:
    assert tuple(one.name for one in columns(row)) == row.__struct_fields__
    assert all(one.doc.strip() for one in columns(row))
    assert row.__doc__


def test_a_renewed_subscription_has_a_row_for_each_period_and_its_status_on_the_last() -> None:
    first = subscribed()
    renewed = replace(
        first,
        periods=(
            replace(first.current, country="DE"),
            replace(
                first.current,
                id="sub-1",
                number=1,
                purchased_at=first.current.ends_at,
                ends_at=first.current.ends_at + 30 * DAY,
            ),
        ),
    )
    off = actions.cancel(renewed, NOON + 40 * DAY)
    customer = with_subscription(someone(), off)
    one, two = rows.transactions(customer, CATALOG, 7, {("test_store", "sub"): "secret token"})
    assert (one.app_user_id, one.store, one.subscription_id, one.customer_key) == ("ann", "test_store", "sub", 7)
    assert (one.price, one.currency, one.usd_price, one.country) == (9_990_000, "USD", 9_990_000, "DE")
    assert (one.auto_renew, one.cancellation_reason, one.purchase_token) == (None, None, None)
    assert (two.auto_renew, two.cancellation_reason) == (False, Reason.UNSUBSCRIBE)
    assert (two.purchase_token, two.updated_at) == ("secret token", NOON + 40 * DAY)
    assert (one.entitlement_ids, one.renewal_number, two.renewal_number) == (("pro",), 0, 1)


def test_without_a_rate_there_is_no_price_in_usd() -> None:
    [row] = rows.transactions(with_purchase(someone(), replace(bought(), price=Price(5, "EUR"))), CATALOG, 1)
    assert (row.price, row.usd_price, row.refunded_amount, row.refunded_usd) == (5, None, 0, 0)


def test_a_grant_names_its_entitlement_and_has_no_subscription() -> None:
    [row] = rows.transactions(grant(someone(), "team", None, NOON), CATALOG, 1)
    assert (row.kind, row.store, row.entitlement_ids) == ("promotional", "promotional", ("team",))
    assert (row.subscription_id, row.expires_at, row.price) == (None, None, 0)


def test_an_entitlement_row_is_the_access_that_ends_last() -> None:
    customer = with_purchase(with_subscription(someone(), subscribed(PRO_MONTHLY)), bought(PRO_LIFETIME))
    [row] = rows.entitlements(customer, CATALOG, 3)
    assert (row.entitlement_id, row.product_id, row.expires_at, row.kind) == ("pro", "pro_lifetime", None, "one_time")


def test_a_customer_row_has_ids_attributes_and_balances() -> None:
    customer = with_attributes(
        replace(someone(), aliases=("anonymous", "ann"), balances={"COIN": 5, "ACORN": 1}),
        {"$email": Attribute("=cmd|'/c calc'!A0@example.com", NOON), "gone": Attribute("", NOON)},
    )
    row = rows.customer_row(customer, 3, LastSeen(NOON, country="AT"))
    assert json.decode(row.attributes) == {"$email": {"value": "=cmd|'/c calc'!A0@example.com", "updated_at_ms": NOON}}
    assert (row.aliases, row.balances) == (("anonymous", "ann"), '{"ACORN":1,"COIN":5}')
    assert (row.first_seen_at, row.last_seen_at, row.last_seen_country) == (NOON, NOON, "AT")


@pytest.mark.parametrize("life", lives.LIVES, ids=lambda one: one.__name__)
def test_every_kind_of_life_has_rows_whose_keys_are_unique(life: Callable[[], Book]) -> None:
    customer = life().customer
    found = list(rows.transactions(customer, lives.CATALOG, 1))
    assert len({(one.store, one.subscription_id, one.transaction_id) for one in found}) == len(found)
    assert sum(one.auto_renew is not None for one in found) == len(customer.subscriptions)
    for one in found:
        assert wire.TransactionRow(**structs.asdict(one)) == one
