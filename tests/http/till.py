"""A payment provider that exists only in memory: what it was asked, and what it answers. The words of a real one are
tested with that one's adapter."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from msgspec import json
from msgspec.structs import replace

from latchkey.domain.instants import DAY, MINUTE, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription
from latchkey.http.services import Services
from latchkey.stores.adapter import (
    AppReceipt,
    ConnectedApp,
    Notification,
    SeenPurchase,
    StoreReading,
)
from latchkey.stores.credential_form import CredentialField, CredentialForm
from latchkey.stores.errors import InvalidReceipt, StoreDown, StoreError
from latchkey.stores.selling import (
    BegunCheckout,
    CheckoutOrder,
    CheckoutState,
    Confirmation,
    HostedPage,
    LinkedPage,
    NotPayable,
    PaymentForm,
    ProviderAccount,
    ReturnAddresses,
    Sale,
)
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from tests.http.client import NOW, Reply, Shop

ACCOUNT = ProviderAccount(account_id="acct_1", publishable_key="pk_test_12345678", sandbox=True)


@dataclass
class Provider:
    credential_form = CredentialForm("Till", (CredentialField("api_key", "API key", "its key."),), SimpleNamespace)

    store: str
    # Whether the buyer pays on the provider's own page.
    hosted: bool
    # What it was asked to sell, in order.
    orders: list[CheckoutOrder] = field(default_factory=list)
    # By handle.
    payments: dict[str, CheckoutOrder] = field(default_factory=dict)
    standing: dict[str, CheckoutState] = field(default_factory=dict)
    # Where its own page leads to.
    returns: dict[str, ReturnAddresses] = field(default_factory=dict)
    # Of the buyer on its own page.
    email: str | None = None
    accounts: list[str | None] = field(default_factory=list)
    # How often it was asked how a payment stands.
    asked: int = 0
    # Raised instead of every answer.
    trouble: StoreError | None = None
    # Raised instead of reading a receipt.
    receipts_down: bool = False
    # Whether it tells of payments by itself.
    tells: bool = True
    now: Ms = NOW
    # What its handles begin with.
    series: str = "pay"

    def pays(self, handle: str) -> None:
        self.standing[handle] = CheckoutState.PAID

    # Selling.

    async def payment_form(self, app: ConnectedApp, order: CheckoutOrder, account_id: str | None) -> PaymentForm:
        self._check()
        self.accounts.append(account_id)
        if self.hosted:
            raise NotPayable("It has a page of its own.")
        return self._form(order)

    async def begin_sale(
        self, app: ConnectedApp, order: CheckoutOrder, account_id: str | None, back: ReturnAddresses | None = None
    ) -> BegunCheckout:
        self._check()
        self.orders.append(order)
        if back is not None:
            handle = self._payment(order)
            self.returns[handle] = back
            linked = LinkedPage(f"https://pay.example.com/{handle}")
            return BegunCheckout(page=linked, handle=handle, expires_at=self.now + DAY)
        self.accounts.append(account_id)
        if not self.hosted:
            return BegunCheckout(page=self._form(order), handle=None, expires_at=None)
        handle = self._payment(order)
        page = HostedPage(account=ACCOUNT, client_secret=f"{handle}_secret")
        return BegunCheckout(page=page, handle=handle, expires_at=self.now + 30 * MINUTE)

    async def confirm_sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str | None) -> Confirmation:
        self._check()
        if self.hosted or self.standing.get(handle or "") in (CheckoutState.PAID, CheckoutState.FAILED):
            raise NotPayable("It is over.")
        self.orders.append(order)
        handle = handle or self._payment(order)
        return Confirmation(handle=handle, client_secret=f"{handle}_secret", told=self.tells)

    async def sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str) -> Sale:
        self._check()
        self.asked += 1
        return Sale(standing=self.standing.get(handle, CheckoutState.OPEN), receipt=handle, email=self.email)

    def _payment(self, order: CheckoutOrder) -> str:
        known = next((handle for handle, one in self.payments.items() if one.key == order.key), None)
        handle = known or f"{self.series}_{len(self.payments) + 1}"
        self.payments[handle] = order
        self.standing.setdefault(handle, CheckoutState.OPEN)
        return handle

    def _form(self, order: CheckoutOrder) -> PaymentForm:
        return PaymentForm(
            account=ACCOUNT,
            mode="setup" if order.trial_days else "payment",
            methods=("card",),
            amount=order.price.micros // 10_000,
            currency=order.price.currency.lower(),
            total=order.price if not order.trial_days else Price(0, order.price.currency),
        )

    def _check(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    # What every adapter does.

    async def check_credentials(self, app: ConnectedApp) -> None:
        pass

    async def read_receipt(self, app: ConnectedApp, receipt: AppReceipt) -> StoreReading:
        handle = receipt.token or ""
        if self.receipts_down:
            raise StoreDown("It does not answer.")
        if self.standing.get(handle) is not CheckoutState.PAID:
            raise InvalidReceipt("Nothing was paid.")
        return self.reading(app, handle)

    def reading(self, app: ConnectedApp, handle: str) -> StoreReading:
        order = self.payments[handle]
        seen = self._subscription(handle, order) if order.subscription else self._purchase(handle, order)
        seen = replace(seen, app_id=app.app_id)
        sold = SeenPurchase(
            snapshot=seen,
            account_token=order.app_user_id,
            handle=handle,
            unordered=True,
            offering=order.offering,
            offered=(order.product_id,),
        )
        return StoreReading(seen=(sold,))

    def _subscription(self, handle: str, order: CheckoutOrder) -> Subscription:
        moment = Moment(self.now)
        period = Period(
            id=f"{handle}.1",
            number=1,
            cause=Cause.TRIAL if order.trial_days else Cause.PURCHASE,
            product_id=order.product_id,
            period_type=PeriodType.TRIAL if order.trial_days else PeriodType.NORMAL,
            purchased_at=self.now,
            ends_at=self.now + (order.trial_days or 365) * DAY,
            as_of=moment,
            price=Price(0, order.price.currency) if order.trial_days else order.price,
        )
        return Subscription(
            store=self.store,
            id=f"sub_{handle}",
            environment=Environment.SANDBOX,
            periods=(period,),
            status=Status(as_of=moment),
        )

    def _purchase(self, handle: str, order: CheckoutOrder) -> Purchase:
        return Purchase(
            kind=PurchaseKind.ONE_TIME,
            store=self.store,
            id=handle,
            product_id=order.product_id,
            environment=Environment.SANDBOX,
            purchased_at=self.now,
            price=order.price,
        )

    def looks_real(self, receipt: AppReceipt, now: Ms) -> bool:
        return False

    async def read(self, app: ConnectedApp, payload: str) -> StoreReading:
        return self.reading(app, payload)

    async def read_again(self, app: ConnectedApp, handle: str, environment: Environment) -> StoreReading:
        return self.reading(app, handle)

    async def missed(self, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[Notification]:
        for _ in ():
            yield _

    async def close(self) -> None:
        pass


@dataclass
class Page:
    """A web page with the key of an app that is connected to the provider."""

    shop: Shop
    provider: Provider
    app_id: str
    key: str

    async def ask(self, method: str, path: str, value: Any = None, key: str | None = None, **options: Any) -> Reply:
        body, whole = json.encode(value) if value is not None else b"", f"/rcbilling/v1/{path}"
        return await self.shop.client.request(method, whole, key=key or self.key, body=body, **options)

    async def start(self, app_user_id: str = "ada", product_id: str = "pro_yearly", **more: Any) -> Reply:
        return await self.ask("POST", "checkout/start", {"app_user_id": app_user_id, "product_id": product_id, **more})

    async def started(self, app_user_id: str = "ada", product_id: str = "pro_yearly", **more: Any) -> str:
        reply = await self.start(app_user_id, product_id, **more)
        assert reply.status == 200, reply
        id: str = reply.json()["operation_session_id"]
        return id

    async def status(self, id: str) -> Any:
        reply = await self.ask("GET", f"checkout/{id}")
        assert reply.status == 200, reply
        return reply.json()["operation"]


def services_of(shop: Shop) -> Services:
    front: Any = shop.client.app
    services: Services = front.reads._services
    return services


async def opened_page(shop: Shop, store: str, details: Mapping[str, Any] | None = None) -> Page:
    """An app of this store, connected to a provider in memory."""
    stores = services_of(shop).stores
    provider = Provider(store, hosted=store == "stripe")
    adapters: Any = stores.adapters
    adapters[store] = provider
    new = {"name": "Web shop", "store": store, **({store: details} if details else {})}
    app = (await shop.client.post(f"/v2/projects/{shop.project_id}/apps", new)).json()
    await credentials.save(stores, shop.project_id, app["id"], {"api_key": "x"})
    return Page(shop, provider, app["id"], app["public_api_key"]["key"])
