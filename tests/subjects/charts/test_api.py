"""Charts over HTTP: lives bought in the test store on a test clock, and the numbers that they give, made by hand."""

import csv
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec import json

from latchkey.domain.money.pinned_rates import REFERENCE
from tests.databases import DemoShelf
from tests.http.client import Shop
from tests.http.doings import advance, did, make_clock, move_in
from tests.http.fixtures import opened
from tests.http.management import get, post

VENDOR = {"latchkey-shape": "vendor"}


def ms(day: str) -> int:
    """Noon, UTC."""
    return int(datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC).timestamp() * 1000)


class Books:
    """The charts of one shop, in the time of its test clock, from January to 20 March 2026."""

    def __init__(self, shop: Shop, clock: str, experiment: str) -> None:
        self.shop = shop
        self.clock = clock
        self.experiment = experiment

    async def read(self, name: str, selectors: Mapping[str, str] | None = None, **query: str) -> Any:
        asked = {"environment": self.clock, "resolution": "month", "start_date": "2026-01-01"} | query
        if selectors:
            asked["selectors"] = json.encode(selectors).decode()
        reply = await get(self.shop, f"charts/{name}?{urlencode(asked)}")
        assert reply.status == 200, reply
        return reply.json()

    async def measures(self, name: str, selectors: Mapping[str, str] | None = None, **query: str) -> dict[str, Any]:
        """By measure: its values in January, February and March."""
        body = await self.read(name, selectors, **query)
        assert {one["cohort"] for one in body["values"]} == {ms(day) - 43_200_000 for day in MONTHS}
        found: dict[str, list[Any]] = {one["id"]: [] for one in body["measures"]}
        for one in sorted(body["values"], key=lambda value: value["cohort"]):
            value = one["value"]
            found[body["measures"][one["measure"]]["id"]].append(None if value is None else round(value, 4))
        return found


MONTHS = ("2026-01-01", "2026-02-01", "2026-03-01")


@pytest.fixture(scope="module")
async def books(demo_shelf: DemoShelf) -> AsyncIterator[Books]:
    """pro_monthly is 9.99, team_monthly 29.99, pro_yearly 79.99, coins_100 1.99; a trial has 7 days."""
    async with demo_shelf.shelf.lend() as database, opened(database, demo_shelf.demo) as shop:
        clock = await make_clock(shop, ms("2026-01-10"))
        variants = [{"id": "a", "weight": 1}, {"id": "b", "weight": 1}]
        experiment = (await post(shop, "experiments", {"name": "Prices", "variants": variants})).json()["id"]
        for one in ("ann", "ben", "cat", "fay", "gus"):
            await move_in(shop, one, clock)
        for one in ("ann", "gus"):
            assert (await post(shop, f"experiments/{experiment}/enroll", {"app_user_id": one})).status == 200
        await did(shop, "purchase", "ann", "pro_monthly", country="DE")
        await did(shop, "purchase", "ben", "team_monthly", country="US")
        await did(shop, "cancel", "ben")
        await did(shop, "purchase", "cat", "pro_monthly", trial=True)
        await did(shop, "purchase", "fay", "coins_100")
        # cat's trial converts on 17 January.
        await advance(shop, clock, to_ms=ms("2026-01-20"))
        for one in ("dan", "eve"):
            await move_in(shop, one, clock)
        await did(shop, "purchase", "dan", "pro_monthly", country="DE")
        await did(shop, "purchase", "eve", "pro_monthly", trial=True)
        await did(shop, "cancel", "eve")
        # eve's trial ends on 27 January.
        await advance(shop, clock, to_ms=ms("2026-02-02"))
        await did(shop, "refund", "fay", "coins_100")
        # ann renews and ben expires on 10 February.
        await advance(shop, clock, to_ms=ms("2026-02-15"))
        await did(shop, "change_product", "dan", "pro_monthly", new_product_id="pro_yearly")
        # cat renews on 17 February and gets that payment back a day later.
        await advance(shop, clock, to_ms=ms("2026-02-18"))
        await did(shop, "refund", "cat", "pro_monthly")
        await advance(shop, clock, to_ms=ms("2026-03-01"))
        await did(shop, "purchase", "ben", "team_monthly", country="US")
        # ann's renewal of 10 March fails and is paid on the 12th.
        await advance(shop, clock, to_ms=ms("2026-03-09"))
        await did(shop, "fail_billing", "ann", "pro_monthly", grace_days=6)
        await advance(shop, clock, to_ms=ms("2026-03-12"))
        await did(shop, "recover_billing", "ann", "pro_monthly")
        await advance(shop, clock, to_ms=ms("2026-03-20"))
        yield Books(shop, clock, experiment)


