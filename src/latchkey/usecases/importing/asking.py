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
from latchkey.stores.registry import store_of
from latchkey.usecases.stores.taking import check_at


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
        return min(expected, self.began_at + int(turn * SECOND / store_of(one.store).reads_per_second))


def _handle(one: Subscription | Purchase, token: str | None) -> str | None:
    if isinstance(one, Purchase) and one.kind is not PurchaseKind.ONE_TIME:
        return None
    if token is not None:
        return token
    store = store_of(one.store)
    id = one.current.id if isinstance(one, Subscription) and store.asked_by_last_transaction else one.id
    return id if id.startswith(store.askable_ids) else None
