"""The three formats: exact, read by DuckDB, and equal in their sums to the charts."""

import csv
import io
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from latchkey.domain.customers.customer import Customer, with_purchase
from latchkey.domain.instants import DAY
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import (
    Environment,
    MoneyBack,
    Purchase,
    PurchaseKind,
    Rate,
    Terms,
    part_in_usd,
    usd_micros,
)
from latchkey.engine.changes import Change, Situation
from latchkey.subjects.charts.storage.project_facts import connect
from latchkey.subjects.exports.usecases.export_formats import FORMATS, instant, money, open_part, parquet_schema
from latchkey.subjects.exports.wire import ROWS, SCHEMA_VERSION, Format, Row, TransactionRow, columns
from tests.domain.money_lives import sums_of_rows
from tests.engine.fixtures import NOON, Core
from tests.subjects.charts.stored_rows import agree
from tests.subjects.exports.loading import export
from tests.subjects.exports.test_rows import GOLDEN

HOSTILE = [
    "=cmd|'/c calc'!A0",
    'a "quoted", name',
    "two\r\nlines",
    "\N{SNOWMAN} \U0001f600",
    "trailing\\",
    " ",
    "NULL",
    "'",
    "\t",
]


def row_of(app_user_id: str, **more: Any) -> TransactionRow:
    given: dict[str, Any] = {
        "store": "test_store",
        "environment": "SANDBOX",
        "kind": "one_time",
        "transaction_id": "t",
        "product_id": "p",
        "purchased_at": NOON,
        "updated_at": NOON,
    }
    return TransactionRow(app_user_id=app_user_id, **{**given, **more})


def written(path: Path, format: Format, rows: list[Row]) -> Path:
    part = open_part(path / f"rows.{format}", format, "transactions", TransactionRow)
    part.write(rows)
    part.close()
    return path / f"rows.{format}"


def answer(query: str) -> list[Any]:
    with connect() as database:
        return database.execute(query).fetchall()


@pytest.mark.parametrize("format", FORMATS)
def test_duckdb_reads_every_text_as_it_was(format: Format, tmp_path: Path) -> None:
    path = written(tmp_path, format, [row_of(text, transaction_id=str(at)) for at, text in enumerate(HOSTILE)])
    source = f"read_csv('{path}', all_varchar=true, quote='\"', escape='\"')" if format == "csv" else f"'{path}'"
    found = answer(f"select app_user_id from {source} order by cast(transaction_id as int)")
    assert [one for (one,) in found] == HOSTILE


def test_csv_is_rfc_4180(tmp_path: Path) -> None:
    content = written(tmp_path, "csv", [row_of('a,"b"', price=-1, auto_renew=True)]).read_bytes()
    assert content.startswith(b"app_user_id,store,app_id,")
    assert content.count(b"\r\n") == 2
    assert b'"a,""b""",test_store,' in content
    [row] = csv.DictReader(io.StringIO(content.decode(), newline=""))
    assert (row["price"], row["auto_renew"], row["app_id"]) == ("-0.000001", "true", "")


@given(st.integers(-(10**15), 10**15))
def test_money_is_exact(micros: int) -> None:
    assert Decimal(money(micros)).scaleb(6) == micros


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (NOON + 7, "2026-01-09T12:00:00.007Z"),
        (7_258_118_399_999, "2199-12-31T23:59:59.999Z"),
    ],
)
def test_instants_have_milliseconds(at: int, text: str) -> None:
    assert instant(at) == text


def test_parquet_has_the_types_of_the_golden_file(tmp_path: Path) -> None:
    described = "\n".join(
        f"[{what}]\n" + "".join(f"{one.name}: {one.type}{'' if one.nullable else ' not null'}\n" for one in schema)
        for what, row in ROWS.items()
        for schema in [parquet_schema(what, row)]
    )
    assert described == (GOLDEN / f"parquet_{SCHEMA_VERSION}.txt").read_text()
    row = row_of("ann", price=9_990_000, usd_rate="0.00006493", usd_rate_date="2026-01-08")
    path = written(tmp_path, "parquet", [row])
    table = pq.read_table(path)
    assert table.schema.metadata[b"latchkey.schema_version"] == str(SCHEMA_VERSION).encode()
    assert table.schema.metadata[b"latchkey.what"] == b"transactions"
    assert table["price"].to_pylist() == [Decimal("9.990000")]
    assert table["usd_rate"].to_pylist() == [Decimal("0.00006493")]
    assert [str(one) for one in table["usd_rate_date"].to_pylist()] == ["2026-01-08"]
    assert table.column_names == [one.name for one in columns(TransactionRow)]


def test_a_parquet_file_without_rows_has_its_columns(tmp_path: Path) -> None:
    assert pq.read_table(written(tmp_path, "parquet", [])).num_columns == len(columns(TransactionRow))


