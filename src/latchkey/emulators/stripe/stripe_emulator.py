"""The Stripe emulator: the books, the keys, and the events that are sent to the webhook endpoint."""

import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.domain.refusal import Refusal
from latchkey.emulators.control_requests import Acts, converted
from latchkey.emulators.emulator import Emulator, EmulatorClock, ExpectedState
from latchkey.emulators.notification_outbox import NotificationRequest, OutgoingNotification
from latchkey.emulators.stripe import stripe_acts, stripe_billing, stripe_due_events
from latchkey.emulators.stripe.stripe_books import Seconds, StripeBooks, StripeEvent
from latchkey.emulators.stripe.stripe_catalog_objects import stripe_object
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset
from latchkey.emulators.stripe.stripe_expected_state import expected_of_session, expected_of_subscription
from latchkey.emulators.stripe.stripe_objects import API_VERSION
from latchkey.emulators.stripe.stripe_purchases import StripeProductRequest, StripeSaleRequest
from latchkey.now import real_now


class StripeKeys(msgspec.Struct, frozen=True, kw_only=True):
    secret_key: str
    publishable_key: str
    webhook_secret: str
    # While the secret is rolled, Stripe signs with both.
    previous_webhook_secret: str | None = None

    @property
    def is_live(self) -> bool:
        return self.secret_key.startswith("sk_live_")


def make_stripe_keys(*, live: bool = False) -> StripeKeys:
    kind = "live" if live else "test"
    return StripeKeys(
        secret_key=f"sk_{kind}_{secrets.token_hex(32)}",
        publishable_key=f"pk_{kind}_{secrets.token_hex(32)}",
        webhook_secret=new_webhook_secret(),
    )


def new_webhook_secret() -> str:
    return f"whsec_{secrets.token_hex(24)}"


def signature(secret: str, at: int, body: bytes) -> str:
    return hmac.digest(secret.encode(), f"{at}.".encode() + body, "sha256").hex()


def header(at: int, *signatures: str, scheme: str = "v1") -> str:
    return ",".join((f"t={at}", *(f"{scheme}={signature}" for signature in signatures)))


_OF_PAYMENTS = "pay refund fail_refund dispute lose_dispute win_dispute"
_ACTS = Acts(
    "cancel uncancel cancel_now fail_billing recover finalize change remove_item pause resume extend_trial "
    + _OF_PAYMENTS,
    stripe_acts,
    stripe_billing,
)
# The events that the webhook endpoint asked for. Stripe's log has all of them.
_SENT = """
    checkout.session.completed checkout.session.async_payment_succeeded customer.subscription.created
    customer.subscription.updated customer.subscription.deleted customer.subscription.paused
    customer.subscription.resumed invoice.finalized invoice.paid invoice.payment_failed invoice.voided
    invoice.marked_uncollectible charge.refunded refund.created refund.updated refund.failed
    charge.dispute.funds_withdrawn charge.dispute.funds_reinstated subscription_schedule.updated
    subscription_schedule.released
"""
SENT = frozenset(_SENT.split())
# In live mode Stripe tries for three days; in test mode three times.
_LIVE_WAITS: tuple[Ms, ...] = (5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR)
_LONGEST_WAIT: Ms = 12 * HOUR
_LIVE_FOR: Ms = 3 * DAY
_TEST_WAITS: tuple[Ms, ...] = (5 * MINUTE, HOUR, 3 * HOUR)
T = TypeVar("T")

# What a verifier takes is at most 5 minutes old.
_OLD: Seconds = 3600


def act_on(changes: StripeChangeset, purchase: str, name: str, options: Mapping[str, Any]) -> None:
    if purchase in changes.books.sessions and name not in _OF_PAYMENTS.split():
        raise Refusal("This is a one-time purchase. The act is for subscriptions.", param="act")
    _ACTS.apply(name, options, changes, purchase)


class StripeAccount(msgspec.Struct, frozen=True, kw_only=True):
    id: str = "acct_1LatchkeyEmulator"
    country: str = "US"
    metadata_key: str = "app_user_id"


