"""The catalog as pages: the grid, the preview of a change, and that every reader sees the change afterwards."""

import itertools
from urllib.parse import urlencode

import pytest
from playwright.async_api import expect

from latchkey.domain.catalog import ProductKind
from latchkey.domain.instants import to_iso
from latchkey.engine import clock as customer_walk
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.catalog.usecases import entitlement_catalog as entitlements
from latchkey.subjects.catalog.usecases import product_catalog as products
from latchkey.subjects.catalog.usecases.product_catalog import ProductTerms
from latchkey.subjects.projects import page as apps
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import Tab, tab
from tests.http.doings import subscriber
from tests.http.management import get, holds
from tests.subjects.customers.customer_stories import last_audit

_numbers = itertools.count(1)


async def a_mapping(site: Site, *, granted: bool = False) -> tuple[str, str]:
    """A new product and a new entitlement; the product grants it if `granted`."""
    number = next(_numbers)
    entitlement_id, product_id = f"feature_{number}", f"product_{number}"
    terms = ProductTerms(kind=ProductKind.SUBSCRIPTION, price=5, currency="EUR", duration="P1M")
    await entitlements.create_entitlement(site.database, site.project_id, entitlement_id, "Feature", now=site.clock.now)
    await products.create_product(site.database, site.project_id, product_id, terms, site.clock.now)
    if granted:
        await entitlements.attach_products(site.database, site.project_id, entitlement_id, [product_id])
    return product_id, entitlement_id


async def preview(page: Tab, *boxes: tuple[str, str], tick: bool = True) -> None:
    """What would change if these products granted these entitlements."""
    await page.press("See what would change", {f"{one} grants {other}": tick for one, other in boxes})


def counted(page: Tab, entitlement_id: str) -> tuple[str, ...]:
    [row] = [one for one in page.soup.select("tr") if entitlement_id in one.text and one.select(".gains")]
    return tuple(row.select(kind)[0].text for kind in (".gains", ".losses"))


async def test_ticking_a_box_shows_who_gains_and_saving_it_is_what_every_reader_sees(site: Site) -> None:
    product_id, entitlement_id = await a_mapping(site)
    for name in ("gina", "gus"):
        await site.act("purchase", name, product_id)
    page = await tab(site, Role.DEVELOPER, "/catalog")
    await preview(page, (product_id, entitlement_id))
    assert counted(page, entitlement_id) == ("2", "0")
    assert await holds(site, "gina") == set()
    await page.press("Save")
    assert "Saved" in page.notice
    assert page.ticked(f"{product_id} grants {entitlement_id}")
    assert await holds(site, "gina") == {entitlement_id}
    assert set((await subscriber(site, "gus"))["entitlements"]) == {entitlement_id}
    listed = (await get(site, f"entitlements/{entitlement_id}/products")).json()["items"]
    assert [one["id"] for one in listed] == [product_id]


async def test_taking_a_tick_away_must_be_meant_and_takes_access_away(site: Site) -> None:
    product_id, entitlement_id = await a_mapping(site, granted=True)
    other, _ = await a_mapping(site)
    await entitlements.attach_products(site.database, site.project_id, entitlement_id, [other])
    for name in ("lena", "leo", "lou"):
        await site.act("purchase", name, product_id)
    # Leo holds it by another product too, so he loses nothing.
    await site.act("purchase", "leo", other)
    page = await tab(site, Role.OWNER, "/catalog")
    await preview(page, (product_id, entitlement_id), tick=False)
    assert counted(page, entitlement_id) == ("0", "2")
    with pytest.raises(AssertionError, match="confirm is required"):
        await page.press("Save")
    await page.press("Save", sure=True)
    assert "Saved" in page.notice
    assert [await holds(site, name) for name in ("lena", "leo", "lou")] == [set(), {entitlement_id}, set()]
    # It was granted, and ended with this change.
    ended = (await subscriber(site, "lena"))["entitlements"]
    assert {id: one["expires_date"] for id, one in ended.items()} == {entitlement_id: to_iso(site.clock.now)}


async def test_the_second_of_two_people_is_told_that_the_catalog_changed_and_keeps_what_they_wanted(
    site: Site,
) -> None:
    mine, late = await a_mapping(site), await a_mapping(site)
    first, second, third = [await tab(site, Role.DEVELOPER, "/catalog") for _ in range(3)]
    await preview(third, (mine[0], late[1]))
    await preview(first, mine)
    await first.press("Save")
    assert "Saved" in first.notice
    await preview(second, late)
    await third.press("Save")
    for page in (second, third):
        assert page.status == 409
        assert "The catalog was changed in the meantime" in page.alert
        # The form shows what the first person saved, and keeps what the second one chose.
        assert page.ticked(" grants ".join(mine))
    assert second.ticked(" grants ".join(late))
    assert third.ticked(f"{mine[0]} grants {late[1]}")
    await preview(second)
    await second.press("Save")
    assert "Saved" in second.notice
    found = [await products.load_product(site.database, site.project_id, one) for one, _ in (mine, late)]
    assert [one.grants for one in found] == [(mine[1],), (late[1],)]


