"""Every store that Latchkey knows, one entry each. A new store is added here and nowhere else, then gets its adapter.

A store without `key_prefix` can appear in events and V1, but no app can be created in it yet.
"""

from __future__ import annotations

from dataclasses import dataclass

# Names of stores that other parts have to tell apart.
APP_STORE, PLAY_STORE, STRIPE, TEST_STORE = "app_store", "play_store", "stripe", "test_store"
_APPLE_SUBSCRIPTIONS = "https://apps.apple.com/account/subscriptions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    # The name in events, V1 and V2.
    name: str
    # The name for people.
    title: str
    # Prefix of the public keys of its apps.
    key_prefix: str | None = None
    # Prefix of the keys that make the web SDK mark its requests as sandbox, where it has such keys.
    sandbox_key_prefix: str | None = None
    # What its apps send in the `X-Platform` header, in lower case. Not a rule: any other value is accepted too.
    platforms: frozenset[str] = frozenset()
    # Where a user manages an active subscription, if the store has such a page.
    management_url: str | None = None
    # Whether a subscription is sold in several base plans, or at several prices. Its product id is then `product:plan`.
    base_plans: bool = False
    # Whether the name that its notifications give a purchase is enough as a receipt. Only who may write sees it whole.
    names_are_receipts: bool = False
    # A store with the same purchases under the same ids, because one account can be connected to apps of both.
    twin: str | None = None


STORES: dict[str, Store] = {
    store.name: store
    for store in (
        Store(
            name=APP_STORE,
            title="App Store",
            key_prefix="appl_",
            platforms=frozenset({"ios", "tvos", "watchos", "visionos"}),
            management_url=_APPLE_SUBSCRIPTIONS,
        ),
        Store(
            name="mac_app_store",
            title="Mac App Store",
            key_prefix="mac_",
            platforms=frozenset({"macos", "uikitformac"}),
            management_url=_APPLE_SUBSCRIPTIONS,
        ),
        Store(
            name=PLAY_STORE,
            title="Play Store",
            key_prefix="goog_",
            platforms=frozenset({"android"}),
            management_url="https://play.google.com/store/account/subscriptions",
            base_plans=True,
            names_are_receipts=True,
        ),
        Store(
            name="amazon",
            title="Amazon Appstore",
            key_prefix="amzn_",
            platforms=frozenset({"amazon"}),
            management_url="https://www.amazon.com/gp/mas/your-account/myapps/yoursubscriptions",
        ),
        Store(
            name="galaxy",
            title="Galaxy Store",
            key_prefix="galx_",
            platforms=frozenset({"galaxy"}),
        ),
        Store(
            name=STRIPE,
            title="Stripe",
            key_prefix="strp_",
            platforms=frozenset({"stripe"}),
            base_plans=True,
            names_are_receipts=True,
            twin="rc_billing",
        ),
        Store(
            name="rc_billing",
            title="Web billing",
            key_prefix="rcb_",
            sandbox_key_prefix="rcb_sb_",
            platforms=frozenset({"web"}),
            base_plans=True,
            names_are_receipts=True,
            twin=STRIPE,
        ),
        Store(name="paddle", title="Paddle", key_prefix="pdl_", platforms=frozenset({"paddle"})),
        Store(name=TEST_STORE, title="Test store", key_prefix="test_", platforms=frozenset({"test_store"})),
        Store(name="promotional", title="Promotional grant"),
    )
}

# Roku devices send this platform, but their store has no entry yet.
PLATFORMS = frozenset({"roku"}).union(*(store.platforms for store in STORES.values()))


BASE_PLANS = frozenset(store.name for store in STORES.values() if store.base_plans)
