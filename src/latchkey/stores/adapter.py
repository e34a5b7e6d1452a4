"""What every store's adapter can do. Everything it learns ends in snapshots; nothing above knows a store's words."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment, Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.stores.credential_form import CredentialForm
from latchkey.stores.errors import StoreError


@dataclass(frozen=True, slots=True)
class ConnectedApp:
    project_id: str
    app_id: str
    store: str
    # As `CredentialForm.parse` returned them. None where there are none; adapters see only apps that have some.
    credentials: Any = field(repr=False)
    # Grows each time credentials are saved, so that what an adapter derives from them can be cached.
    version: int
    # The store accepted the credentials when they were last tried. Otherwise a receipt that does not fit them may still
    # be real: the mistake can be ours.
    proven: bool = False


class Incoming(Struct, frozen=True, kw_only=True):
    body: bytes
    # Names in lower case.
    headers: Mapping[str, str]
    received_at: Ms


class Notification(Struct, frozen=True, kw_only=True):
    """A notification whose sender and addressee were checked: what the journal keeps."""

    # The store's own id. The same id again is the same notification.
    external_id: str
    # In the store's words, such as "DID_RENEW/BILLING_RECOVERY". For people and filters; nothing is decided by it.
    kind: str
    environment: Environment | None
    occurred_at: Ms
    # Which purchase it is about, as the store names it. None for tests and notices about no purchase.
    subject: str | None
    # What `Adapter.read` needs to process it, now or again after a fix. UTF-8 text, no secrets.
    payload: str
    # What was checked and found right, for the journal: {"signature": "...", "bundle_id": "..."}.
    checked: Mapping[str, str]


class SeenPurchase(Struct, frozen=True, kw_only=True):
    snapshot: Subscription | Purchase
    # The app user id that the app gave to the store with the purchase, if it did.
    account_token: str | None
    # What to ask the store with to read this purchase again: an original transaction id, a purchase token.
    handle: str
    # Earlier purchases that this one replaced: the handles of a chain of upgrades or top-ups, newest first. A
    # subscription then goes on under the same id; a top-up belongs to the same customer.
    replaces: tuple[str, ...] = ()
    # The snapshot holds all periods the store knows of. Where it does not and a period is missing in what is stored,
    # the purchase is read again before it is applied.
    complete: bool = True
    # The store says how things stand now, not as of which moment. Applied in the order in which it was read.
    unordered: bool = False
    # The store takes the purchase back unless it is told that it was received.
    acknowledge: bool = False
    # Another id of the purchase, by which an import may know it.
    imported_as: str | None = None
    # The app that sold it, where the store says so. One account of a store may be connected to several apps, and all of
    # them are told of every purchase.
    sold_by: str | None = None
    # For a one-time purchase: whether the app should use it up, so that it can be bought again.
    should_consume: bool = False
    # The offering that it was sold from on a web page, and the product: it may have been changed since.
    offering: str | None = None
    offered: tuple[str, ...] = ()


class GivenBack(Struct, frozen=True, kw_only=True):
    """The money of one transaction went back. The store no longer tells how its purchase stands."""

    # Of the purchase, as in `Seen`.
    handle: str
    transaction_id: str
    at: Ms


class StoreReading(Struct, frozen=True, kw_only=True):
    seen: tuple[SeenPurchase, ...] = ()
    given_back: tuple[GivenBack, ...] = ()
    # Why nothing follows, in the words of the journal.
    note: str = ""
    # Which version of the app its user had first, as the store signed it.
    app_version: str | None = None
    # Why the rest of a receipt could not be read now. What there is counts, and the receipt is read again later.
    unread: StoreError | None = None


class AppReceipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a phone sends as the proof of a purchase. All of it is a claim until the store has vouched for it."""

    # A signed transaction, a receipt, a purchase token. Some apps send only an app transaction.
    token: str | None = None
    product_ids: tuple[str, ...] = ()
    transaction_id: str | None = None
    app_transaction: str | None = None
    # It stands for everything that the phone's store account has bought: the customer restores.
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTarget:
    # What to ask the store with.
    handle: str = field(repr=False)
    environment: Environment
    # What was bought, with its base plan.
    product_id: str
    # The store's id of the period or of the one-time purchase that the action is about.
    transaction_id: str
    # Whether that is the last period. A one-time purchase has only one.
    latest: bool
    subscription: bool
    # The end of the time that was paid for, as far as it is known.
    ends_at: Ms | None


class Extension(Struct, frozen=True, kw_only=True):
    """How far the end of a period is moved: by so much, or until then."""

    by: Ms | None = None
    until: Ms | None = None
    # As Apple numbers reasons: 0 undeclared, 1 the customer's satisfaction, 2 other, 3 an outage.
    reason: int = 0


# Of one app. More are hardly meant to be sold.
MOST_PRODUCTS = 2000
TOO_MANY_PRODUCTS = f"The store lists more than {MOST_PRODUCTS:,} products. Latchkey does not list so many."


class Adapter(Protocol):
    store: str
    credential_form: CredentialForm

    async def check_credentials(self, app: ConnectedApp) -> None:
        """Make a real call. Raises CredentialsRefused, or StoreDown where nothing could be found out."""

    async def products(self, app: ConnectedApp) -> tuple[StoreProduct, ...]:
        """Everything that the app has in the store, archived or not. Raises CredentialsRefused or StoreDown, and
        ActionRefused where the credentials have no key for it."""

    async def verify(self, app: ConnectedApp, incoming: Incoming) -> Notification:
        """Raises NotAuthentic, Misdirected or Malformed. Raises StoreDown where it cannot be checked now."""

    async def read(self, app: ConnectedApp, payload: str) -> StoreReading:
        """What a notification from the journal says. Raises StoreDown or CredentialsRefused."""

    async def read_receipt(self, app: ConnectedApp, receipt: AppReceipt) -> StoreReading:
        """Raises InvalidReceipt only for what is certainly no proof; StoreDown or CredentialsRefused in doubt."""

    def looks_real(self, receipt: AppReceipt, now: Ms) -> bool:
        """Whether a receipt that cannot be checked now, as NoAnswer said, may be a real one."""

    async def read_again(self, app: ConnectedApp, handle: str, environment: Environment) -> StoreReading:
        """How the purchase stands now."""

    async def acknowledge(self, app: ConnectedApp, handle: str, product_id: str, *, subscription: bool) -> None:
        """Tell the store that the purchase was received. Repeating it does no harm."""

    # What the operator asks the store to do. Each raises ActionRefused where the store does not do it, and StoreDown
    # where it cannot be told whether it was done. The change itself is read from the store afterwards.

    async def cancel(self, app: ConnectedApp, target: ActionTarget) -> None:
        """Turn renewal off. Access stays until the end of the time that was paid for."""

    async def revoke(self, app: ConnectedApp, target: ActionTarget) -> None:
        """Give the last payment of a subscription back, and end access at once."""

    async def refund(self, app: ConnectedApp, target: ActionTarget, *, revoke: bool) -> None:
        """Give one payment back. With `revoke`, access ends too."""

    async def extend(self, app: ConnectedApp, target: ActionTarget, extension: Extension) -> None:
        """Move the end of the running period, free of charge."""

    def missed(self, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[Notification]:
        """Notifications that the store sent in this time, where it keeps a history; otherwise none."""

    async def close(self) -> None: ...
