"""Every page there is, by module. A new module is named here, and the guard and the tests know it."""

from __future__ import annotations

from latchkey.dashboard.pages import (
    account,
    apps,
    audit,
    catalog,
    catalog_entitlements,
    catalog_products,
    currencies,
    customers,
    events,
    experiments,
    home,
    keys,
    overview,
    settings,
    sign_in,
    static,
    team,
    test_clocks,
    webhooks,
)

ALL = tuple(
    module.pages
    for module in (
        static,
        sign_in,
        home,
        account,
        overview,
        customers,
        events,
        webhooks,
        catalog,
        catalog_products,
        catalog_entitlements,
        test_clocks,
        experiments,
        currencies,
        apps,
        keys,
        settings,
        team,
        audit,
    )
)
