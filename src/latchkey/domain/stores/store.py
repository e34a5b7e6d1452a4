"""Every store that Latchkey knows. A new store gets its entry in `stores.toml` and nowhere else, then its adapter.

A store without `key_prefix` can appear in events and V1, but no app can be created in it yet.
"""

import tomllib
from importlib.resources import files
from typing import Any, Final, Literal

from msgspec import Struct, convert

# Names of stores that other parts have to tell apart.
APP_STORE: Final = "app_store"
PLAY_STORE: Final = "play_store"
STRIPE: Final = "stripe"
WEB_BILLING: Final = "rc_billing"
TEST_STORE: Final = "test_store"
PROMOTIONAL: Final = "promotional"


class StoreTerms(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shares of a price that a store's public terms name. None where it has no such terms, or they depend on the
    contract."""

    subscription: float | None = None
    one_time: float | None = None
    # In its program for small businesses.
    small_business: float | None = None
    # Of a subscription after one year of paid service.
    after_first_year: float | None = None
    # Whether the store takes its share of what is left after the tax. Others take it of the whole price.
    tax_first: bool = False
    # The share that `takehome_percentage` assumes where the terms name none.
    assumed: float = 0.0


class Store(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    # Where its customers ask for a refund, if it takes such requests from nobody else.
    refund_url: str | None = None
    # Whether it cancels, refunds and extends what an operator names.
    takes_orders: bool = False
    # What the store takes of a payment.
    terms: StoreTerms = StoreTerms()
    # Whether real money is paid there.
    sells: bool = True
    # Whether its apps sell on a page of the store to which a link can lead.
    has_payment_pages: bool = False
    # Which facts V2 shows about an app in this store.
    app_details: Literal["bundle", "package", "stripe_account", "web_billing", "paddle_account"] | None = None

    # Whether a subscription is sold in several base plans, or at several prices. Its product id is then `product:plan`.
    base_plans: bool = False
    # Whether its apps can show a subscription only by its base plan.
    shown_by_base_plan: bool = False
    # Whether its apps may sell products with and without a base plan.
    takes_any_product_id: bool = False
    # Whether it has prepaid plans. Each top-up is a purchase of its own, with the base plan in its product id.
    prepaid_plans: bool = False

    # Whether the name that its notifications give a purchase is enough as a receipt. Only who may write sees it whole.
    names_are_receipts: bool = False
    # How ids begin that are enough as a receipt. A public key sees them only if it has just sent them.
    receipt_ids: tuple[str, ...] = ()
    # How the ids begin that the store gives its buyers. A customer with such an id was never named by an app.
    buyer_ids: tuple[str, ...] = ()
    # A store with the same purchases under the same ids, because one account can be connected to apps of both.
    twin: str | None = None

    # Transaction ids in the vendor's export: "own" if each transaction has its own, "shared" if all transactions of a
    # subscription have the same. None: a renewal may repeat the id of the subscription.
    exported_ids: Literal["own", "shared"] | None = None
    # After an import: how many purchases of one app are read from the store in a second, so that its quota is kept.
    reads_per_second: int = 1
    # What an id of an imported purchase begins with if the store can be asked with it; "" is any id. Empty: a purchase
    # token is needed.
    askable_ids: tuple[str, ...] = ()
    # Whether the store is asked with the id of the last transaction, and not with that of the subscription.
    asked_by_last_transaction: bool = False


_ENTRIES: dict[str, dict[str, Any]] = tomllib.loads((files(__package__) / "stores.toml").read_text(encoding="utf-8"))
STORES: dict[str, Store] = {
    name: convert({**_ENTRIES.get(entry.pop("like", ""), {}), **entry, "name": name}, Store)
    for name, entry in _ENTRIES.items()
}

# Purchases of stores that have no entry are stored too. This has what is assumed about them.
UNKNOWN = Store(name="", title="")

# Roku devices send this platform, but their store has no entry yet.
PLATFORMS = frozenset({"roku"}).union(*(store.platforms for store in STORES.values()))

BASE_PLANS = frozenset(store.name for store in STORES.values() if store.base_plans)


def store_of(name: str | None) -> Store:
    """The entry of this store, or `UNKNOWN`."""
    return STORES.get(name or "", UNKNOWN)


# The stores in which an app can be created.
AppStore = Literal[
    "app_store", "mac_app_store", "play_store", "amazon", "galaxy", "stripe", "rc_billing", "paddle", "test_store"
]
