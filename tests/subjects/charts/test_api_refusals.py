"""Charts that are refused, and keys that may not read them."""

from urllib.parse import quote

from tests.http.client import Shop
from tests.http.management import get, post, refused

WRONG = [
    ("start_date=yesterday", "start_date"),
    ("start_date=2027-02-30", "start_date"),
    ("start_date=2027-01-03&end_date=2027-01-02", "start_date"),
    ("start_date=1900-01-01&end_date=2027-01-02", "start_date"),
    ("start_date=2015-01-01&end_date=2027-01-02", "resolution"),
    ("end_date=0001-01-01", "end_date"),
    ("end_date=1969-12-31", "end_date"),
    ("start_date=0001-01-01&end_date=0001-01-02", "start_date"),
    ("start_date=0001-01-01&end_date=0001-01-02&compare=true", "start_date"),
    # After today there is nothing to show.
    ("start_date=9999-12-31", "start_date"),
    ("start_date=9999-12-25&end_date=9999-12-31&resolution=1", "start_date"),
    # Not written as days.
    ("start_date=1767225600", "start_date"),
    ("start_date=20260101", "start_date"),
    ("end_date=2026-01-01T00:00:00Z", "end_date"),
    ("resolution=3", "resolution"),
    ("resolution=quarter", "resolution"),
    ("realtime=perhaps", "realtime"),
    ("aggregate=median", "aggregate"),
    ("format=xml", "format"),
    ("filters=country", "filters"),
    ("filters={}", "filters"),
    ('filters=[{"name":"country"}]', "filters"),
    ('filters=[{"name":"country","values":[]}]', "filters"),
    ('filters=[{"name":"country","values":[1]}]', "filters"),
    ('filters=[{"name":"country","values":["DE"],"not":true}]', "filters"),
    ('filters=[{"name":"country","values":["a\\u0000b"]}]', "filters"),
    ('filters=[{"name":"attribute:\\u0000","values":["a"]}]', "filters"),
    ("filters=" + "x" * 20_001, "filters"),
    ("selectors=[]", "selectors"),
    ('selectors={"revenue_type":1}', "selectors"),
    ('selectors={"revenue_type":"net"}', "selectors"),
    ('selectors={"colour":"red"}', "selectors"),
    ("environment=%00", "environment"),
    ("environment=x", "environment"),
    ("segment=" + "x" * 256, "segment"),
    # Not known, and given twice.
    ("colour=red", "colour"),
    ("segment=country&segment=store", "segment"),
    ("resolution=1&resolution=1", "resolution"),
    ('filters=[{"name":"country","values":["DE"],"values":["FR"]}]', "filters"),
    ('selectors={"revenue_type":"proceeds","revenue_type":"revenue"}', "selectors"),
]


async def test_400_for_a_chart_with_something_wrong(shop: Shop) -> None:
    for query, param in WRONG:
        reply = await get(shop, f"charts/revenue?{quote(query, safe='=&%')}")
        refused(reply, 400, "parameter_error", param)
    refused(await get(shop, "charts/experiment_results"), 400, "parameter_error", "selectors")
    nul = quote('{"experiment":"\\u0000"}')
    refused(await get(shop, f"charts/experiment_results?selectors={nul}"), 400, "parameter_error", "selectors")
    for path in ("charts/mrr/options", "metrics/overview"):
        refused(await get(shop, f"{path}?environment=clk_none"), 400, "parameter_error", "environment")
        refused(await get(shop, f"{path}?segment=country"), 400, "parameter_error", "segment")
        twice = await get(shop, f"{path}?environment=sandbox&environment=production")
        refused(twice, 400, "parameter_error", "environment")


async def test_400_for_a_currency_that_iso_4217_does_not_have(shop: Shop) -> None:
    for path in ("charts/mrr", "charts/actives", "charts/mrr?format=csv", "metrics/overview"):
        for code in ("XXY", "ABC", "eur", "euro", "x", ""):
            reply = await get(shop, f"{path}{'&' if '?' in path else '?'}currency={code}")
            refused(reply, 400, "parameter_error", "currency")
            assert "ISO 4217" in reply.json()["message"], (path, code)


async def test_every_parameter_of_the_vendor_is_accepted(shop: Shop) -> None:
    filters, selectors = quote('[{"name":"country","values":["DE"]}]'), quote('{"revenue_type":"proceeds"}')
    query = (
        f"realtime=false&filters={filters}&selectors={selectors}&aggregate=average,total&currency=EUR&resolution=0"
        "&start_date=2027-01-01&end_date=2027-01-05&segment=store"
    )
    assert (await get(shop, f"charts/mrr?{query}")).status == 200
    assert (await get(shop, "charts/mrr/options?realtime=true")).status == 200
    assert (await get(shop, "metrics/overview?currency=EUR")).status == 200


