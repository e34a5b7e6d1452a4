from __future__ import annotations

from dataclasses import replace

from latchkey.domain.catalog import Catalog
from tests.domain.shop import CATALOG, PRO_MONTHLY, TEAM_MONTHLY


def test_one_product_grants_several_entitlements_and_several_products_grant_one() -> None:
    assert CATALOG.grants("team_monthly") == ("pro", "team")
    assert CATALOG.grants("pro_monthly") == CATALOG.grants("pro_lifetime") == ("pro",)


def test_an_unknown_product_grants_nothing() -> None:
    assert CATALOG.grants("no such thing") == ()
    assert CATALOG.offered("no such thing") is None


def test_a_product_taken_from_sale_still_grants_but_cannot_be_bought() -> None:
    withdrawn = replace(TEAM_MONTHLY, on_sale=False)
    catalog = Catalog({withdrawn.id: withdrawn, PRO_MONTHLY.id: PRO_MONTHLY})
    assert catalog.offered("team_monthly") is None
    assert catalog.offered("pro_monthly") == PRO_MONTHLY
    assert catalog.grants("team_monthly") == ("pro", "team")
