"""A checkout of a web page: begun, paid at the payment provider, and taken in as a purchase.

Everything that a page sends is public, and so is its key. The page names a product, a user and the offering that it
showed (for charts; it decides nothing), and nothing else of what it sends counts: the price is the provider's, the user
is written to the payment by us, and access follows only from what the provider says was paid. A checkout has an id that
cannot be guessed; whoever has it can ask how it stands.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog
from msgspec import Struct, field, structs

from latchkey.database.pool import Database
from latchkey.domain.catalog import Catalog, Product, ProductKind, without_plan
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.purchases.presented import has_offering
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.refusal import Invalid, NotFound, OwnedByAnother, StoreUnreachable
from latchkey.engine.changes import Changes
from latchkey.engine.due_work import Lookout, attempt, cancel_all, every
from latchkey.engine.reads import Reader, look_at
from latchkey.engine.unit_of_work import purchase_keys
from latchkey.stores import selling
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import ActionRefused, StoreDown, StoreError
from latchkey.subjects.accounts.rules import checked_email
from latchkey.subjects.catalog.usecases.version import load_catalog
from latchkey.subjects.checkout import rules as eligibility
from latchkey.subjects.checkout import storage
from latchkey.subjects.checkout.usecases.steps import (
    CheckoutLimit,
    CheckoutProblem,
    CheckoutProgress,
    CheckoutRefusal,
    CheckoutRequest,
)
from latchkey.subjects.mail.usecases import Mail, MailKind, RedemptionLetter
from latchkey.subjects.projects.usecases import load_app
from latchkey.subjects.purchase_intake.usecases.app_receipts import CannotCheck, RejectedReceipt, ShownReceipt
from latchkey.subjects.purchase_intake.usecases.receipts import Receipts
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections

log = structlog.get_logger()

T = TypeVar("T")

# A form that nobody has paid by then is started anew.
OPEN_FOR: Ms = DAY
# A page asks every second while its buyer waits. After this time we ask too: the buyer may have closed it.
FIRST_ASKED: Ms = MINUTE
_LEASE: Ms = 2 * MINUTE
_AT_ONCE = 20
_LONGEST_EMAIL = 254
# How long an expired checkout can still be asked for.
KEPT: Ms = 7 * DAY

NOT_CONNECTED = (
    "Purchases on web pages need a payment provider, and none is connected to this app. To try a purchase, use the key "
    "of an app in the test store (test_...)."
)
NOT_SET_UP = "This product cannot be bought here at the moment. The seller has to set it up."


@dataclass(frozen=True, slots=True)
class _Till:
    """A connected app and what sells in it."""

    app: ConnectedApp
    provider: selling.Sells
    # The account at the provider, where the app's details name it.
    account_id: str | None


class Checkouts(Struct, eq=False):
    connections: Connections
    changes: Changes
    reader: Reader
    receipts: Receipts
    # For links to purchases of unknown buyers. None: this service sends no mail.
    mail: Mail | None
    limit: CheckoutLimit = field(default_factory=CheckoutLimit)

    def sells(self, store: str | None) -> bool:
        """Whether the apps of this store sell through a payment provider, whose price counts."""
        return store is not None and isinstance(self.connections.adapters.get(store), selling.Sells)

    async def without_used_trials(
        self, project_id: str, store: str | None, app_user_id: str, products: Sequence[Product]
    ) -> Sequence[Product]:
        """The products as a page shows them to this user: with a free trial only where the checkout would give one."""
        if store is None or not self.sells(store) or all(product.trial is None for product in products):
            return products
        customer, _, now = await self.customer(project_id, app_user_id)
        without = [structs.replace(product, trial=None) for product in products]
        pairs = zip(products, without, strict=True)
        return [one if eligibility.trial_days(customer, store, one, now) else other for one, other in pairs]

    async def form_for(self, project_id: str, app_id: str | None, product_id: str) -> selling.PaymentForm:
        """What a page needs to show a payment form before anybody has decided to buy. Nothing is created."""
        till = await self._till(project_id, app_id)
        catalog = await load_catalog(self.changes, project_id)
        order = self._order(till, catalog, None, CheckoutRequest(product_id=product_id, app_user_id=""), key="")
        return await _asked(till, till.provider.payment_form(till.app, order, till.account_id))

    async def start(
        self,
        project_id: str,
        app_id: str | None,
        wanted: CheckoutRequest,
        back: Callable[[str], selling.ReturnAddresses] | None = None,
        *,
        redeemable: bool = False,
    ) -> tuple[str, selling.SalePage]:
        """The id of the new checkout, and what the page shows. `back` gets that id, and says where the provider's own
        page leads. `redeemable`: nobody knows the buyer, whose id is a new one."""
        till = await self._till(project_id, app_id)
        if wanted.purchase_flow is not None:
            raise CheckoutRefusal(
                CheckoutProblem.NOT_IN_THIS_WAY, "Quick purchases are not offered here: use the checkout."
            )
        if wanted.product_change is not None:
            raise CheckoutRefusal(
                CheckoutProblem.CANNOT_COMPLETE,
                "A subscription cannot be changed from a web page. Cancel it and buy the other one, or let your server "
                "change it at the payment provider.",
            )
        customer, catalog, now = await self.customer(project_id, wanted.app_user_id)
        id = f"lkc_{secrets.token_urlsafe(32)}"
        key = storage.hash_of(id)
        order = self._order(till, catalog, customer, wanted, key=key.hex(), now=now)
        leads = back(id) if back is not None else None
        begun = await _asked(till, till.provider.begin_sale(till.app, order, till.account_id, leads))
        real_now = self.connections.now()
        new = storage.Checkout(
            id_hash=key,
            project_id=project_id,
            app_id=till.app.app_id,
            app_user_id=wanted.app_user_id,
            product_id=wanted.product_id,
            price=order.price,
            trial_days=order.trial_days,
            offering=order.offering,
            handle=begun.handle,
            created_at=real_now,
            expires_at=begun.expires_at or real_now + OPEN_FOR,
            redeemable=redeemable,
        )
        # A buyer whom nobody knows gets a mail, also after closing the page.
        await storage.save(self.connections.database, project_id, new, real_now + FIRST_ASKED if redeemable else None)
        return id, begun.page

    async def refresh(self, project_id: str, app_id: str | None, id: str, *, discount: bool) -> selling.PaymentForm:
        """The price once more, after the buyer has given an address. It does not depend on it. `discount`: the buyer
        has typed a code."""
        till = await self._till(project_id, app_id)
        known = await self._open(till, id)
        if discount:
            raise CheckoutRefusal(CheckoutProblem.NOT_FOR_SALE, "There is no such discount code.")
        return await _asked(till, till.provider.payment_form(till.app, await self._ordered(till, known), None))

    async def complete(self, project_id: str, app_id: str | None, id: str, email: str | None) -> selling.Confirmation:
        """The payment that the browser then confirms. Asking again gives the same one."""
        till = await self._till(project_id, app_id)
        known = await self._open(till, id)
        customer, catalog, now = await self.customer(project_id, known.app_user_id)
        _require_sold(till, catalog, customer, known.product_id, now)
        order = structs.replace(await self._ordered(till, known), email=_checked_email(email))
        made = await _asked(till, till.provider.confirm_sale(till.app, order, known.handle))
        check_at = None if made.told else self.connections.now() + FIRST_ASKED
        kept = await storage.set_handle(self.connections.database, known.id_hash, made.handle, check_at)
        if kept is None:
            raise CheckoutRefusal(CheckoutProblem.NO_SUCH_CHECKOUT, "There is no such checkout.")
        if kept != made.handle:
            # Two requests at once: the payment of the first one counts.
            return await _asked(till, till.provider.confirm_sale(till.app, order, kept))
        return made

    async def status(self, project_id: str, app_id: str | None, id: str) -> CheckoutProgress:
        """What was paid is taken in at once, so that the customer has access even before the provider's notification.
        Taking in the same purchase again changes nothing."""
        till = await self._till(project_id, app_id)
        return await self._progress(till, await self._load(till, id))

    async def ask_due(self) -> int:
        """Asks about payments that the provider tells nobody of, less and less often. Returns how many there were."""
        now = self.connections.now()
        due = await storage.claim(self.connections.database, now, now + _LEASE, _AT_ONCE)
        for known in due:
            # Without an answer nobody knows whether a payment is on its way: the provider is down, or refuses the key.
            pending = True
            try:
                progress = await self._progress(await self._till(known.project_id, known.app_id), known)
                pending = progress.state is selling.CheckoutState.PENDING
            except (CheckoutRefusal, NotFound, StoreUnreachable) as error:
                log.warning("checkout could not be asked for", app_id=known.app_id, reason=error.message)
            await storage.set_check(self.connections.database, known.id_hash, _next_check(known, now, pending=pending))
        return len(due)

    async def _progress(self, till: _Till, known: storage.Checkout) -> CheckoutProgress:
        now = self.connections.now()
        if known.status == "succeeded":
            return CheckoutProgress(known, selling.CheckoutState.PAID)
        if known.status == "failed":
            return CheckoutProgress(known, selling.CheckoutState.FAILED, expired=now >= known.expires_at)
        if known.handle is None:
            over = now >= known.expires_at
            state = selling.CheckoutState.EXPIRED if over else selling.CheckoutState.OPEN
            return CheckoutProgress(known, state, expired=over)
        if not self.limit.asks(known.id_hash, now):
            return CheckoutProgress(known, selling.CheckoutState.PENDING)
        sale = await _asked(till, till.provider.sale(till.app, await self._ordered(till, known), known.handle))
        if sale.standing is selling.CheckoutState.PAID:
            return await self._taken(till, known, sale)
        if sale.standing in (selling.CheckoutState.FAILED, selling.CheckoutState.EXPIRED):
            await storage.finish(self.connections.database, known.id_hash, "failed", None, None, None, None)
        return CheckoutProgress(known, sale.standing, expired=sale.standing is selling.CheckoutState.EXPIRED)

    async def _taken(self, till: _Till, known: storage.Checkout, sale: selling.Sale) -> CheckoutProgress:
        app = till.app
        shown = ShownReceipt(
            app_user_id=known.app_user_id, token=sale.receipt or known.handle, product_ids=(known.product_id,)
        )
        try:
            answered = await self.receipts.take(app.project_id, app.app_id, app.store, shown, {})
        except (CannotCheck, RejectedReceipt) as error:
            # It is in the journal, and the provider tells of it too. The page asks again in a second.
            log.warning("paid checkout not taken in yet", app_id=app.app_id, reason=error.message)
            return CheckoutProgress(known, selling.CheckoutState.PENDING)
        except OwnedByAnother:
            log.warning("paid checkout belongs to another customer", app_id=app.app_id)
            return CheckoutProgress(known, selling.CheckoutState.FAILED)
        bought = _newest(answered.committed.customer, app.store, known.product_id)
        if bought is None and known.redeemable:
            # Temporary access: the provider has failed just now, and there is nothing yet that could be taken over.
            return CheckoutProgress(known, selling.CheckoutState.PENDING)
        purchase_id, transaction_id, at = bought or (None, known.handle or "", self.connections.now())
        paid = replace(known, transaction_id=transaction_id, purchased_at=at)
        if known.redeemable:
            paid = replace(paid, purchase_id=purchase_id, email=_usable_email(sale.email))
        letter = await self.letter(paid)
        async with self.connections.database.transaction() as connection:
            done = known.id_hash, "succeeded", transaction_id, at, paid.purchase_id, paid.email
            if await storage.finish(connection, *done) and paid.email and self.mail is not None:
                await self.mail.add(MailKind.REDEMPTION, paid.email, self.connections.now(), letter, connection)
        return CheckoutProgress(paid, selling.CheckoutState.PAID)

    async def letter(self, paid: storage.Checkout) -> RedemptionLetter:
        """What the mail to the buyer of a redeemable purchase names."""
        app = await load_app(self.connections.database, paid.project_id, paid.app_id)
        product = (await load_catalog(self.changes, paid.project_id)).find(paid.product_id)
        name = product.display_name if product is not None else ""
        return RedemptionLetter(paid.id_hash, app.title, name or paid.product_id)

    async def _till(self, project_id: str, app_id: str | None) -> _Till:
        """Refused (CANNOT_SELL) for a secret key, which belongs to no app, and for an app without a provider."""
        app = await self.connections.of_app(project_id, app_id) if app_id is not None else None
        provider = self.connections.adapters[app.store] if app is not None else None
        if app is None or not isinstance(provider, selling.Sells):
            raise CheckoutRefusal(CheckoutProblem.CANNOT_SELL, NOT_CONNECTED)
        details = (await load_app(self.connections.database, project_id, app.app_id)).details
        return _Till(app, provider, details.get("stripe_account_id"))

    async def _load(self, till: _Till, id: str) -> storage.Checkout:
        known = await storage.load(self.connections.database, till.app.project_id, till.app.app_id, id)
        if known is None:
            raise CheckoutRefusal(CheckoutProblem.NO_SUCH_CHECKOUT, "There is no such checkout.")
        return known

    async def _open(self, till: _Till, id: str) -> storage.Checkout:
        known = await self._load(till, id)
        if known.status == "succeeded":
            raise CheckoutRefusal(CheckoutProblem.HAS_ALREADY, "This checkout was paid already.")
        if known.status == "failed" or self.connections.now() >= known.expires_at:
            raise CheckoutRefusal(CheckoutProblem.NO_SUCH_CHECKOUT, "This checkout is over. Start a new one.")
        return known

    async def customer(self, project_id: str, app_user_id: str) -> tuple[Customer | None, Catalog, Ms]:
        """With the customer's own time, which is that of its test clock if it is on one."""
        row = await self.reader.read(project_id, app_user_id)
        if row is None:
            return None, await load_catalog(self.changes, project_id), self.connections.now()
        view = look_at(row, self.connections.now())
        return view.customer, view.catalog, view.now

    def _order(
        self,
        till: _Till,
        catalog: Catalog,
        customer: Customer | None,
        wanted: CheckoutRequest,
        *,
        key: str,
        now: Ms | None = None,
    ) -> selling.CheckoutOrder:
        store, now = till.app.store, now if now is not None else self.connections.now()
        offering = wanted.presented_offering_identifier
        product = _require_sold(till, catalog, customer, wanted.product_id, now)
        return selling.CheckoutOrder(
            key=key,
            app_user_id=wanted.app_user_id,
            product_id=product.id,
            subscription=product.kind is ProductKind.SUBSCRIPTION,
            price=product.price,
            trial_days=eligibility.trial_days(customer, store, product, now),
            email=_checked_email(wanted.email),
            locale=wanted.locale,
            offering=offering if isinstance(offering, str) and has_offering(catalog, offering) else None,
        )

    async def _ordered(self, till: _Till, known: storage.Checkout) -> selling.CheckoutOrder:
        """The order as the page showed it when the checkout began."""
        catalog = await load_catalog(self.changes, till.app.project_id)
        product = catalog.products.get(known.product_id)
        return selling.CheckoutOrder(
            key=known.id_hash.hex(),
            app_user_id=known.app_user_id,
            product_id=known.product_id,
            subscription=product is None or product.kind is ProductKind.SUBSCRIPTION,
            price=known.price,
            trial_days=known.trial_days,
            offering=known.offering,
        )


