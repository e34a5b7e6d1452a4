"""Receipts from apps: those of the test store, recorded for the user who presents them; and those of other stores, as
the journal keeps them.

A token of the test store is made up by the phone, so it proves only that its sender knows it. Everything else comes
from Latchkey: price and currency from the catalog, the environment (always SANDBOX) from the store, and the app from
the key.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256

from msgspec import Struct, field, json, structs

from latchkey.domain.catalog import Catalog, ListedPrice, price_for
from latchkey.domain.customers.customer import Attribute, Customer, LastSeen, not_later_than, with_shown_attributes
from latchkey.domain.customers.intake import stand_in, take_in, withdrawn
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.presented import presented
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.domain.stores.store import TEST_STORE
from latchkey.domain.stores.test_store import actions
from latchkey.engine.changes import Change, Changes, Committed, Situation
from latchkey.engine.storage.catalog import product_rows as catalog_storage
from latchkey.stores.adapter import AppReceipt, ConnectedApp
from latchkey.subjects.customers.usecases.identities import claimed, restore, turn
from latchkey.subjects.purchase_intake.rules import NewEntry

# Prefix of every token of the test store. No other store issues such tokens.
TEST_PREFIX = "test_"
_TEST_TOKEN = re.compile(r"test_\d{1,16}_[0-9A-Za-z-]{1,64}")


class RejectedReceipt(Refusal):
    """The receipt is certainly not proof of a purchase."""


class _PricesNeeded(Refusal):
    """Prices are not part of the catalog, so that reads need not load them."""


class _NotCounted(Refusal):
    """Only under the customer's lock is it known whether a temporary grant is new."""


class CannotCheck(Refusal):
    """The receipt may be valid, but there is no connection to its store to verify it."""

    def __init__(
        self, message: str = "The store cannot be asked now. Keep the purchase, and send it again later."
    ) -> None:
        super().__init__(message)


class Receipt(Struct, frozen=True, kw_only=True):
    app_user_id: str
    token: str
    # The app whose key the receipt was sent with, and that app's store. With a secret key both are None.
    app_id: str | None
    store: str | None
    product_id: str | None = None
    # What the buyer saw the price in, and where: they choose among the prices that the operator listed.
    currency: str | None = None
    country: str | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    # The offering that the app showed.
    offering: str | None = None
    # Where the customer was seen with it.
    seen: LastSeen | None = None


async def take_receipt(changes: Changes, project_id: str, receipt: Receipt) -> Committed:
    """The same receipt twice is one purchase. Another customer's receipt is restored according to the project's
    setting."""
    _check_token(receipt)
    key = TEST_STORE, receipt.token
    attributes = not_later_than(changes.now(), receipt.attributes)
    listed: tuple[ListedPrice, ...] | None = None
    country = receipt.country

    def bought(situation: Situation) -> Customer:
        _require_open(situation.catalog)
        customer = with_shown_attributes(situation.customer, attributes)
        if customer.subscription(*key) is not None or customer.purchase(*key) is not None:
            return customer
        if situation.endings:
            raise RejectedReceipt("This purchase was refunded.", param="fetch_token")
        product = situation.catalog.offered(receipt.product_id or "")
        if product is None:
            problem = f"{receipt.product_id!r} is not a product of this project."
            if not receipt.product_id:
                problem = "is missing or cannot be read."
            raise RejectedReceipt(f"The product_id of a test store purchase {problem}", param="product_id")
        if situation.catalog.lists_prices:
            if listed is None:
                raise _PricesNeeded("Some products have prices beside their own.")
            price = price_for(product.price, listed, store=TEST_STORE, country=country, currency=receipt.currency)
            product = structs.replace(product, price=price)
        seen = actions.sell(
            product, situation.now, id=receipt.token, environment=Environment.SANDBOX, app_id=receipt.app_id
        )
        seen = presented(seen, receipt.offering, (product.id,), situation.catalog)
        return take_in(customer, seen, situation.now)

    change = Change(
        project_id=project_id,
        app_user_id=receipt.app_user_id,
        apply=bought,
        create=True,
        claims=frozenset({key}),
        seen=receipt.seen,
    )

    async def attempt() -> Committed:
        nonlocal listed, country
        try:
            return await changes.make(change)
        except _PricesNeeded:
            async with changes.database.acquire() as connection:
                known = await catalog_storage.load_price(connection, project_id, [receipt.product_id or ""])
                country = country or await catalog_storage.country_of(connection, project_id, receipt.app_user_id)
            listed = known.get(receipt.product_id or "", ())
            return await changes.make(change)

    async with turn(project_id, key):
        return await claimed(attempt, partial(restore, changes, project_id, receipt.app_user_id, key, _require_open))


