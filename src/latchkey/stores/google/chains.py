"""Purchases that replaced one another: an upgrade has a new token, which names the one before it."""

from collections import OrderedDict

from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.google.line import Chain, Earlier
from latchkey.stores.google.publisher import Gone, Publisher, UnknownPurchase
from latchkey.stores.google.resources import SubscriptionPurchase

# Google names the purchase before for as long as a subscription lives. Whoever upgrades more often than this while
# none of the purchases between is known goes on under a new id.
LONGEST = 10
_MOST_KEPT = 2_000


class PurchaseChains:
    """Keeps what was read of purchases that were replaced: it does not change any more."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._kept: OrderedDict[tuple[str, str], SubscriptionPurchase | None] = OrderedDict()

    async def of(self, app: ConnectedApp, purchase: SubscriptionPurchase) -> Chain:
        """The purchases that one replaced, newest first."""
        chain: dict[str, SubscriptionPurchase | None] = {}
        token = purchase.linked_purchase_token
        while token and len(chain) < LONGEST and token not in chain:
            old = await self._read(app, token)
            if old is not None and old.is_prepaid:
                # A prepaid plan is no subscription to Latchkey: what follows it begins anew.
                break
            chain[token] = old
            token = old.linked_purchase_token if old is not None else None
        return tuple(chain.items())

    async def prepaid_before(self, app: ConnectedApp, purchase: SubscriptionPurchase, chain: Chain) -> Earlier:
        """The prepaid purchases that one, or the first of its chain, has replaced, newest first."""
        first = chain[-1][1] if chain else purchase
        found: dict[str, SubscriptionPurchase] = {}
        token = first.linked_purchase_token if first is not None else None
        while token and len(found) < LONGEST and token not in found:
            old = await self._read(app, token)
            if old is None or not old.is_prepaid or not old.items:
                break
            found[token] = old
            token = old.linked_purchase_token
        return tuple(found.items())

    async def _read(self, app: ConnectedApp, token: str) -> SubscriptionPurchase | None:
        """None: Google no longer tells of it."""
        key = (app.app_id, token)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        try:
            old = await self._publisher.subscription(app, token)
        except (UnknownPurchase, Gone):
            old = None
        if old is None or old.is_replaced:
            self._kept[key] = old
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return old
