"""The App Store emulator: the books, the keys that sign, what is signed in Apple's own fields, and what is sent."""

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from latchkey.domain.instants import HOUR, Ms
from latchkey.emulators.apple import apple_acts, apple_books
from latchkey.emulators.apple.apple_keys import AppleKeys, make_chain
from latchkey.emulators.control_requests import Acts, converted
from latchkey.emulators.emulator import Emulator, EmulatorClock, ExpectedState, without_none
from latchkey.emulators.notification_outbox import NotificationRequest, OutgoingNotification

VERSION = "2.0"


class AppleApp(msgspec.Struct, frozen=True, kw_only=True):
    bundle_id: str
    app_apple_id: int
    # "Sandbox" or "Production"
    environment: str = "Sandbox"
    storefront: str = "USA"


def transaction_payload(
    app: AppleApp,
    books: apple_books.AppleBooks,
    purchase: apple_books.ApplePurchase,
    transaction: apple_books.AppleTransaction,
    signed_at: Ms,
) -> dict[str, Any]:
    subscription = purchase.kind is apple_books.AppleKind.SUBSCRIPTION
    product = books.products.get(transaction.product_id)
    revocation = None
    if transaction.revoked_at is not None:
        revocation = "REFUND_FULL" if transaction.refunded else "FAMILY_REVOKE"
    return without_none(
        transactionId=transaction.id,
        originalTransactionId=purchase.id,
        webOrderLineItemId=str(int(transaction.id) + 5_000) if subscription else None,
        bundleId=app.bundle_id,
        productId=transaction.product_id,
        subscriptionGroupIdentifier=product.group if product and subscription else None,
        purchaseDate=transaction.purchased_at,
        originalPurchaseDate=purchase.transactions[0].purchased_at,
        expiresDate=transaction.expires_at,
        quantity=1,
        type=str(purchase.kind),
        appAccountToken=purchase.account_token,
        inAppOwnershipType="FAMILY_SHARED" if purchase.family else "PURCHASED",
        signedDate=signed_at,
        revocationDate=transaction.revoked_at,
        revocationReason=0 if transaction.refunded else None,
        revocationType=revocation,
        isUpgraded=True if transaction.upgraded else None,
        environment=app.environment,
        transactionReason=transaction.reason,
        storefront=app.storefront,
        storefrontId="143441",
        price=transaction.price.micros // 1000,
        currency=transaction.price.currency,
        **_offer(transaction.offer),
    )


def renewal_payload(
    app: AppleApp, books: apple_books.AppleBooks, purchase: apple_books.ApplePurchase, signed_at: Ms
) -> dict[str, Any] | None:
    info = purchase.renewal
    if info is None:
        return None
    next_product = books.products.get(info.product_id)
    price = info.offer.price if info.offer else next_product.price if next_product else None
    renews = purchase.status is apple_books.AppleStatus.ACTIVE and info.auto_renew
    return without_none(
        originalTransactionId=purchase.id,
        autoRenewProductId=info.product_id,
        productId=purchase.latest.product_id,
        autoRenewStatus=int(info.auto_renew),
        expirationIntent=info.intent,
        isInBillingRetryPeriod=purchase.status in (apple_books.AppleStatus.GRACE, apple_books.AppleStatus.BILLING_RETRY)
        or None,
        gracePeriodExpiresDate=info.grace_ends_at,
        priceIncreaseStatus=info.price_increase,
        signedDate=signed_at,
        environment=app.environment,
        recentSubscriptionStartDate=purchase.recent_start,
        renewalDate=purchase.latest.expires_at if renews else None,
        renewalPrice=price.micros // 1000 if price else None,
        currency=price.currency if price else None,
        appAccountToken=purchase.account_token,
        **_offer(info.offer),
    )


def notification_payload(
    app: AppleApp,
    notice: apple_books.AppleNotice,
    uuid: str,
    signed_at: Ms,
    signed_transaction: str | None,
    signed_renewal: str | None,
) -> dict[str, Any]:
    status = notice.purchase.status if notice.purchase else None
    data = without_none(
        environment=app.environment,
        appAppleId=app.app_apple_id,
        bundleId=app.bundle_id,
        bundleVersion="1",
        status=int(status) if status is not None else None,
        signedTransactionInfo=signed_transaction,
        signedRenewalInfo=signed_renewal,
        consumptionRequestReason="UNSATISFIED_WITH_PURCHASE" if notice.type == "CONSUMPTION_REQUEST" else None,
    )
    return without_none(
        notificationType=notice.type,
        subtype=notice.subtype,
        notificationUUID=uuid,
        version=VERSION,
        signedDate=signed_at,
        data=data,
    )