def _require_sold(till: _Till, catalog: Catalog, customer: Customer | None, product_id: str, now: Ms) -> Product:
    product = eligibility.on_sale(catalog, till.app.app_id, till.app.store, product_id)
    if product is None:
        raise CheckoutRefusal(CheckoutProblem.NOT_FOR_SALE, "This app does not sell this product.")
    if eligibility.has_already(customer, catalog, till.app.store, product, now):
        raise CheckoutRefusal(CheckoutProblem.HAS_ALREADY, "This was bought already.")
    return product


async def _asked(till: _Till, answer: Awaitable[T]) -> T:
    """The provider's answer. What it says against it is for the operator, not for every visitor of the shop."""
    try:
        return await answer
    except StoreDown as error:
        raise StoreUnreachable(
            "The payment provider cannot be reached. Try again in a moment.", retry_after_ms=error.retry_after_ms
        ) from error
    except selling.NotPayable as error:
        raise CheckoutRefusal(
            CheckoutProblem.CANNOT_COMPLETE, "This checkout cannot be paid so, or not any more. Start a new one."
        ) from error
    except StoreError as error:
        problem = "checkout not possible" if isinstance(error, ActionRefused) else "payment provider refuses"
        log.error(problem, app_id=till.app.app_id, store=till.app.store, reason=error.message)
        raise CheckoutRefusal(CheckoutProblem.CANNOT_SELL, NOT_SET_UP) from error