SOLD = [
    # A price in a currency with 0, 2 or 3 decimals, its rate, what was given back in part, whether it was refunded.
    ("JPY", 1_500_000_000, "0.0064935", 0, True),
    ("JPY", 980_000_000, "0.0065127", 100_000_000, False),
    ("EUR", 8_990_000, "1.0834", 0, False),
    ("EUR", 12_345_678, "1.08341234", 0, True),
    ("KWD", 3_125_000, "3.2595", 1_001_000, False),
    ("USD", 9_990_000, None, 0, False),
    ("CHF", 9_900_000, None, 0, False),
]


def sold(number: int) -> Purchase:
    currency, micros, rate, given_back, refunded = SOLD[number]
    return Purchase(
        kind=PurchaseKind.ONE_TIME,
        store="app_store",
        id=f"sold-{number}",
        product_id="pro_lifetime",
        environment=Environment.PRODUCTION,
        purchased_at=NOON - DAY,
        price=Price(micros, currency),
        given_back=given_back,
        money_back=(MoneyBack(NOON),) if refunded else (),
        terms=Terms(Rate(rate, "2026-01-08")) if rate else Terms(),
    )


async def sell(core: Core) -> None:
    for number, purchase in enumerate(map(sold, range(len(SOLD)))):

        def bought(situation: Situation, purchase: Purchase = purchase) -> Customer:
            return with_purchase(situation.customer, purchase)

        await core.changes.make(
            Change(project_id=core.project_id, app_user_id=f"user{number}", apply=bought, create=True)
        )
    await core.act("purchase", user="ann", product="pro_monthly", environment=Environment.PRODUCTION)
    await core.wait(40 * DAY)


def amount(name: str) -> str:
    """In CSV and JSON Lines money is text, so that no reader makes a binary fraction of it by itself."""
    return f"cast({name} as decimal(20, 6))"


@pytest.mark.parametrize("format", FORMATS)
async def test_duckdb_adds_up_what_the_charts_say(core: Core, tmp_path: Path, format: Format) -> None:
    await sell(core)
    folder = await export(core, tmp_path, format=format)
    texts = ", all_varchar=true" if format == "csv" else ""
    reader = {"csv": "read_csv", "jsonl": "read_json", "parquet": "read_parquet"}[format]
    source = f"{reader}('{folder}/transactions-*.{format}'{texts})"
    paid = f"sum({amount('price')} - {amount('refunded_amount')})"
    by_currency = answer(f"select currency, {paid} from {source} where price is not null group by 1")
    charts = sums_of_rows(await agree(core.database, core.project_id))
    net = {currency: one.paid - one.refunded for currency, one in charts.items() if one.paid != one.refunded}
    assert {currency: int(value.scaleb(6)) for currency, value in by_currency if value} == net
    assert net.keys() == {"JPY", "EUR", "KWD", "USD", "CHF"}

    in_usd = f"sum({amount('usd_price')} - {amount('refunded_usd')})"
    [(total, without)] = answer(
        f"select {in_usd}, count(*) filter (where price is not null and usd_price is null) from {source}"
    )
    assert int(total.scaleb(6)) == usd_of_sold() + 2 * 9_990_000
    assert int(total.scaleb(6)) == sum(one.paid_usd - one.refunded_usd for one in charts.values())
    assert without == 1


def usd_of_sold() -> int:
    total: Counter[str] = Counter()
    for purchase in (sold(number) for number in range(len(SOLD))):
        brought = usd_micros(purchase.price, purchase.terms)
        back = purchase.price.micros if purchase.refunded_at else purchase.given_back
        if brought is not None:
            total["usd"] += brought - (part_in_usd(back, purchase.price, purchase.terms) or 0)
    return total["usd"]


@pytest.mark.parametrize("format", FORMATS)
async def test_duckdb_reads_events_customers_and_entitlements(core: Core, tmp_path: Path, format: Format) -> None:
    await sell(core)
    folder = await export(core, tmp_path, format=format)
    reader = {"csv": "read_csv", "jsonl": "read_json", "parquet": "read_parquet"}[format]

    def ask(query: str) -> list[Any]:
        places = {what: f"{reader}('{folder}/{what}-*.{format}')" for what in ("events", "customers", "entitlements")}
        return answer(query.format(**places))

    assert ask("select count(*) from {customers}") == [(len(SOLD) + 1,)]
    assert ask("select count(*) from {entitlements} where expires_at is null") == [(len(SOLD) - 2,)]
    [(events, first, types)] = ask(
        "select count(*), min(position), count(distinct type) from {events} join {customers} using (customer_key)"
    )
    assert (events, first) == (len(await core.events(None)), 1)
    assert types >= 2
    body_as_text = "cast(to_json(body) as varchar)" if format == "jsonl" else "body"
    [(body,)] = ask(f"select {body_as_text} from {{events}} order by position limit 1")
    assert json.decode(body)["app_user_id"] == "user0"