def app_transaction_payload(app: AppleApp, bought_at: Ms, signed_at: Ms) -> dict[str, Any]:
    """The proof that the app itself was installed."""
    return {
        "receiptType": app.environment,
        "appAppleId": app.app_apple_id,
        "bundleId": app.bundle_id,
        "applicationVersion": "1",
        "versionExternalIdentifier": 1,
        "receiptCreationDate": signed_at,
        "originalPurchaseDate": bought_at,
        "originalApplicationVersion": "1",
        "deviceVerification": "",
        "deviceVerificationNonce": "",
    }


def _offer(offer: apple_books.AppleOffer | None) -> dict[str, Any]:
    if offer is None:
        return {}
    return without_none(offerType=int(offer.kind), offerDiscountType=str(offer.discount), offerIdentifier=offer.id)


ACTS = Acts(
    "cancel uncancel fail_billing recover expire refund reverse_refund decline_refund request_consumption change "
    "redeem extend end_family_sharing price_increase",
    apple_acts,
)
# Hours from one try to the next, as Apple does it in production. In the sandbox Apple tries once.
RETRIES = (1, 12, 24, 48, 72)


class SignedNotice(msgspec.Struct, frozen=True):
    """A notification as it was signed when it happened, and what it takes to sign a lie instead."""

    notice: apple_books.AppleNotice
    signed_at: Ms
    signed_payload: str


