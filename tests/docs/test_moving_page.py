"""docs/moving-from-revenuecat.md: its links lead somewhere, and its comparison finds what differs."""

import importlib
import sys
from asyncio import to_thread

import pytest

from tests.databases import DemoShelf
from tests.http.client import Shop
from tests.http.doings import did, unhurried
from tests.http.fixtures import opened
from tests.http.serving import serving


async def test_the_comparison_names_each_user_whom_the_services_disagree_about(
    demo_shelf: DemoShelf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        demo_shelf.shelf.lend() as one,
        demo_shelf.shelf.lend() as other,
        opened(one, demo_shelf.demo) as old,
        opened(other, demo_shelf.demo) as new,
        serving(old.client.app) as old_url,
        serving(new.client.app) as new_url,
    ):
        for shop in (old, new):
            await unhurried(shop)
            await did(shop, "purchase", "ada", "pro_lifetime")
            await did(shop, "purchase", "bob", "pro_monthly")
        await did(old, "purchase", "mae", "pro_monthly")
        await did(new, "purchase", "eve", "pro_monthly")
        await did(new, "extend", "bob", "pro_monthly", days=3)
        for name, value in {
            "OLD_URL": old_url,
            "OLD_KEY": _key(old),
            "NEW_URL": new_url,
            "NEW_KEY": _key(new),
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delitem(sys.modules, "examples.moving.compare", raising=False)
        compare = importlib.import_module("examples.moving.compare")
        code = await to_thread(compare.main, ["ada\n", "bob\n", "mae\n", "eve\n", "nobody\n", "\n"])
    lines = capsys.readouterr().out.splitlines()
    said = [line for line in lines if not line.startswith("20")]
    assert code == 1
    assert [line.split(": ")[0] for line in said if ": pro " in line] == ["bob", "mae", "eve"]
    assert "mae: pro is active only in the old service" in said
    assert "eve: pro is active only in the new service" in said
    assert "2 the same, 3 different" in said


def _key(shop: Shop) -> str:
    assert shop.client.key is not None
    return shop.client.key