class StripeEmulator(Emulator[StripeBooks, StripeEvent]):
    name = "stripe"
    lies = frozenset({"signature", "no_signature", "old", "altered", "scheme"})
    accepted = frozenset(range(200, 300))
    rules = stripe_due_events
    unit = SECOND

    def __init__(self, keys: StripeKeys, account: StripeAccount, books: StripeBooks, clock: EmulatorClock) -> None:
        super().__init__(books, clock)
        self.keys = keys
        self.account = account
        # The answer to a request with an Idempotency-Key, and which request it was.
        self.answered: dict[str, tuple[tuple[str, str, str], int, bytes]] = {}

    @property
    def now(self) -> Seconds:
        return self.clock.now() // SECOND

    def add_product(self, given: Mapping[str, Any]) -> None:
        changes = StripeChangeset(self.books, self.now)
        converted(given, StripeProductRequest).apply(changes)
        self._change(*changes.step())

    def sell(self, **sale: Any) -> str:
        return self.do(converted({"key": self.account.metadata_key, **sale}, StripeSaleRequest).apply)

    def act(self, purchase: str, act: str, **options: Any) -> str:
        self.do(lambda changes: act_on(changes, purchase, act, options))
        return purchase

    def do(self, change: Callable[[StripeChangeset], T]) -> T:
        """What a customer, the account's owner or the API does now."""
        self._advance(self.clock.next())
        changes = StripeChangeset(self.books, self.now)
        done = change(changes)
        self._change(*changes.step())
        return done

    def _test_notice(self) -> StripeEvent:
        """An event that is about no purchase, as `stripe trigger product.created` sends it."""
        work = StripeChangeset(self.books, self.clock.next() // SECOND)
        work.emit("product.created", next(iter(self.books.products.values())))
        books, (event,) = work.step()
        self._change(books, ())
        return event

    def rotate_secret(self) -> None:
        """A new webhook secret. Until the next rotation Stripe signs with the old one too."""
        old = self.keys.webhook_secret
        self.keys = replace(self.keys, webhook_secret=new_webhook_secret(), previous_webhook_secret=old)

    def products(self) -> list[dict[str, Any]]:
        sold = self.books.prices.values()
        return [{**msgspec.to_builtins(price), "name": price.name, "price": price.amount} for price in sold]

    def expected_states(self) -> list[ExpectedState]:
        books, now = self.books, self.now
        found = [expected_of_subscription(books, subscription, now) for subscription in books.subscriptions.values()]
        return found + [truth for session in books.sessions.values() for truth in expected_of_session(books, session)]

    def receipt(self, purchase: str) -> dict[str, Any]:
        known = self.known(purchase)
        return {"fetch_token": known.purchase, "product_id": known.product_id, "product_ids": [known.product_id]}

    def credentials(self, base_url: str) -> dict[str, Any]:
        given = {
            "api_key": self.keys.secret_key,
            "webhook_secret": self.keys.webhook_secret,
            "publishable_key": self.keys.publishable_key,
            "user_id_metadata_key": self.account.metadata_key,
            "api_base_url": base_url,
        }
        if self.keys.previous_webhook_secret is not None:
            given["previous_webhook_secret"] = self.keys.previous_webhook_secret
        return given

    def event(self, event: StripeEvent) -> dict[str, Any]:
        waiting = any(message.id == event.id and message.state == "waiting" for message in self.outbox.messages)
        data: dict[str, Any] = {"object": event.object}
        if event.previous is not None:
            data["previous_attributes"] = event.previous
        sent = {"api_version": API_VERSION, "data": data, "pending_webhooks": int(waiting)}
        return stripe_object(self.books, "event", event, sent)

    def _change(self, books: StripeBooks, notices: tuple[StripeEvent, ...]) -> None:
        """All events are in the log; those that the endpoint asked for are sent."""
        super()._change(books, tuple(notice for notice in notices if notice.type in SENT))

    def _message(self, notice: StripeEvent) -> OutgoingNotification:
        return OutgoingNotification(
            id=notice.id, kind=notice.type, subject=notice.subject, at=notice.created * SECOND, content=notice
        )

    def write(self, message: OutgoingNotification, lie: str | None) -> NotificationRequest:
        body = msgspec.json.encode(self.event(message.content))
        # The signature counts by the real clock, whatever the emulator's says.
        at = real_now() // SECOND
        if lie == "no_signature":
            return NotificationRequest({}, body)
        if lie == "old":
            at -= _OLD
        secrets = (self.keys.webhook_secret, self.keys.previous_webhook_secret)
        signatures = [signature(secret, at, body) for secret in secrets if secret is not None]
        if lie == "signature":
            signatures = [signature(new_webhook_secret(), at, body)]
        if lie == "altered":
            body = body.replace(b'"livemode":false', b'"livemode":true ')
        signed = header(at, *signatures, scheme="v0" if lie == "scheme" else "v1")
        return NotificationRequest({"Stripe-Signature": signed}, body)

    def next_try(self, message: OutgoingNotification) -> Ms | None:
        tries, last = len(message.attempts) // message.fate.copies, message.attempts[-1].at
        waits = _LIVE_WAITS if self.books.live else _TEST_WAITS
        if tries <= len(waits):
            return last + waits[tries - 1]
        following = last + _LONGEST_WAIT
        return following if self.books.live and following < message.at + message.fate.late_by + _LIVE_FOR else None
