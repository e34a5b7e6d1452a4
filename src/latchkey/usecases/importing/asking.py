"""What the stores are asked about after an import, and when: spread over time, so that their quotas are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from latchkey.domain.customers.customer import Customer
from latchkey.domain.importing.person import PurchaseKey
from latchkey.domain.instants import SECOND, Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Subscription
from latchkey.storage.stores.handles import Handle
from latchkey.usecases.stores.taking import check_at

# Purchases of one app that are read again in a second. Google counts several calls for each, and allows 200,000 a day.
PACE: Mapping[str, float] = {"app_store": 5, "mac_app_store": 5, "play_store": 1, "stripe": 5, "rc_billing": 5}
# Stores that tell of a purchase by an id that every file has. Others need a purchase token.
_ASKED_BY_ID = frozenset({"app_store", "mac_app_store"})
# How ids begin with which other stores can be asked: Google for the purchase token of an order, Stripe for a
# subscription, one of its items, or a payment on a page.
_ASKED_BY = {"play_store": ("GPA.",), "stripe": ("sub_", "cs_", "si_"), "rc_billing": ("sub_", "cs_", "si_")}


@dataclass(slots=True)
class Questions:
    """Counts the questions by app, so that each gets its own second."""

    began_at: Ms
    asked: dict[str, int] = field(default_factory=dict)

    def of(
        self, customer: Customer, keys: frozenset[PurchaseKey], tokens: Mapping[PurchaseKey, str], now: Ms
    ) -> Iterator[tuple[Handle, Ms]]:
        """The handles of these purchases, each with the moment at which its store last told of it."""
        bought: tuple[Subscription | Purchase, ...] = (*customer.subscriptions, *customer.purchases)
        for one in bought:
            if (one.store, one.id) in keys and one.app_id is not None:
                handle = _handle(one, tokens.get((one.store, one.id)))
                if handle is not None:
                    yield self._asked(one, customer.project_id, one.app_id, handle, now)

    def _asked(
        self, one: Subscription | Purchase, project_id: str, app_id: str, handle: str, now: Ms
    ) -> tuple[Handle, Ms]:
        subscription = isinstance(one, Subscription)
        made = Handle(
            project_id=project_id,
            app_id=app_id,
            store=one.store,
            handle=handle,
            environment=one.environment,
            store_id=one.id,
            kind="subscription" if subscription else "one_time",
            product_id=one.current.product_id if isinstance(one, Subscription) else one.product_id,
            check_at=self._check_at(one, app_id, now) if isinstance(one, Subscription) else None,
        )
        told_at = one.status.as_of.at if isinstance(one, Subscription) else one.told_at or one.purchased_at
        return made, min(told_at, now)

    def _check_at(self, one: Subscription, app_id: str, now: Ms) -> Ms | None:
        """In turn, but never later than without an import. What ended long ago is not asked about."""
        expected = check_at(one, now)
        if expected is None:
            return None
        turn = self.asked[app_id] = self.asked.get(app_id, 0) + 1
        return min(expected, self.began_at + int(turn * SECOND / PACE.get(one.store, 1)))


def _handle(one: Subscription | Purchase, token: str | None) -> str | None:
    if isinstance(one, Purchase) and one.kind is not PurchaseKind.ONE_TIME:
        return None
    if token is not None:
        return token
    if one.store in _ASKED_BY_ID:
        return one.id
    last = one.current.id if isinstance(one, Subscription) and one.store == "play_store" else one.id
    return last if last.startswith(_ASKED_BY.get(one.store, ())) else None
