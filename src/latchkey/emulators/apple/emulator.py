"""The pretend App Store: the books, the keys that sign, and what is sent."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from starlette.applications import Starlette

from latchkey.domain.instants import HOUR, Ms
from latchkey.emulators.acts import converted
from latchkey.emulators.apple import life as lives
from latchkey.emulators.apple import payloads
from latchkey.emulators.apple.asking import ACTS, FIRST_PRODUCTS, AskedProduct, AskedSale
from latchkey.emulators.apple.certificates import make_chain
from latchkey.emulators.apple.keys import AppleKeys
from latchkey.emulators.apple.payloads import App
from latchkey.emulators.apple.state import Kind, Life, Notice, Purchase, Status, Transaction
from latchkey.emulators.clock import Clock
from latchkey.emulators.emulator import Emulator
from latchkey.emulators.outbox import Letter, Message
from latchkey.emulators.truth import Truth

# Hours from one try to the next, as Apple does it in production. In the sandbox Apple tries once.
RETRIES = (1, 12, 24, 48, 72)


@dataclass(frozen=True, slots=True)
class Content:
    """A notification as it was signed when it happened, and what it takes to sign a lie instead."""

    notice: Notice
    signed_at: Ms
    signed_payload: str


class AppleEmulator(Emulator[Life, Notice]):
    name = "apple"
    lies = frozenset({"bundle", "app_id", "environment", "signature", "chain"})
    accepted = frozenset(range(200, 207))

    def __init__(
        self,
        keys: AppleKeys,
        app: App,
        life: Life,
        clock: Clock,
        *,
        retries: bool | None = None,
        extra_ca: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        super().__init__(life, clock, extra_ca=extra_ca)
        self.keys = keys
        self.app = app
        self._retries = app.environment == "Production" if retries is None else retries
        self._signed_at: Ms = 0
        # What the service told about consumption, by transaction id.
        self.consumption: dict[str, Any] = {}
        # When the service extended subscriptions, by original transaction id: Apple does it twice a year.
        self.extensions: dict[str, list[Ms]] = {}
        if not life.products:
            for product in FIRST_PRODUCTS:
                self.add_product(product)

    def add_product(self, given: Mapping[str, Any]) -> None:
        product = converted(given, AskedProduct).product()
        others = tuple(one for one in self.life.products if one.id != product.id)
        self._change(replace(self.life, products=(*others, product)), ())

    def sell(self, **sale: Any) -> str:
        self._advance(now := self.clock.next())
        life, notices = converted(sale, AskedSale).apply(self.life, now)
        self._change(life, notices)
        assert notices[0].purchase is not None
        return notices[0].purchase.id

    def act(self, purchase: str, act: str, **options: Any) -> str:
        self._advance(now := self.clock.next())
        self._change(*ACTS.apply(self.life, now, purchase, act, options))
        return lives.purchase_of(self.life, purchase).id

    def _test_notice(self) -> Notice:
        return lives.checking_notice(self.clock.next())

    def products(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = msgspec.to_builtins(self.life.products)
        return listed

    def truth(self) -> list[Truth]:
        return [self._truth(one) for one in self.life.purchases.values()]

    def receipt(self, purchase: str) -> dict[str, Any]:
        found = lives.purchase_of(self.life, purchase)
        return {
            "fetch_token": self.signed_transaction(found, found.latest),
            "product_id": found.latest.product_id,
            "transaction_id": found.latest.id,
            "app_transaction": self.keys.chain.sign(
                payloads.app_transaction(self.app, found.transactions[0].purchased_at, self._reading_at())
            ),
        }

    def credentials(self, base_url: str) -> dict[str, Any]:
        return {
            "bundle_id": self.app.bundle_id,
            "app_apple_id": self.app.app_apple_id,
            "issuer_id": self.keys.issuer_id,
            "key_id": self.keys.key_id,
            "private_key": self.keys.private_key,
            "root_certificates": [self.keys.chain.root_pem],
            "api_base_url": base_url,
        }

    def application(self) -> Starlette:
        # Imported here because the API knows this class.
        from latchkey.emulators.apple.api import application

        return application(self)

    def signed_transaction(self, purchase: Purchase, one: Transaction) -> str:
        return self.keys.chain.sign(payloads.transaction(self.app, self.life, purchase, one, self._reading_at()))

    def signed_renewal(self, purchase: Purchase) -> str:
        info = payloads.renewal(self.app, self.life, purchase, self._reading_at())
        assert info is not None
        return self.keys.chain.sign(info)

    def _advance(self, until: Ms) -> None:
        self._change(*lives.advance(self.life, until))

    def _due_at(self) -> Ms | None:
        due = (lives.due_at(one) for one in self.life.purchases.values())
        return min((at for at in due if at is not None), default=None)

    def _message(self, notice: Notice) -> Message:
        # Two notifications never have the same date, by which what they say is ordered.
        self._signed_at = max(notice.at, self._signed_at + 1)
        id = str(uuid.uuid4())
        signed = self._signed(notice, id, self._signed_at, None)
        return Message(
            id=id,
            kind=notice.kind,
            subject=notice.purchase.id if notice.purchase else None,
            at=notice.at,
            content=Content(notice, self._signed_at, signed),
        )

    def _write(self, message: Message, lie: str | None) -> Letter:
        content: Content = message.content
        signed = content.signed_payload
        if lie == "signature":
            head, body, signature = signed.split(".")
            signed = ".".join((head, body, signature[::-1]))
        elif lie is not None:
            signed = self._signed(content.notice, message.id, content.signed_at, lie)
        return Letter({}, msgspec.json.encode({"signedPayload": signed}))

    def _next_try(self, message: Message) -> Ms | None:
        tries = len(message.attempts) // message.fate.copies
        if not self._retries or tries > len(RETRIES):
            return None
        return message.attempts[-1].at + RETRIES[tries - 1] * HOUR

    def _signed(self, notice: Notice, id: str, at: Ms, lie: str | None) -> str:
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
            shown = chain.sign(payloads.transaction(app, self.life, notice.purchase, notice.transaction, at))
            info = payloads.renewal(app, self.life, notice.purchase, at)
            renewing = chain.sign(info) if info is not None else None
        return chain.sign(payloads.notification(app, notice, id, at, shown, renewing))

    def _reading_at(self) -> Ms:
        """The date of what is signed for a read: never before what was already said."""
        self._signed_at = max(self._signed_at, self.clock.now())
        return self._signed_at

    def _truth(self, purchase: Purchase) -> Truth:
        now, latest, info = self.clock.now(), purchase.latest, purchase.renewal
        ends = latest.expires_at
        grace = info.grace_ends_at if info and purchase.status is Status.GRACE else None
        until = [at for at in (grace or ends, latest.revoked_at) if at is not None]
        access = min(until, default=None)
        pending = info.product_id if info and info.product_id != latest.product_id and info.auto_renew else None
        return Truth(
            purchase=purchase.id,
            id=purchase.id,
            buyer=purchase.buyer,
            account_token=purchase.account_token,
            kind="subscription" if purchase.kind is Kind.SUBSCRIPTION else "one_time",
            product_id=latest.product_id,
            periods=len(purchase.transactions),
            active=access is None or access > now,
            ends_at=ends,
            access_ends_at=access,
            auto_renew=bool(info and info.auto_renew),
            in_trial=latest.offer is not None and latest.offer.discount == "FREE_TRIAL",
            billing_problem=purchase.status in (Status.GRACE, Status.BILLING_RETRY),
            grace_ends_at=grace,
            refunded_at=latest.revoked_at if latest.refunded else None,
            next_product_id=pending,
            sandbox=self.app.environment == "Sandbox",
        )
