"""A receipt from an app: the store's proof of a purchase, taken in for whoever shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from latchkey.domain.attributes import with_attributes
from latchkey.domain.customer import Attribute, Customer
from latchkey.domain.intake import take_in
from latchkey.domain.money import Price
from latchkey.domain.purchase import Environment
from latchkey.domain.refusal import OwnedByAnother, Refusal
from latchkey.storage.errors import CollisionError
from latchkey.stores.test_store import actions
from latchkey.stores.test_store.billing import STORE
from latchkey.usecases.changes import Change, Changes, Committed, Situation
from latchkey.usecases.identities import restore
from latchkey.wire.event import Event

# Two devices that show one receipt at the same time take it from each other a few times at most.
_TRIES = 8
_TEST_TOKEN = re.compile(r"test_\d{1,16}_[0-9A-Za-z-]{1,64}")


class InvalidReceipt(Refusal):
    """The receipt proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    app_user_id: str
    token: str
    product_id: str | None = None
    price: Price | None = None
    app_id: str | None = None
    environment: Environment = Environment.SANDBOX
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


async def take_receipt(changes: Changes, project_id: str, receipt: Receipt) -> Committed:
    """The same receipt twice is one purchase; somebody else's is restored as the project is set."""
    if _TEST_TOKEN.fullmatch(receipt.token) is None:
        raise InvalidReceipt("The fetch_token is not one of a store that this project is connected to.")
    key = STORE, receipt.token

    def bought(situation: Situation) -> Customer:
        customer = with_attributes(situation.customer, receipt.attributes)
        if customer.subscription(*key) is not None or customer.purchase(*key) is not None:
            return customer
        product = situation.catalog.products.get(receipt.product_id or "")
        if product is None:
            named = f"{receipt.product_id!r} is not a product of this project." if receipt.product_id else "is missing."
            raise InvalidReceipt(f"The product_id of a test store purchase {named}", param="product_id")
        if customer.test_clock_id is not None and receipt.environment is Environment.PRODUCTION:
            raise Refusal("A customer on a test clock can only make SANDBOX purchases.")
        seen = actions.sell(
            product,
            situation.now,
            id=receipt.token,
            environment=receipt.environment,
            price=receipt.price,
            app_id=receipt.app_id,
        )
        return take_in(customer, situation.catalog, seen, situation.now)

    change = Change(
        project_id=project_id,
        app_user_id=receipt.app_user_id,
        apply=bought,
        create=True,
        claims=frozenset({key}),
    )
    told: tuple[Event, ...] = ()
    for _ in range(_TRIES):
        try:
            taken = await changes.make(change)
        except OwnedByAnother:
            restored = await restore(changes, project_id, receipt.app_user_id, key)
            if restored is not None:
                told += restored.events
            # It is theirs now, or nobody's any more: what else the receipt says is noted in the next round.
            continue
        return replace(taken, events=(*told, *taken.events))
    raise CollisionError("the purchase changes hands faster than it can be restored")
