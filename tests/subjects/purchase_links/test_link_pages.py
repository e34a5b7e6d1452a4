"""Making purchase links: on the dashboard, and by the API."""

from typing import Any

import pytest

from latchkey.subjects.accounts.rules import Role
from tests.dashboard.site import Site
from tests.dashboard.tab import tab
from tests.http.management import get, patch, post, walk
from tests.http.till import opened_page


@pytest.fixture
async def app_id(site: Site) -> str:
    return (await opened_page(site, "stripe")).app_id


async def test_an_owner_makes_a_link_copies_it_and_archives_it(site: Site, app_id: str) -> None:
    page = await tab(site, path="/purchase-links")
    await page.press("Create link", {"Sells": "Product pro_monthly", "Through the app": app_id})
    assert "sells from now on" in page.notice
    [made] = [link for link in await walk(site, "purchase_links") if link["app_id"] == app_id]
    assert (made["product_id"], made["offering_id"]) == ("pro_monthly", None)
    assert f"/buy/{made['id']}" in page.text()
    await page.press("Archive this link", within=made["id"], sure=True)
    assert f"/buy/{made['id']}" not in page.text()
    assert (await get(site, f"purchase_links/{made['id']}")).json()["archived_at"] == site.clock.now


async def test_the_page_says_what_is_missing(site: Site, app_id: str) -> None:
    page = await tab(site, path="/purchase-links")
    assert "has no deep link yet" in page.text()
    assert "sends no mail" in page.text()
    await page.open(f"/apps/{app_id}")
    await page.press("Save deep link", {"Opens your app": "javascript://x"})
    assert "A deep link is a scheme of your app" in page.alert
    await page.press("Save deep link", {"Opens your app": "notes://"})
    assert (await get(site, f"apps/{app_id}")).json()["stripe"]["deep_link"] == "notes://"
    page = await tab(site, Role.VIEWER, "/purchase-links")
    assert page.is_only_read


@pytest.mark.parametrize(
    ("wrong", "status", "param"),
    [
        ({}, 400, "product_id"),
        ({"product_id": "pro_monthly", "offering_id": "x"}, 400, "product_id"),
        ({"product_id": "nothing"}, 404, "product_id"),
        ({"offering_id": "nothing"}, 404, "offering_id"),
        ({"product_id": "pro_monthly", "app_id": "app_demo"}, 400, "app_id"),
        ({"product_id": "pro_monthly", "app_id": "app_none"}, 404, "app_id"),
    ],
)
async def test_a_link_that_could_sell_nothing_is_refused(
    site: Site, app_id: str, wrong: dict[str, Any], status: int, param: str
) -> None:
    reply = await post(site, "purchase_links", {"app_id": app_id, **wrong})
    assert (reply.status, reply.json()["param"]) == (status, param), reply


async def test_links_cannot_be_guessed_and_are_listed(site: Site, app_id: str) -> None:
    new = {"app_id": app_id, "product_id": "pro_yearly"}
    made = [(await post(site, "purchase_links", new)).json() for _ in range(3)]
    assert len({link["id"] for link in made}) == 3
    assert all(len(link["id"]) >= 32 for link in made)
    listed = [link["id"] for link in await walk(site, "purchase_links?limit=2")]
    assert len(listed) == len(set(listed))
    assert set(listed) >= {link["id"] for link in made}
    assert (await get(site, "purchase_links/nothing")).status == 404
    assert (await post(site, "purchase_links/nothing/actions/archive", {})).status == 404


async def test_a_deep_link_that_is_none_is_refused_by_the_api(site: Site, app_id: str) -> None:
    reply = await patch(site, f"apps/{app_id}", {"stripe": {"deep_link": "http://example.com"}})
    assert (reply.status, reply.json()["param"]) == (400, "deep_link")
    reply = await patch(site, f"apps/{app_id}", {"stripe": {"deep_link": "https://example.com/app"}})
    assert reply.json()["stripe"]["deep_link"] == "https://example.com/app"
    reply = await patch(site, f"apps/{app_id}", {"stripe": {"deep_link": None}})
    assert reply.json()["stripe"]["deep_link"] is None
