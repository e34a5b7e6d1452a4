"""`latchkey mcp`: the tools over stdin and stdout, which ask the service over HTTPS."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from latchkey.subjects.api_keys import usecases as keys
from tests.cli.running import latchkey, typed
from tests.http.client import DAY, NOW, Shop
from tests.http.management import holds
from tests.subjects.mcp.assistants import Site, called, opened_site, refused

pytestmark = pytest.mark.processes
PRO = {"entitlement_id": "pro", "expires_at": NOW + DAY}


@pytest.fixture
async def site(shop: Shop, short_folder: Path) -> AsyncIterator[Site]:
    async with opened_site(shop, short_folder) as site:
        yield site


async def test_an_editor_reads_and_writes_with_the_key_of_its_environment(site: Site) -> None:
    shop = site.shop
    await shop.act("purchase", "ada", "pro_monthly")
    await shop.note("bob", plan="x")
    async with site.over_stdio() as client:
        assert "grant_entitlement" in {tool.name for tool in (await client.list_tools()).tools}
        explained = await called(client, "explain_entitlement", customer_id="ada", entitlement_id="pro")
        assert explained["has_access"]
        planned = await called(client, "grant_entitlement", customer_id="bob", body=PRO)
        assert (planned["action"], planned["present"]["id"]) == ("customer.granted", "bob")
        assert await holds(shop, "bob") == set()
        await called(client, "grant_entitlement", customer_id="bob", body=PRO, confirm=planned["confirm"])
        assert await holds(shop, "bob") == {"pro"}
        # An id that a URL would resolve away, and one that is too long for a URL.
        assert "has to be an id" in await refused(client, "read_customer", customer_id="..")
        assert await refused(client, "read_customer", customer_id="a" * 500_000)
        assert (await called(client, "read_project"))["id"] == shop.project_id


async def test_a_key_that_may_only_read_writes_nothing(site: Site) -> None:
    await site.shop.note("bob", plan="x")
    reader = await keys.create_secret_key(site.shop.database, site.shop.project_id, "reader", NOW, scopes=["read"])
    async with site.over_stdio(reader.plaintext) as client:
        for more in ({}, {"confirm": "AAAA"}):
            assert "403" in await refused(client, "grant_entitlement", customer_id="bob", body=PRO, **more)
    assert await holds(site.shop, "bob") == set()


def test_without_a_service_or_key_it_says_what_is_missing(tmp_path: Path) -> None:
    said = typed("mcp", "--data", tmp_path)
    assert said.returncode == 1
    assert "--url" in said.stderr
    said = typed("mcp", "--url", "https://127.0.0.1:1")
    assert "LATCHKEY_API_KEY" in said.stderr
    said = typed("mcp", "--url", "https://127.0.0.1:1", "--ca", tmp_path / "none.pem", LATCHKEY_API_KEY="sk_x")
    assert "cannot be read" in said.stderr


async def test_a_key_that_the_service_refuses_ends_it(site: Site) -> None:

    words = ("mcp", "--url", site.url, "--ca", site.certificates.authority)
    for key in ("sk_unknown", site.shop.public):
        said = await asyncio.to_thread(latchkey, *words, LATCHKEY_API_KEY=key)
        assert (said.returncode, said.stdout) == (1, "")
        assert "refused the key" in said.stderr
        assert key not in said.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ftp://x", "nonsense", "https://127.0.0.1:1"])
def test_an_address_without_https_or_service_is_refused(url: str) -> None:
    said = latchkey("mcp", "--url", url, LATCHKEY_API_KEY="sk_x")
    assert said.returncode == 1
    assert "Traceback" not in said.stderr
    assert "does not answer as a Latchkey service does" in said.stderr