async def test_saving_without_a_change_changes_nothing(site: Site) -> None:
    await a_mapping(site)
    page = await tab(site, Role.DEVELOPER, "/catalog")
    await preview(page)
    assert "Nothing was changed" in page.notice


HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202egnp.exe'
LONG = "W" * 100


async def test_a_product_is_made_changed_and_deleted_and_the_api_agrees(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/catalog/new-product")
    await page.press("Put on sale", {"Id": "gold_monthly", "Name": HOSTILE, "Price": "ten"})
    assert "A price is a number such as 9.99" in page.alert
    assert page.value("Name") == HOSTILE
    # Lengths are written in words; ISO 8601 is taken too.
    assert page.value("Billing period") == "1 month"
    await page.press("Put on sale", {"Price": "12,50", "Currency": "eur", "Trial": "7 moons"})
    assert "Write it as '1 month', '7 days' or P1M" in page.alert
    await page.press("Put on sale", {"Trial": "7 days"})
    assert "gold_monthly is on sale" in page.notice
    shown = (await get(site, "products/gold_monthly")).json()
    assert [shown[name] for name in ("display_name", "price", "currency", "duration", "trial_duration")] == [
        HOSTILE, 12.5, "EUR", "P1M", "P7D",
    ]  # fmt: skip
    assert page.heading == HOSTILE
    assert page.value("Trial") == "1 week"
    await page.press("Save", {"Price": "9.99"})
    assert (await get(site, "products/gold_monthly")).json()["trial_duration"] == "P7D"
    await page.press("Save", {"Billing period": "p1m", "Trial": "", "Comes with": "COIN", "Amount": "5"})
    assert "Running subscriptions keep their price" in page.notice
    shown = (await get(site, "products/gold_monthly")).json()
    assert (shown["price"], shown["trial_duration"], shown["credits"]) == (9.99, None, {"code": "COIN", "amount": 5})
    await page.press("Save", {"Billing period": ""})
    assert "A subscription needs a duration" in page.alert
    await page.press("Delete product", sure=True)
    assert "gold_monthly is not sold any more" in page.notice
    assert (await get(site, "products/gold_monthly")).status == 404


async def test_an_entitlement_is_made_renamed_and_deleted_once_nothing_grants_it(site: Site) -> None:
    page = await tab(site, Role.OWNER, "/catalog/new-entitlement")
    await page.press("Create entitlement", {"Id": "pro"})
    assert "There is already an entitlement 'pro'" in page.alert
    await page.press("Create entitlement", {"Id": "offline", "Name": LONG})
    assert "offline was created" in page.notice
    await entitlements.attach_products(site.database, site.project_id, "offline", ["pro_monthly"])
    await page.open("/catalog/entitlements")
    await page.follow(LONG[:20])
    await page.press("Save", {"Name": "Offline"})
    assert page.heading == "Offline"
    await page.press("Delete entitlement", sure=True)
    assert "is granted by 'pro_monthly'" in page.alert
    await entitlements.detach_products(site.database, site.project_id, "offline", ["pro_monthly"], 0)
    await page.press("Delete entitlement", sure=True)
    assert "offline was deleted" in page.notice
    assert (await get(site, "entitlements/offline")).status == 404


async def test_a_long_count_goes_on_by_itself_until_it_is_complete(
    site: Site, developer: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    product_id, entitlement_id = await a_mapping(site)
    for number in range(12):
        await site.act("purchase", f"many {number}", product_id)
    page = await developer.open("/catalog")
    await page.get_by_label(f"{product_id} grants {entitlement_id}", exact=True).click()
    monkeypatch.setattr(customer_walk, "AT_ONCE_WALK", 2)
    monkeypatch.setattr(customer_walk, "SECONDS", 0)
    async with page.expect_response(lambda reply: "passed=2" in reply.url):
        await page.get_by_role("button", name="See what would change").click()
    await expect(page.locator("[data-counted]")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=entitlement_id)
    await expect(row.locator(".gains, .losses")).to_have_text(["12", "0"])
    await expect(page.get_by_role("status")).to_contain_text("customers were looked at")


async def test_forms_and_addresses_that_no_page_of_ours_makes_are_refused(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    below = f"/dashboard/projects/{site.project_id}/catalog"
    version = await _version(site)
    too_many = [f"product_{number}|pro" for number in range(201)]
    tried: list[tuple[str, dict[str, object], int]] = [
        ("mapping", {"version": version, "grant": "nonsense"}, 400),
        ("mapping", {"version": "x", "grant": "pro_monthly|team"}, 400),
        ("mapping", {"version": version, "grant": "nothing|team"}, 404),
        ("mapping", {"version": version, "grant": too_many}, 400),
        ("mapping/save", {"version": version, "attach": "pro_monthly|nothing"}, 404),
        ("mapping/save", {"version": version, "detach": "pro_monthly|pro"}, 400),
        ("mapping/save", {"version": version - 1, "attach": "pro_monthly|team"}, 409),
        ("new-product", {"id": "x y", "kind": "subscription", "price": "1", "currency": "USD", "duration": "P1M"}, 400),
        ("new-product", {"id": "xy", "kind": "rent", "price": "1", "currency": "USD"}, 400),
        ("new-product", {"id": "xy", "kind": "one_time", "price": "nan", "currency": "USD"}, 400),
        (
            "new-product",
            {"id": "xy", "kind": "one_time", "price": "1", "currency": "USD", "code": "NO", "amount": 1},
            404,
        ),
        ("new-product", {"id": "xy", "kind": "one_time", "price": "1", "currency": "USD", "code": "COIN"}, 400),
        ("products/pro_monthly/delete", {}, 400),
        ("products/nothing", {"price": "1", "currency": "USD"}, 404),
        ("entitlements/nothing", {"display_name": "x"}, 404),
    ]
    for path, form, status in tried:
        reply = await me.post(f"{below}/{path}", form)
        assert (reply.status, path) == (status, path), (form, reply)
    for query, status in (("", 303), ("version=1&attach=nonsense", 400), (f"version={version}&attach=a%7Cb", 404),
                          (f"version={version}&attach=pro_monthly%7Cteam&gains=x%7Cy", 400),
                          (f"version={version}&attach=pro_monthly%7Cteam&after=-1", 400),
                          (f"version={version - 1}&attach=pro_monthly%7Cteam", 409)):  # fmt: skip
        wanted = f"{below}/preview?{query}" if query else f"{below}/preview?version=1"
        assert (await me.get(wanted)).status == status, query
    assert await _version(site) == version


async def test_a_new_project_is_told_what_to_do_first(site: Site) -> None:
    made = await projects.create_project(site.database, HOSTILE[:100], site.clock.now)
    owner = await somebody(site, None)
    await team.add_member(site.database, made.id, owner.email, Role.OWNER, site.clock.now)
    page = Tab(owner)
    for path, words in (
        ("catalog", "Begin with an entitlement"),
        ("catalog/products", "No products yet"),
        ("catalog/entitlements", "No entitlements yet"),
        ("experiments", "No experiments yet"),
        ("currencies", "No virtual currencies yet"),
        ("apps", "No apps yet"),
        ("keys", "No secret keys yet"),
    ):
        await page.open(f"/dashboard/projects/{made.id}/{path}")
        assert words in page.text(".empty h2")
        assert made.id in page.text(".snippet code")
    await entitlements.create_entitlement(site.database, made.id, "pro", "Pro", now=site.clock.now)
    await page.open(f"/dashboard/projects/{made.id}/catalog")
    assert "Now add a product" in page.text()


def test_every_store_has_a_name() -> None:
    assert apps.STORES.keys() == projects.PUBLIC_PREFIXES.keys()


async def _version(site: Site) -> int:
    version: int = await site.database.pool.fetchval(
        "select catalog_version from projects where id = $1", site.project_id
    )
    return version


async def test_a_product_with_its_entitlements_and_prices_is_one_form(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    below = f"/dashboard/projects/{site.project_id}/catalog"
    new = {"id": "whole", "kind": "subscription", "price": "9,99", "currency": "usd", "duration": "1 month"}
    new |= {"price-1": "8.99", "currency-1": "eur", "country-1": "de"}
    made = await me.post(f"{below}/new-product", {**new, "entitlement": ["pro", "team"], "row": ["1", "2"]})
    assert (made.status, made.headers.get("location")) == (303, f"{below}/products/whole")
    product = (await get(site, "products/whole")).json()
    assert (product["price"], sorted(product["entitlement_ids"])) == (9.99, ["pro", "team"])
    assert await prices_of(site, "whole") == {"-.DE.EUR": 8.99}
    assert (await last_audit(site))[3] == {"attached": ["pro", "team"], "prices": ["-.DE.EUR"]}

    page = await Tab(me).open("/catalog/products/whole")
    assert page.ticked("Team")
    await page.press("Save", {"Price": "10.99", "Team": False})
    assert (page.status, page.texts(".wrong")) == (
        400, ["Customers who have team by this product lose it. Tick the box if so."],
    )  # fmt: skip
    assert page.value("Price") == "10.99"
    assert (await get(site, "products/whole")).json()["price"] == 9.99
    await page.press("Save", {"If a tick was removed": True})
    product = (await get(site, "products/whole")).json()
    assert (product["price"], product["entitlement_ids"]) == (10.99, ["pro"])

    # Another country, a new price, and one that is removed.
    kept = {"price": "10.99", "currency": "USD", "duration": "P1M", "had": "pro", "entitlement": "pro"}
    rows = {"listed-1": "-.DE.EUR", "price-1": "7", "currency-1": "EUR", "country-1": "FR"}
    rows |= {"price-2": "6", "currency-2": "GBP", "store-2": "paddle"}
    assert (await me.post(f"{below}/products/whole", {**kept, **rows, "row": ["1", "2"]})).status == 303
    assert await prices_of(site, "whole") == {"-.FR.EUR": 7, "paddle.-.GBP": 6}
    removed = {"row": "1", "listed-1": "-.FR.EUR", "price-1": "", "currency-1": "EUR", "country-1": "FR"}
    assert (await me.post(f"{below}/products/whole", {**kept, **removed})).status == 303
    assert await prices_of(site, "whole") == {"paddle.-.GBP": 6}


async def test_every_error_of_a_product_is_at_its_field_and_nothing_is_saved(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    below = f"/dashboard/projects/{site.project_id}/catalog"
    wrong = {"csrf": me.csrf, "id": "x y", "kind": "subscription", "price": "much", "currency": "us"}
    wrong |= {"duration": "soon", "trial_duration": "later", "display_name": "\x07"}
    wrong |= {"country-1": "xx", "price-2": "1", "currency-2": "EUR", "store-2": "No"}
    version = await _version(site)
    page = Tab(me)
    await page._ask("POST", f"{below}/new-product", urlencode({**wrong, "row": ["1", "2"]}, doseq=True).encode())
    marked = {str(one["name"]) for one in page.soup.select("[aria-invalid=true]")}
    assert (page.status, marked) == (
        400,
        {"id", "display_name", "price", "currency", "duration", "trial_duration"}
        | {"price-1", "currency-1", "country-1", "store-2"},
    )
    # What fails in the transaction takes back what was done before.
    good = {"id": "half", "kind": "one_time", "price": "1", "currency": "USD", "entitlement": ["pro", "nothing"]}
    assert (await me.post(f"{below}/new-product", good)).status == 404
    assert (await get(site, "products/half")).status == 404
    assert await _version(site) == version


async def test_two_prices_for_the_same_buyers_are_refused_at_the_second_one(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    here = f"/dashboard/projects/{site.project_id}/catalog"
    new = {"csrf": me.csrf, "id": "twice", "kind": "one_time", "price": "1", "currency": "USD"}
    rows = {"price-1": "2", "currency-1": "EUR", "country-1": "DE", "price-2": "3", "currency-2": "eur"}

    async def refused(path: str, **more: str) -> None:
        page, fields = Tab(me), {**new, **rows, **more, "row": ["1", "2"]}
        await page._ask("POST", f"{here}/{path}", urlencode(fields, doseq=True).encode())
        marked = [str(one["name"]) for one in page.soup.select("[aria-invalid=true]")]
        assert (page.status, marked) == (400, ["currency-2"])

    await refused("new-product", **{"country-2": "de"})
    assert (await get(site, "products/twice")).status == 404
    made = await me.post(f"{here}/new-product", {**new, **rows, "country-2": "FR", "row": ["1", "2"]})
    assert made.status == 303
    # One that is listed is moved onto another, which is shown in the form, or was added by somebody else meanwhile.
    listed = {"listed-1": "-.DE.EUR", "listed-2": "-.FR.EUR"}
    await refused("products/twice", **listed, **{"country-2": "DE"})
    await refused("products/twice", **{"country-1": "AT", "country-2": "DE"})
    assert await prices_of(site, "twice") == {"-.DE.EUR": 2, "-.FR.EUR": 3}
    # Two that change places are no such thing.
    swapped = {**new, **rows, **listed, "country-1": "FR", "country-2": "DE", "row": ["1", "2"]}
    assert (await me.post(f"{here}/products/twice", swapped)).status == 303
    assert await prices_of(site, "twice") == {"-.DE.EUR": 3, "-.FR.EUR": 2}


async def prices_of(site: Site, product_id: str) -> dict[str, float]:
    return {one["id"]: one["price"] for one in (await get(site, f"products/{product_id}/prices")).json()["items"]}