def _next_check(known: storage.Checkout, now: Ms, *, pending: bool) -> Ms | None:
    """The last time is after the end. A payment that takes days, such as a debit, is asked for until it is pruned."""
    if now >= known.expires_at:
        return now + 6 * HOUR if pending else None
    return min(now + max(FIRST_ASKED, now - known.created_at), known.expires_at + MINUTE)


def _checked_email(email: str | None) -> str | None:
    if not email:
        return None
    name, at, host = email.partition("@")
    if not (name and at and host) or "@" in host or len(email) > _LONGEST_EMAIL or not email.isprintable():
        raise CheckoutRefusal(CheckoutProblem.INVALID_EMAIL, "That is not an email address.")
    return email


def _usable_email(email: str | None) -> str | None:
    with suppress(Invalid):
        return checked_email(email or "")
    return None


def _newest(customer: Customer, store: str, product_id: str) -> tuple[str, str, Ms] | None:
    """The id, the transaction and its time of the customer's newest purchase of this product in this store."""
    here = [one for one in customer.bought if one.store == store and (store, one.id) in purchase_keys(customer)]
    bought = [(one.id, one if isinstance(one, Purchase) else one.current) for one in here]
    fitting = [(id, one) for id, one in bought if product_id in (one.product_id, without_plan(one.product_id))]
    newest = max(fitting, key=lambda pair: (pair[1].purchased_at, pair[1].id), default=None)
    return (newest[0], newest[1].id, newest[1].purchased_at) if newest is not None else None


# For an erased customer.
forget = storage.forget


async def run_checkouts(
    lookout: Lookout, checkouts: Checkouts, database: Database, now: Callable[[], Ms], stop: asyncio.Event
) -> None:
    """Until `stop` is set: asks for the payments of pages that were closed, and removes old checkouts."""
    failed = "chore of checkouts failed"

    async def ask() -> None:
        while await lookout.until(lambda seen: seen.checkout_at) is not None:
            await attempt(failed, checkouts.ask_due)

    chores = [asyncio.create_task(one) for one in (ask(), every(600.0, failed, lambda: prune(database, now() - KEPT)))]
    try:
        await stop.wait()
    finally:
        await cancel_all(chores)


async def prune(database: Database, before: Ms) -> None:
    async with database.acquire() as connection:
        while await storage.prune(connection, before):
            pass
