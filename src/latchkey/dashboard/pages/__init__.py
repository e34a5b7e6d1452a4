"""All pages, by module. A new module must be listed here."""

from __future__ import annotations

from latchkey.dashboard.pages import (
    account,
    app_stores,
    apps,
    audit,
    catalog,
    catalog_entitlements,
    catalog_products,
    currencies,
    customer_actions,
    customer_profile,
    customers,
    deliveries,
    events,
    experiments,
    home,
    journal,
    keys,
    openid,
    overview,
    pretend_store,
    replays,
    settings,
    sign_in,
    static,
    team,
    webhook_setup,
    webhooks,
)
from latchkey.dashboard.pages import clocks as test_clocks

ALL = tuple(
    module.pages
    for module in (
        static,
        sign_in,
        openid,
        home,
        account,
        overview,
        customers,
        customer_profile,
        customer_actions,
        events,
        # Before the pages of one webhook, so that `new` is not taken for an id.
        webhook_setup,
        webhooks,
        deliveries,
        replays,
        catalog,
        catalog_products,
        catalog_entitlements,
        test_clocks,
        experiments,
        currencies,
        apps,
        pretend_store,
        app_stores,
        journal,
        keys,
        settings,
        team,
        audit,
    )
)