async def test_days_to_come_are_left_out(shop: Shop) -> None:
    usual = (await get(shop, "charts/mrr")).json()
    for resolution in ("0", "1", "2"):
        ahead = await get(shop, f"charts/mrr?end_date=9999-12-31&resolution={resolution}&compare=true")
        assert (ahead.status, ahead.json()["end_date"]) == (200, usual["end_date"])
    # The earliest day, with everything that reaches further back.
    early = "charts/mrr?start_date=1970-01-01&end_date=1970-01-02&compare=true&resolution=2"
    assert (await get(shop, early)).status == 200


async def test_404_for_what_is_not_there(shop: Shop) -> None:
    for path in ("charts/profit", "charts/customers_active", "charts/profit/options"):
        refused(await get(shop, path), 404, "resource_missing", "chart_name")
    # The vendor has this one; the answer says what to ask instead. For any other name it lists the charts.
    assert "last_seen_after" in (await get(shop, "charts/customers_active")).json()["message"]
    assert "mrr, mrr_movement, arr" in (await get(shop, "charts/profit")).json()["message"]
    missing = quote('{"experiment":"exp_none"}')
    refused(await get(shop, f"charts/experiment_results?selectors={missing}"), 404, "resource_missing", "selectors")


async def test_a_key_for_charts_reads_charts_and_nothing_else(shop: Shop) -> None:
    made = await post(shop, "api_keys", {"name": "board", "scopes": ["charts"]})
    assert (made.status, made.json()["scopes"]) == (201, ["charts"])
    key = made.json()["key"]
    for path in ("charts/mrr", "charts/mrr/options", "metrics/overview"):
        assert (await get(shop, path, key=key)).status == 200
    for path in ("", "customers", "events", "products"):
        refused(await get(shop, path, key=key), 403, "authorization_error", None)
    read = (await post(shop, "api_keys", {"name": "reader", "scopes": ["read"]})).json()["key"]
    assert (await get(shop, "charts/mrr", key=read)).status == 200
    write = (await post(shop, "api_keys", {"name": "writer", "scopes": ["write"]})).json()["key"]
    refused(await get(shop, "charts/mrr", key=write), 403, "authorization_error", None)
    # It gives nobody what it does not have itself.
    mine = {"name": "more", "scopes": ["charts"]}
    refused(await post(shop, "api_keys", mine, key=write), 403, "authorization_error", "scopes")


async def test_what_a_chart_cannot_do_is_named_and_ignored(shop: Shop) -> None:
    asked = quote('[{"name":"product","values":["x"]},{"name":"country","values":["DE"]}]')
    body = (await get(shop, f"charts/customers_new?filters={asked}&segment=attribution")).json()
    assert body["unsupported_params"] == {"filters": ["product"], "segment": "attribution"}
    assert "segments" not in body


async def test_experiments_and_attributes_that_the_project_does_not_have_are_named_and_ignored(shop: Shop) -> None:
    variants = [{"id": "a", "weight": 1}, {"id": "b", "weight": 1}]
    made = (await post(shop, "experiments", {"name": "Prices", "variants": variants})).json()["id"]
    for name, known in (("attribute:nope", False), ("experiment:exp_none", False), (f"experiment:{made}", True)):
        asked = quote(f'[{{"name":"{name}","values":["a"]}}]')
        body = (await get(shop, f"charts/revenue?filters={asked}&segment={name}")).json()
        unsupported = body["unsupported_params"]
        assert (unsupported["filters"], unsupported.get("segment")) == (([], None) if known else ([name], name))
        assert ("segments" in body) is known


async def test_ltv_per_paying_customer_is_not_split_by_what_was_bought(shop: Shop) -> None:
    """Payers are counted by their first payment and revenue by every payment: of one product they do not match."""
    path = "charts/ltv_per_paying_customer"
    for name in ("product", "duration", "store", "offering", "experiment:exp_1"):
        asked = quote(f'[{{"name":"{name}","values":["x"]}},{{"name":"country","values":["DE"]}}]')
        body = (await get(shop, f"{path}?filters={asked}&segment={name}")).json()
        assert body["unsupported_params"] == {"filters": [name], "segment": name}
        assert "segments" not in body
    options = (await get(shop, f"{path}/options")).json()
    assert [one["id"] for one in options["filters"]] == ["country", "platform", "app_version"]
    assert [one["id"] for one in options["segments"]] == ["country", "platform", "app_version"]
