"""Purchases that replaced one another: an upgrade has a new token, which names the one before it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.google.publisher import Publisher
from latchkey.stores.google.refusal import Gone, Unknown
from latchkey.stores.google.resources import SubscriptionPurchase
from latchkey.stores.google.subscription import is_prepaid

# Google names the purchase before for as long as a subscription lives. Whoever upgrades more often than this while
# none of the purchases between is known goes on under a new id.
LONGEST = 10
_MOST_LINKS = 10_000


@dataclass(frozen=True, slots=True)
class _Link:
    """A purchase that was replaced. Nothing of this changes any more."""

    before: str | None = None
    product: str | None = None
    prepaid: bool = False


class Chains:
    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._links: OrderedDict[tuple[str, str], _Link] = OrderedDict()

    async def of(self, app: ConnectedApp, purchase: SubscriptionPurchase) -> tuple[tuple[str, ...], str | None]:
        """The tokens that a purchase replaced, newest first, and the product of the newest."""
        chain: list[str] = []
        product = None
        token = purchase.linked_purchase_token
        while token and len(chain) < LONGEST and token not in chain:
            link = await self._link(app, token)
            if link.prepaid:
                # A prepaid plan is no subscription to Latchkey: what follows it begins anew.
                break
            chain.append(token)
            product = link.product if len(chain) == 1 else product
            token = link.before
        return tuple(chain), product

    async def _link(self, app: ConnectedApp, token: str) -> _Link:
        key = (app.app_id, token)
        if (known := self._links.get(key)) is not None:
            self._links.move_to_end(key)
            return known
        try:
            old = await self._publisher.subscription(app, token)
        except (Unknown, Gone):
            link = _Link()
        else:
            product = old.line_items[0].product if old.line_items else None
            link = _Link(old.linked_purchase_token, product, is_prepaid(old))
        self._links[key] = link
        if len(self._links) > _MOST_LINKS:
            self._links.popitem(last=False)
        return link