async def test_monthly_revenue_and_what_moved_it(books: Books) -> None:
    assert await books.measures("mrr") == {"mrr": [59.96, 16.6558, 46.6458]}
    assert await books.measures("arr") == {"arr": [719.52, 199.87, 559.75]}
    assert await books.measures("mrr_movement") == {
        "new": [59.96, 0, 0],
        "reactivation": [0, 0, 29.99],
        "expansion": [0, 0, 0],
        # dan pays 79.99 a year instead of 9.99 a month.
        "contraction": [0, -3.3242, 0],
        # ben and cat.
        "churn": [0, -39.98, 0],
        "movement": [59.96, -43.3042, 29.99],
    }


async def test_revenue_and_refunds(books: Books) -> None:
    found = await books.measures("revenue")
    assert found["gross"] == [61.95, 99.97, 39.98]
    assert found["refunds"] == [0, -11.98, 0]
    assert found["revenue"] == [61.95, 87.99, 39.98]
    assert found["transactions"] == [5, 1, 2]
    rate = await books.measures("refund_rate")
    assert rate["refund_rate"] == [20, 33.3333, 0]
    by_product = await books.read("revenue", segment="product", aggregate="total")
    assert by_product["values"] == []
    assert by_product["user_selectors"] == {"revenue_type": "revenue"}
    assert {name: round(one["revenue"], 2) for name, one in by_product["summary"]["total"].items()} == {
        "pro_yearly": 79.99,
        "team_monthly": 59.98,
        "pro_monthly": 49.95,
        "coins_100": 0,
        "$total": 189.92,
    }
    # Three payments of ann and two of dan, who changed the product.
    in_germany = await books.read("revenue", filters='[{"name":"country","values":["DE"]}]', aggregate="total,average")
    assert round(in_germany["summary"]["total"]["gross"], 2) == round(3 * 9.99 + 9.99 + 79.99, 2)


async def test_subscriptions(books: Books) -> None:
    assert await books.measures("actives") == {"actives": [4, 2, 3]}
    assert await books.measures("actives_movement") == {
        "new": [4, 0, 0],
        "returned": [0, 0, 1],
        "churned": [0, -2, 0],
        "movement": [4, -2, 1],
    }
    assert await books.measures("actives_new") == {
        "new": [4, 0, 0],
        "direct": [3, 0, 0],
        "intro": [0, 0, 0],
        "trial_conversions": [1, 0, 0],
    }
    churn = await books.measures("churn")
    assert (churn["churn"], churn["actives"]) == ([None, 50, -50], [0, 4, 2])
    renewals = await books.measures("renewal_rate")
    assert (renewals["due"], renewals["renewed"], renewals["renewal_rate"]) == (
        [0, 3, 1],
        [0, 2, 1],
        [None, 66.6667, 100],
    )
    issues = await books.measures("billing_recovery")
    assert (issues["issues"], issues["recovered_in_time"], issues["recovery_rate"]) == (
        [0, 0, 1],
        [0, 0, 1],
        [None, None, 100],
    )
    status = await books.read("subscription_status")
    assert status["summary"]["total"] == {"set_to_renew": 3, "set_to_cancel": 0, "billing_issue": 0, "total": 3}


async def test_retention(books: Books) -> None:
    body = await books.read("subscription_retention")
    assert (body["display_type"], body["columns"]) == ("heat_map", ["Start", *(f"Period {n}" for n in (1, 2, 3))])
    cells = {
        (one["cohort"], one["period"]): (one["value"], one["incomplete"])
        for one in body["values"]
        if one["measure"] == 0
    }
    january, march = ms("2026-01-01") - 43_200_000, ms("2026-03-01") - 43_200_000
    # ann stays, and is set to renew; cat's second payment was refunded; dan went to a yearly product.
    assert [cells[january, n][0] for n in range(3)] == [4, 1, 1]
    assert cells[january, 3] == (1, True)
    # ben came back and is set to renew.
    assert [cells[march, n] for n in range(2)] == [(1, True), (1, True)]