def _require_open(catalog: Catalog, _: Customer | None = None) -> None:
    if TEST_STORE in catalog.closed_stores:
        raise RejectedReceipt("The test store of this project is closed.", param="fetch_token")


def _check_token(receipt: Receipt) -> None:
    if receipt.store == TEST_STORE:
        if _TEST_TOKEN.fullmatch(receipt.token) is None:
            raise RejectedReceipt("The fetch_token is not a token of the test store.", param="fetch_token")
    elif receipt.token.startswith(TEST_PREFIX):
        raise RejectedReceipt(
            "Tokens of the test store count only with the public key of an app in the test store (test_...).",
            param="fetch_token",
        )
    else:
        raise CannotCheck(
            "Latchkey is not connected to the store of this purchase yet. Keep it, and send it again later."
        )


class ShownReceipt(AppReceipt, frozen=True, kw_only=True, omit_defaults=True):
    app_user_id: str
    # The offering that the app showed.
    offering: str | None = None

    @property
    def token_hash(self) -> str:
        return sha256((self.token or "").encode()).hexdigest()

    @property
    def subject(self) -> str:
        return f"receipt {self.token_hash[:32]}"

    @property
    def stand_in_id(self) -> str:
        """The id of the temporary access that this receipt may bring."""
        return f"temporary {self.token_hash}"

    def entry(self, project_id: str, app_id: str, store: str, now: Ms) -> NewEntry:
        """Whoever shows the same receipt again finds the same entry."""
        payload = json.encode(self)
        return NewEntry(
            project_id=project_id,
            app_id=app_id,
            store=store,
            source="receipt",
            external_id="receipt " + sha256(payload).hexdigest(),
            kind="RECEIPT",
            environment=None,
            # Never the token itself: who may see the journal's list need not be able to show it.
            subject=self.subject,
            occurred_at=now,
            received_at=now,
            checked={},
            payload=payload.decode(),
            next_at=now,
            app_user_id=self.app_user_id,
        )


async def give(
    changes: Changes,
    app: ConnectedApp,
    shown: ShownReceipt,
    attributes: Mapping[str, Attribute],
    count: Callable[[], Awaitable[bool]],
) -> Committed:
    """Raises CannotCheck where no temporary access may be given. `count` counts one that is new, and says whether the
    app may give one more."""
    counted = False

    def granted(situation: Situation) -> Customer:
        customer = with_shown_attributes(situation.customer, attributes)
        access = stand_in(
            customer,
            situation.catalog,
            shown.product_ids,
            situation.now,
            store=app.store,
            id=shown.stand_in_id,
            app_id=app.app_id,
            environment=Environment.PRODUCTION,
        )
        if access is None:
            raise CannotCheck
        if not counted and access not in customer.purchases:
            raise _NotCounted("A new temporary grant is counted first.")
        return take_in(customer, access, situation.now)

    change = Change(project_id=app.project_id, app_user_id=shown.app_user_id, apply=granted, create=True)
    try:
        return await changes.make(change)
    except _NotCounted:
        counted = await count()
        if not counted:
            raise CannotCheck from None
        return await changes.make(change)


async def withdraw(changes: Changes, app: ConnectedApp, shown: ShownReceipt) -> None:
    """The store has answered about the receipt: what was given meanwhile ends now."""

    def ended(situation: Situation) -> Customer:
        return withdrawn(situation.customer, app.store, shown.stand_in_id, situation.now)

    try:
        await changes.make(Change(project_id=app.project_id, app_user_id=shown.app_user_id, apply=ended))
    except NotFound:
        return
