"""The Google Play emulator: the books, the keys that sign, and what is pushed."""

import itertools
import secrets
from collections.abc import Container, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from latchkey.domain.instants import DAY, SECOND, Ms
from latchkey.emulators.control_requests import Acts, converted
from latchkey.emulators.emulator import Emulator, EmulatorClock, ExpectedState
from latchkey.emulators.google import google_acts, google_books, google_due_events, google_resources
from latchkey.emulators.google.google_books import GoogleState
from latchkey.emulators.google.google_keys import GoogleKeys
from latchkey.emulators.notification_outbox import NotificationRequest, OutgoingNotification
from latchkey.now import real_now

ACTS = Acts(
    "cancel uncancel fail_billing recover pause resume defer refund revoke change resubscribe top_up complete decline "
    "price_change acknowledge consume",
    google_acts,
)
PUBSUB_SUBSCRIPTION = "projects/latchkey-emulator/subscriptions/play"
# Pub/Sub waits longer and longer, and gives up after a week.
_FIRST_WAIT: Ms = 10 * SECOND
_LONGEST_WAIT: Ms = 600 * SECOND
_KEPT_FOR: Ms = 7 * DAY


class GoogleApp(msgspec.Struct, frozen=True, kw_only=True):
    package_name: str
    # Purchases of testers: they count as SANDBOX.
    test: bool = True
    service_account: str = "latchkey@latchkey-emulator.iam.gserviceaccount.com"
    push_service_account: str = "play-push@latchkey-emulator.iam.gserviceaccount.com"
    push_audience: str = "https://latchkey.test/google-play"