async def test_retention_by_segment_has_the_total(books: Books) -> None:
    body = await books.read("subscription_retention", segment="country")
    assert body["segments"][-1]["id"] == "$total"
    sizes = [one["value"] for one in body["values"] if (one["measure"], one["period"]) == (0, 0)]
    assert len(sizes) == len(body["segments"]) > 2
    # Four of January, and ben's in March.
    assert sizes[-1] == sum(sizes[:-1]) == 5


@pytest.mark.parametrize("name", ["subscription_retention", "actives"])
async def test_what_is_not_known_has_the_id_that_filters_take(books: Books, name: str) -> None:
    body = await books.read(name, segment="offering")
    assert {"id": "", "display_name": "Not known"} in body["segments"]


async def test_trials(books: Books) -> None:
    assert await books.measures("trials") == {"trials": [0, 0, 0]}
    assert await books.measures("trials_new") == {"trials_new": [2, 0, 0]}
    assert await books.measures("trials_movement") == {
        "new": [2, 0, 0],
        "converted": [-1, 0, 0],
        "expired": [-1, 0, 0],
        "movement": [0, 0, 0],
    }
    rate = await books.measures("trial_conversion_rate")
    assert (rate["trials"], rate["converted"], rate["conversion_rate"]) == ([2, 0, 0], [1, 0, 0], [50, None, None])


async def test_customers(books: Books) -> None:
    assert await books.measures("customers_new") == {"customers": [7, 0, 0]}
    assert await books.measures("customers_paying") == {"customers": [5, 0, 0]}
    initial = await books.measures("initial_conversion")
    assert (initial["converted"], initial["conversion_rate"]) == ([6, 0, 0], [85.7143, None, None])
    paying = await books.measures("conversion_to_paying")
    assert (paying["converted"], paying["conversion_rate"]) == ([5, 0, 0], [71.4286, None, None])
    # The refund of fay's coins came on day 23.
    later = await books.measures("conversion_to_paying", {"conversion_timeframe": "30_days"})
    assert later["converted"] == [4, 0, 0]
    # 9.99 of ann and of cat, 29.99 of ben, 89.98 of dan, nothing of fay.
    ltv = await books.measures("ltv_per_customer")
    assert (ltv["revenue"], ltv["ltv"]) == ([139.95, 0, 0], [19.9929, None, None])
    per_payer = await books.measures("ltv_per_paying_customer")
    assert (per_payer["payers"], per_payer["ltv"]) == ([4, 0, 0], [34.9875, None, None])
    explorer = await books.read("cohort_explorer", {"measure": "payers"})
    first = [one["value"] for one in explorer["values"] if one["measure"] == 0][:4]
    assert first == [4, 5, 5, 4]


async def test_the_results_of_an_experiment(books: Books) -> None:
    body = await books.read("experiment_results", {"experiment": books.experiment})
    variants = body["variants"]
    assert [one["variant"] for one in variants] == ["a", "b"]
    assert [one["is_control"] for one in variants] == [True, False]
    # ann and gus; ann paid three times.
    assert sum(one["customers"] for one in variants) == 2
    assert sum(one["paying"] for one in variants) == 1
    assert round(sum(one["revenue"] for one in variants), 2) == 29.97


async def test_days_weeks_and_dates(books: Books) -> None:
    body = await books.read("revenue", resolution="0", start_date="2026-02-15", end_date="2026-02-18")
    assert (body["resolution"], len(body["values"])) == ("day", 4 * len(body["measures"]))
    assert body["summary"]["total"]["gross"] == pytest.approx(89.98)
    weeks = await books.read("actives", resolution="1", start_date="2026-03-01", end_date="2026-03-20")
    assert [(one["value"], one["incomplete"]) for one in weeks["values"]] == [(3, False), (3, False), (3, True)]
    compared = await books.read("revenue", start_date="2026-02-01", end_date="2026-02-28", compare="true")
    assert compared["previous"]["summary"]["total"]["revenue"] == pytest.approx(61.95)


async def test_without_rates_of_the_operator_a_chart_is_converted_at_the_reference_rate(books: Books) -> None:
    body = await books.read("revenue", currency="EUR")
    found = body["summary"]["total"]["revenue"] * float(REFERENCE["EUR"].usd)
    assert (body["yaxis_currency"], found) == ("EUR", pytest.approx(189.92))
    assert body["left_out"] == {"payments": 0, "currencies": []}