class AppleEmulator(Emulator[apple_books.AppleBooks, apple_books.AppleNotice]):
    name = "apple"
    lies = frozenset({"bundle", "app_id", "environment", "signature", "chain"})
    accepted = frozenset(range(200, 207))
    rules = apple_acts

    def __init__(self, keys: AppleKeys, app: AppleApp, books: apple_books.AppleBooks, clock: EmulatorClock) -> None:
        super().__init__(books, clock)
        self.keys = keys
        self.app = app
        self._signed_at: Ms = 0
        # What the service reported about consumption, by transaction id.
        self.consumption: dict[str, Any] = {}
        # When the service extended subscriptions, by original transaction id: Apple does it twice a year.
        self.extensions: dict[str, list[Ms]] = {}

    def add_product(self, given: Mapping[str, Any]) -> None:
        product = converted(given, apple_books.AppleProduct)
        self._change(replace(self.books, products={**self.books.products, product.id: product}), ())

    def sell(self, **sale: Any) -> str:
        self._advance(now := self.clock.next())
        books, notices = apple_books.buy(self.books, now, converted(sale, apple_books.AppleSaleRequest))
        self._change(books, notices)
        assert notices[0].purchase is not None
        return notices[0].purchase.id

    def act(self, purchase: str, act: str, **options: Any) -> str:
        self._advance(now := self.clock.next())
        self._change(*ACTS.apply(act, options, self.books, now, purchase))
        return apple_books.purchase_of(self.books, purchase).id

    def _test_notice(self) -> apple_books.AppleNotice:
        return apple_books.AppleNotice(type="TEST", subtype=None, at=self.clock.next())

    def products(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(product) for product in self.books.products.values()]

    def expected_states(self) -> list[ExpectedState]:
        return [self._expected_state(purchase) for purchase in self.books.purchases.values()]

    def receipt(self, purchase: str) -> dict[str, Any]:
        found = apple_books.purchase_of(self.books, purchase)
        return {
            "fetch_token": self.signed_transaction(found, found.latest),
            "product_id": found.latest.product_id,
            "transaction_id": found.latest.id,
            "app_transaction": self.keys.chain.sign(
                app_transaction_payload(self.app, found.transactions[0].purchased_at, self._reading_at())
            ),
        }

    def credentials(self, base_url: str) -> dict[str, Any]:
        return {
            "bundle_id": self.app.bundle_id,
            "app_apple_id": self.app.app_apple_id,
            "issuer_id": self.keys.issuer_id,
            "key_id": self.keys.key_id,
            "private_key": self.keys.private_key,
            "connect_key_id": self.keys.connect_key_id,
            "connect_private_key": self.keys.connect_private_key,
            "root_certificates": [self.keys.chain.root_pem],
            "api_base_url": base_url,
        }

    def signed_transaction(self, purchase: apple_books.ApplePurchase, transaction: apple_books.AppleTransaction) -> str:
        return self.keys.chain.sign(
            transaction_payload(self.app, self.books, purchase, transaction, self._reading_at())
        )

    def signed_renewal(self, purchase: apple_books.ApplePurchase) -> str:
        info = renewal_payload(self.app, self.books, purchase, self._reading_at())
        assert info is not None
        return self.keys.chain.sign(info)

    def _message(self, notice: apple_books.AppleNotice) -> OutgoingNotification:
        # Two notifications never have the same date, by which what they say is ordered.
        self._signed_at = max(notice.at, self._signed_at + 1)
        id = str(uuid.uuid4())
        signed = self._signed(notice, id, self._signed_at, None)
        return OutgoingNotification(
            id=id,
            kind=notice.kind,
            subject=notice.purchase.id if notice.purchase else None,
            at=notice.at,
            content=SignedNotice(notice, self._signed_at, signed),
        )

    def write(self, message: OutgoingNotification, lie: str | None) -> NotificationRequest:
        content: SignedNotice = message.content
        signed = content.signed_payload
        if lie == "signature":
            head, body, signature = signed.split(".")
            signed = ".".join((head, body, signature[::-1]))
        elif lie is not None:
            signed = self._signed(content.notice, message.id, content.signed_at, lie)
        return NotificationRequest({}, msgspec.json.encode({"signedPayload": signed}))

    def next_try(self, message: OutgoingNotification) -> Ms | None:
        tries = len(message.attempts) // message.fate.copies
        if self.app.environment != "Production" or tries > len(RETRIES):
            return None
        return message.attempts[-1].at + RETRIES[tries - 1] * HOUR

    def _signed(self, notice: apple_books.AppleNotice, id: str, at: Ms, lie: str | None) -> str:
        chain, app = self.keys.chain, self.app
        if lie == "chain":
            chain = make_chain(name="Somebody else")
        elif lie == "bundle":
            app = replace(app, bundle_id=f"{app.bundle_id}.other")
        elif lie == "app_id":
            app = replace(app, app_apple_id=app.app_apple_id + 1)
        elif lie == "environment":
            app = replace(app, environment="Production" if app.environment == "Sandbox" else "Sandbox")
        shown = renewing = None
        if notice.purchase is not None and notice.transaction is not None:
            shown = chain.sign(transaction_payload(app, self.books, notice.purchase, notice.transaction, at))
            info = renewal_payload(app, self.books, notice.purchase, at)
            renewing = chain.sign(info) if info is not None else None
        return chain.sign(notification_payload(app, notice, id, at, shown, renewing))

    def _reading_at(self) -> Ms:
        """The date of what is signed for a read: never earlier than the last one."""
        self._signed_at = max(self._signed_at, self.clock.now())
        return self._signed_at

    def _expected_state(self, purchase: apple_books.ApplePurchase) -> ExpectedState:
        now, latest, info = self.clock.now(), purchase.latest, purchase.renewal
        ends = latest.expires_at
        grace = info.grace_ends_at if info and purchase.status is apple_books.AppleStatus.GRACE else None
        until = [at for at in (grace or ends, latest.revoked_at) if at is not None]
        access = min(until, default=None)
        pending = info.product_id if info and info.product_id != latest.product_id and info.auto_renew else None
        return ExpectedState(
            purchase=purchase.id,
            id=purchase.id,
            buyer=purchase.buyer,
            account_token=purchase.account_token,
            kind="subscription" if purchase.kind is apple_books.AppleKind.SUBSCRIPTION else "one_time",
            product_id=latest.product_id,
            periods=len(purchase.transactions),
            active=access is None or access > now,
            ends_at=ends,
            access_ends_at=access,
            auto_renew=bool(info and info.auto_renew),
            in_trial=latest.offer is not None and latest.offer.discount == "FREE_TRIAL",
            billing_problem=purchase.status in (apple_books.AppleStatus.GRACE, apple_books.AppleStatus.BILLING_RETRY),
            grace_ends_at=grace,
            refunded_at=latest.revoked_at if latest.refunded else None,
            next_product_id=pending,
            sandbox=self.app.environment == "Sandbox",
        )