class GoogleEmulator(Emulator[google_books.GoogleBooks, google_books.GoogleNotice]):
    name = "google"
    lies = frozenset({"audience", "package", "signature", "email", "unverified", "issuer", "expired", "no_token"})
    accepted = frozenset({102, 200, 201, 202, 204})
    rules = google_due_events

    def __init__(self, keys: GoogleKeys, app: GoogleApp, books: google_books.GoogleBooks, clock: EmulatorClock) -> None:
        super().__init__(books, clock)
        self.keys = keys
        self.app = app
        # Message ids are numbers, and a new run must not repeat those of the last one.
        self._ids = itertools.count(secrets.randbelow(10**15) + 10**15)
        # Access tokens that were given out, and until when they count, in real seconds.
        self.access_tokens: dict[str, int] = {}

    def add_product(self, given: Mapping[str, Any]) -> None:
        product = converted(given, google_books.GoogleProduct)
        self._change(replace(self.books, products={**self.books.products, product.name: product}), ())

    def sell(self, **sale: Any) -> str:
        self._advance(now := self.clock.next())
        before = self.books.purchases.keys()
        wanted = converted(sale, google_books.GoogleSaleRequest)
        self._change(*google_books.buy(self.books, now, wanted, test=self.app.test))
        (token,) = self.books.purchases.keys() - before
        return token

    def act(self, purchase: str, act: str, **options: Any) -> str:
        self._advance(now := self.clock.next())
        before = self.books.purchases.keys()
        self._change(*ACTS.apply(act, options, self.books, now, purchase))
        return next(iter(self.books.purchases.keys() - before), purchase)

    def _test_notice(self) -> google_books.GoogleNotice:
        return google_books.GoogleNotice(self.clock.next())

    def acknowledge(self, token: str) -> None:
        self._change(*google_acts.acknowledge(self.books, self.clock.now(), token))

    def consume(self, token: str) -> None:
        self._change(*google_acts.consume(self.books, self.clock.now(), token))

    def products(self) -> list[dict[str, Any]]:
        return [{"name": name, **msgspec.to_builtins(product)} for name, product in self.books.products.items()]

    def expected_states(self) -> list[ExpectedState]:
        replaced = {purchase.replaces for purchase in self.books.purchases.values()}
        return [self._expected_state(purchase, replaced) for purchase in self.books.purchases.values()]

    def receipt(self, purchase: str) -> dict[str, Any]:
        found = google_books.purchase_of(self.books, purchase)
        product_id, _, _ = found.product.partition(":")
        return {"fetch_token": found.token, "product_id": product_id, "product_ids": [product_id]}

    def credentials(self, base_url: str) -> dict[str, Any]:
        return {
            "package_name": self.app.package_name,
            "service_account": self.keys.account.service_account(self.app.service_account, f"{base_url}/token"),
            "push_audience": self.app.push_audience,
            "push_service_account": self.app.push_service_account,
            "api_base_url": base_url,
            "certificates_url": f"{base_url}/oauth2/v1/certs",
            "token_url": f"{base_url}/token",
        }

    def _message(self, notice: google_books.GoogleNotice) -> OutgoingNotification:
        about = notice.purchase.token if notice.purchase is not None else None
        return OutgoingNotification(
            id=str(next(self._ids)), kind=notice.kind, subject=about, at=notice.at, content=notice
        )

    def write(self, message: OutgoingNotification, lie: str | None) -> NotificationRequest:
        app, notice = self.app, message.content
        package = f"{app.package_name}.other" if lie == "package" else app.package_name
        body = msgspec.json.encode(google_resources.push(notice, package, message.id, PUBSUB_SUBSCRIPTION))
        if lie == "no_token":
            return NotificationRequest({}, body)
        # The token is new at every attempt, and counts by the real clock, whatever the emulator's says.
        now_s = real_now() // 1000
        lies: dict[str | None, dict[str, Any]] = {
            "audience": {"aud": f"{app.push_audience}/other"},
            "email": {"email": f"other.{app.push_service_account}"},
            "unverified": {"email_verified": False},
            "issuer": {"iss": "https://accounts.example.com"},
            "expired": {"iat": now_s - 7200, "exp": now_s - 3600},
        }
        token = self.keys.google.push_token(app.push_audience, app.push_service_account, now_s, **lies.get(lie, {}))
        if lie == "signature":
            head, rest, signature = token.split(".")
            token = ".".join((head, rest, signature[::-1]))
        return NotificationRequest({"Authorization": f"Bearer {token}"}, body)

    def next_try(self, message: OutgoingNotification) -> Ms | None:
        tries = len(message.attempts) // message.fate.copies
        following = message.attempts[-1].at + min(_FIRST_WAIT * 2 ** min(tries - 1, 10), _LONGEST_WAIT)
        return following if following < message.at + message.fate.late_by + _KEPT_FOR else None

    def first_of_chain(self, purchase: google_books.GooglePurchase) -> google_books.GooglePurchase:
        """A prepaid plan is no subscription to Latchkey: each top-up, and what follows it, begins anew."""
        while purchase.replaces is not None and (before := self.books.purchases.get(purchase.replaces)):
            if before.prepaid:
                break
            purchase = before
        return purchase

    def _expected_state(self, purchase: google_books.GooglePurchase, replaced: Container[str | None]) -> ExpectedState:
        now, latest = self.clock.now(), purchase.latest
        running = purchase.state in (GoogleState.ACTIVE, GoogleState.CANCELED, GoogleState.IN_GRACE_PERIOD)
        access = purchase.expires_at if purchase.subscription else None
        if not purchase.subscription:
            running = purchase.state is GoogleState.ACTIVE
            # A refund alone takes nothing away.
            access = None if running else latest.refunded_at
        in_grace = purchase.state is GoogleState.IN_GRACE_PERIOD
        kind = "prepaid" if purchase.prepaid else "subscription" if purchase.subscription else "one_time"
        return ExpectedState(
            purchase=purchase.token,
            id=self.first_of_chain(purchase).first_order,
            buyer=purchase.buyer,
            account_token=purchase.account_token,
            kind=kind,
            product_id=purchase.product,
            periods=len(purchase.orders),
            active=running and (access is None or access > now),
            ends_at=purchase.paid_until or purchase.expires_at,
            access_ends_at=access,
            auto_renew=purchase.auto_renew and not purchase.cancellation_scheduled,
            in_trial=latest.phase is google_books.GooglePhase.FREE_TRIAL,
            billing_problem=purchase.state in (GoogleState.IN_GRACE_PERIOD, GoogleState.ON_HOLD),
            grace_ends_at=purchase.expires_at if in_grace else None,
            refunded_at=latest.refunded_at,
            next_product_id=purchase.next_product,
            resumes_at=purchase.resumes_at,
            acknowledged=purchase.acknowledged,
            replaced=purchase.token in replaced,
            sandbox=purchase.test,
        )