async def test_csv(books: Books) -> None:
    query = urlencode({"environment": books.clock, "resolution": "2", "start_date": "2026-01-01"})
    reply = await get(books.shop, f"charts/mrr?{query}&format=csv")
    assert reply.headers["content-type"].startswith("text/csv")
    assert reply.headers["content-disposition"] == 'attachment; filename="mrr-2026-01-01-2026-03-20.csv"'
    rows = list(csv.reader(StringIO(reply.body.decode())))
    assert rows == [
        ["first_day", "last_day", "complete", "MRR (USD)"],
        ["2026-01-01", "2026-01-31", "yes", "59.96"],
        ["2026-02-01", "2026-02-28", "yes", "16.655833"],
        ["2026-03-01", "2026-03-20", "no", "46.645833"],
    ]
    accepted = await get(books.shop, f"charts/mrr?{query}", headers={"accept": "text/csv"})
    assert accepted.body == reply.body
    for name in ("subscription_retention", "revenue"):
        assert (await get(books.shop, f"charts/{name}?{query}&format=csv&segment=country")).status == 200


async def test_csv_of_totals_has_no_periods(books: Books) -> None:
    query = urlencode({"environment": books.clock, "resolution": "2", "start_date": "2026-01-01"})
    for aggregate, expected in (
        ("total", [["total", "46.645833"]]),
        ("average,total", [["average", "38.307916"], ["total", "46.645833"]]),
    ):
        reply = await get(books.shop, f"charts/mrr?{query}&format=csv&aggregate={aggregate}")
        assert list(csv.reader(StringIO(reply.body.decode()))) == [["summary", "MRR (USD)"], *expected]
    compared = await get(books.shop, f"charts/mrr?{query}&format=csv&aggregate=total&compare=true")
    assert compared.body.decode().splitlines()[0] == "summary,MRR (USD),previous MRR (USD)"
    retained = await get(books.shop, f"charts/subscription_retention?{query}&format=csv&aggregate=total")
    rows = list(csv.DictReader(StringIO(retained.body.decode())))
    assert {one["row"] for one in rows} == {"All"}


async def test_the_overview(books: Books) -> None:
    body = (await get(books.shop, f"metrics/overview?environment={books.clock}")).json()
    found = {one["id"]: (one["value"], one["unit"], one["period"]) for one in body["metrics"]}
    assert found["active_subscriptions"] == (3, "#", "P0D")
    assert found["active_trials"] == (0, "#", "P0D")
    assert found["mrr"] == (pytest.approx(46.645833), "$", "P0D")
    # From 21 February on.
    assert found["revenue"] == (pytest.approx(39.98), "$", "P28D")
    assert found["new_customers"] == (0, "#", "P28D")


async def test_options(books: Books) -> None:
    body = (await get(books.shop, f"charts/revenue/options?environment={books.clock}")).json()
    assert body["resolutions"][2] == {"id": "2", "display_name": "Month"}
    filters = {one["id"]: [value["id"] for value in one["options"]] for one in body["filters"]}
    assert set(filters["product"]) == {"", "pro_monthly", "team_monthly", "pro_yearly", "coins_100"}
    assert filters[f"experiment:{books.experiment}"] == ["a", "b"]
    assert "transaction_type" in {one["id"] for one in body["segments"]}
    assert body["user_selectors"]["revenue_type"]["default"] == "revenue"


async def test_attributes_that_the_project_has_chosen_are_among_the_options(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def chosen(*_: object) -> list[str]:
        return ["plan"]

    monkeypatch.setattr("latchkey.subjects.charts.usecases.chosen_attributes", chosen)
    body = (await get(books.shop, "charts/mrr/options")).json()
    named = {"id": "attribute:plan", "display_name": "plan", "group_display_name": "Attributes"}
    assert named in body["segments"]
    assert {**named, "options": []} in body["filters"]


async def test_the_vendors_clients_get_the_vendors_fields(books: Books) -> None:
    reply = await get(books.shop, f"charts/mrr?environment={books.clock}&segment=country", headers=VENDOR)
    assert {"left_out", "previous", "environment"}.isdisjoint(reply.json())
    assert reply.json()["segments"][-1] == {"id": "$total", "display_name": "Total"}


async def test_production_and_other_projects_see_nothing_of_it(books: Books) -> None:
    body = (await get(books.shop, "charts/revenue?resolution=2")).json()
    assert body["environment"] == "production"
    assert body["summary"]["total"]["gross"] == 0
