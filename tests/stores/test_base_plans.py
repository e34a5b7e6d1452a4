"""The rules may not import the registry of stores, so they name stores with plans themselves."""

from __future__ import annotations

from latchkey.domain import storefront
from latchkey.domain.purchases import reference
from latchkey.stores import registry


def test_the_rules_and_the_registry_name_the_same_stores() -> None:
    assert {storefront.GOOGLE, "stripe", "rc_billing"} == registry.BASE_PLANS
    # Stripe's plans are prices, and none is prepaid.
    assert {storefront.GOOGLE} == reference.PREPAID
