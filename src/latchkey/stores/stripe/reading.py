"""Reads what is needed to tell how a subscription or a one-time purchase stands."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from latchkey.domain.instants import Ms
from latchkey.stores.adapter import MOST_PRODUCTS, TOO_MANY_PRODUCTS, ConnectedApp
from latchkey.stores.errors import ActionRefused, StoreDown
from latchkey.stores.http import in_path
from latchkey.stores.stripe.api import StripeApi, UnknownObject, decoded
from latchkey.stores.stripe.notification import EVENT_TYPES, StripeEvent
from latchkey.stores.stripe.periods import SubscriptionContext
from latchkey.stores.stripe.resources import (
    Charge,
    CheckoutSession,
    Dispute,
    Intent,
    InvoiceItem,
    InvoiceLine,
    InvoicePayment,
    NamedObject,
    SessionItem,
    StripeInvoice,
    StripeList,
    StripeSubscription,
    SubscriptionItem,
)

T = TypeVar("T")

_PAGE = 100
# More than this is not read back: 80 years of months.
_MOST_PAGES = 10
_REFUNDS = "refunds.data.failure_balance_transaction"
# Stripe takes 20 types in one question.
_MOST_TYPES = 20


class StripeReader:
    """Raises Unknown for what Stripe does not have; StoreDown and CredentialsRefused as everywhere."""

    def __init__(self, api: StripeApi) -> None:
        self._api = api

    async def subscription(self, app: ConnectedApp, id: str) -> StripeSubscription:
        expand = ["customer", "schedule.phases.items.price"]
        found = await self._api.get(app, f"subscriptions/{in_path(id)}", StripeSubscription, expand=expand)
        _same_mode(app, found.livemode)
        if found.items.has_more:
            items, _ = await self._list(app, "subscription_items", SubscriptionItem, {"subscription": id}, _MOST_PAGES)
            found = msgspec.structs.replace(found, items=StripeList(data=items))
        return found

    async def around(
        self, app: ConnectedApp, subscription: StripeSubscription, *, whole: bool, told_at: Ms | None, read_at: Ms
    ) -> SubscriptionContext:
        pages = _MOST_PAGES if whole else 1
        query = {"subscription": subscription.id, "expand": ["data.payments"]}
        listed, all_invoices = await self._list(app, "invoices", StripeInvoice, query, pages)
        invoices = [await self._with_lines(app, invoice) for invoice in listed]
        charges = await self._charges(app, subscription, invoices, pages)
        return SubscriptionContext(
            invoices=tuple(sorted(invoices, key=_order)),
            charges=_by_payment(charges),
            disputes=await self.disputes(app, charges),
            pending=await self._pending(app, subscription),
            told_at=told_at,
            read_at=read_at,
            account=await self._account(app, subscription),
            whole=all_invoices,
        )

    async def everything(self, app: ConnectedApp, path: str, type: type[T], **query: Any) -> list[T]:
        """A list of the account that has an end."""
        found, whole = await self._list(app, path, type, query, MOST_PRODUCTS // _PAGE)
        if not whole:
            raise ActionRefused(TOO_MANY_PRODUCTS)
        return found

    async def disputes(self, app: ConnectedApp, charges: Iterable[Charge]) -> dict[str, tuple[Dispute, ...]]:
        found = {}
        for charge in charges:
            if charge.disputed:
                listed, _ = await self._list(app, "disputes", Dispute, {"charge": charge.id}, 1)
                found[charge.id] = tuple(listed)
        return found

    async def charges_of(self, app: ConnectedApp, payment_intent: str) -> tuple[Charge, ...]:
        query = {"payment_intent": payment_intent, "expand": [f"data.{_REFUNDS}"]}
        listed, _ = await self._list(app, "charges", Charge, query, 1)
        return tuple(listed)

    async def session(self, app: ConnectedApp, id: str) -> CheckoutSession:
        expand, path = ["line_items", "customer"], f"checkout/sessions/{in_path(id)}"
        found = await self._api.get(app, path, CheckoutSession, expand=expand)
        _same_mode(app, found.livemode)
        if found.line_items is not None and found.line_items.has_more:
            items, _ = await self._list(app, f"{path}/line_items", SessionItem, {}, _MOST_PAGES)
            found = msgspec.structs.replace(found, line_items=StripeList(data=items))
        return found

    async def intent(self, app: ConnectedApp, id: str) -> Intent:
        found = await self._api.get(app, f"payment_intents/{in_path(id)}", Intent)
        _same_mode(app, found.livemode)
        return found

    async def session_of_payment(self, app: ConnectedApp, payment_intent: str) -> str | None:
        query = {"payment_intent": payment_intent}
        listed, _ = await self._list(app, "checkout/sessions", NamedObject, query, 1, limit=1)
        return listed[0].id if listed else None

    async def paid_subscription(self, app: ConnectedApp, charge: str | None, payment_intent: str | None) -> str | None:
        if payment_intent is None and charge is None:
            return None
        payment = {"type": "payment_intent", "payment_intent": payment_intent}
        if payment_intent is None:
            payment = {"type": "charge", "charge": charge}
        listed, _ = await self._list(app, "invoice_payments", InvoicePayment, {"payment": payment}, 1)
        for invoice_payment in listed:
            invoice = await self._api.get(app, f"invoices/{invoice_payment.invoice}", StripeInvoice)
            if invoice.subscription is not None:
                return invoice.subscription
        return None

    async def invoice(self, app: ConnectedApp, id: str) -> StripeInvoice:
        return await self._with_lines(app, await self._api.get(app, f"invoices/{in_path(id)}", StripeInvoice))

    async def payments_of(self, app: ConnectedApp, invoice: str) -> list[str]:
        """The payment intents, or charges without one, that have paid an invoice."""
        listed, _ = await self._list(app, "invoice_payments", InvoicePayment, {"invoice": invoice, "status": "paid"}, 1)
        return [paid for payment in listed if (paid := payment.payment.payment_intent or payment.payment.charge)]

    async def events(self, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[StripeEvent]:
        """Newest first, as Stripe lists them. It keeps them for 30 days."""
        created = {"gte": since // 1000, "lte": until // 1000 + 1}
        asked: dict[str, Any] = {"created": created, "types": [*EVENT_TYPES[:_MOST_TYPES]], "limit": _PAGE}
        more = True
        while more:
            events, more = await self._page(app, "events", StripeEvent, asked)
            for event in events:
                yield event

    async def check(self, app: ConnectedApp) -> None:
        """Calls that need a key that works and every right that reading needs."""
        for path in ("subscriptions", "invoices", "invoiceitems", "charges", "checkout/sessions", "events"):
            await self._list(app, path, NamedObject, {}, 1, limit=1)

    async def _charges(
        self, app: ConnectedApp, subscription: StripeSubscription, invoices: list[StripeInvoice], pages: int
    ) -> list[Charge]:
        """All attempts to pay for the subscription. One question about the customer replaces one for each invoice."""
        wanted = {pays for invoice in invoices for pays in invoice.paid_by}
        if not wanted:
            return []
        query = {
            "customer": subscription.customer.id,
            "created": {"gte": min(invoice.created for invoice in invoices) - 1},
            "expand": [f"data.{_REFUNDS}"],
        }
        listed, all_of_them = await self._list(app, "charges", Charge, query, pages)
        found = {charge.id: charge for charge in listed if charge.pays in wanted}
        if not all_of_them:
            # A customer with many other payments. Those of the newest invoices have to be known.
            known = {charge.pays for charge in found.values()}
            for pays in [one for one in wanted if one not in known and one.startswith("pi_")][:_PAGE]:
                found |= {charge.id: charge for charge in await self.charges_of(app, pays)}
        return [*found.values()]

    async def _pending(self, app: ConnectedApp, subscription: StripeSubscription) -> tuple[InvoiceItem, ...]:
        """Changes that will be charged with the next invoice. Nothing else tells of one that was changed back, or when
        an item was removed."""
        if subscription.status not in ("active", "trialing", "past_due"):
            return ()
        query = {"customer": subscription.customer.id, "pending": "true"}
        listed, _ = await self._list(app, "invoiceitems", InvoiceItem, query, 1)
        return tuple(item for item in listed if item.subscription == subscription.id)

    async def _account(self, app: ConnectedApp, subscription: StripeSubscription) -> str | None:
        """Whose it is: the subscription says it, or its checkout session, or its customer, or it is the customer's."""
        key, customer = app.credentials.user_id_metadata_key, subscription.customer
        if named := subscription.metadata.get(key):
            return named
        query = {"subscription": subscription.id}
        listed, _ = await self._list(app, "checkout/sessions", CheckoutSession, query, 1, limit=1)
        for session in listed:
            if named := (session.metadata or {}).get(key) or session.client_reference_id:
                return named
        return customer.metadata.get(key) or customer.id

    async def _with_lines(self, app: ConnectedApp, invoice: StripeInvoice) -> StripeInvoice:
        if not invoice.lines.has_more:
            return invoice
        lines, _ = await self._list(app, f"invoices/{invoice.id}/lines", InvoiceLine, {}, _MOST_PAGES)
        return msgspec.structs.replace(invoice, lines=StripeList(data=lines))

    async def _list(
        self, app: ConnectedApp, path: str, type: type[T], query: Mapping[str, Any], pages: int, limit: int = _PAGE
    ) -> tuple[list[T], bool]:
        """What is listed, newest first, and whether that is everything."""
        found: list[T] = []
        asked: dict[str, Any] = {**query, "limit": limit}
        for _ in range(pages):
            listed, more = await self._page(app, path, type, asked)
            found += listed
            if not more:
                return found, True
        return found, False

    async def _page(self, app: ConnectedApp, path: str, type: type[T], asked: dict[str, Any]) -> tuple[list[T], bool]:
        """A page of a list, and whether there is another one. Then `asked` asks for that one."""
        page = await self._api.get(app, path, StripeList[Any], **asked)
        more = page.has_more and bool(page.data)
        if more:
            asked["starting_after"] = _id_of(page.data[-1])
        return [decoded(one, type) for one in page.data], more


def _by_payment(charges: Iterable[Charge]) -> dict[str, tuple[Charge, ...]]:
    found: dict[str, tuple[Charge, ...]] = {}
    for charge in charges:
        found[charge.pays] = (*found.get(charge.pays, ()), charge)
    return found


def _same_mode(app: ConnectedApp, livemode: bool) -> None:
    if livemode != app.credentials.livemode:
        raise UnknownObject("Stripe answered with an object of its other mode.")


def _id_of(given: Any) -> str:
    id = given.get("id") if isinstance(given, dict) else None
    if not isinstance(id, str):
        raise StoreDown("Stripe answered with a list of things without ids.")
    return id


def _order(invoice: StripeInvoice) -> tuple[int, bool, str]:
    """A change in the second of the purchase comes after it. Ids say nothing about the order."""
    return invoice.created, invoice.billing_reason != "subscription_create", invoice.id
