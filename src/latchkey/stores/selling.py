"""What the adapter of a payment provider can do besides: sell on a web page. Nothing above knows the provider's words.

The web SDK pays in one of two ways. On the provider's own page inside the shop (`HostedPage`) everything is set up when
the checkout begins. In a form of the SDK (`PaymentForm`) the payment is created when the buyer presses the button.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import Price
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import ActionRefused


class CheckoutOrder(Struct, frozen=True, kw_only=True):
    """What is sold, to whom. All of it comes from the catalog and the checkout; from the page only the email, the
    language and which of the catalog's offerings it showed."""

    # Unique for the checkout: repeating a request with it creates nothing twice.
    key: str
    app_user_id: str
    product_id: str
    subscription: bool
    # What the page shows. Where the provider's own price differs, a form would show the wrong one.
    price: Price
    # The length of a free trial.
    trial_days: int | None = None
    email: str | None = None
    locale: str | None = None
    # The lookup key of the offering that it is sold from. The provider keeps it with the purchase (`Seen.offering`).
    offering: str | None = None


class ProviderAccount(Struct, frozen=True, kw_only=True):
    """What the provider's script in the page needs. None of it is secret."""

    account_id: str
    publishable_key: str
    sandbox: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedPage:
    """The provider shows the page, with its own price."""

    account: ProviderAccount
    client_secret: str = field(repr=False)


class LinkedPage(Struct, frozen=True):
    """The provider shows the page at an address of its own. Whoever has it can pay."""

    url: str


class ReturnAddresses(Struct, frozen=True):
    """Where the provider's page sends the buyer."""

    paid: str
    given_up: str


class PaymentForm(Struct, frozen=True, kw_only=True):
    account: ProviderAccount
    # `setup` only saves a way to pay, for a trial.
    mode: Literal["payment", "setup"]
    methods: tuple[str, ...]
    # In the smallest unit of the currency, as the provider counts.
    amount: int
    # In lower case, as the provider's script wants it.
    currency: str
    # What the buyer pays now.
    total: Price


SalePage: TypeAlias = HostedPage | PaymentForm | LinkedPage


class BegunCheckout(Struct, frozen=True, kw_only=True):
    page: SalePage
    # What the provider knows the payment by. A form has none yet.
    handle: str | None
    # None: as long as we like.
    expires_at: Ms | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    handle: str
    client_secret: str = field(repr=False)
    # Whether the provider tells of the payment by itself. Otherwise it is asked, also if the page asks no more.
    told: bool = True


class CheckoutState(Enum):
    # Nothing was paid yet.
    OPEN = auto()
    # The provider works on it.
    PENDING = auto()
    PAID = auto()
    # It can no longer be paid.
    FAILED = auto()
    EXPIRED = auto()


class Sale(Struct, frozen=True, kw_only=True):
    standing: CheckoutState
    # For what was paid: what `Adapter.read_receipt` takes.
    receipt: str | None = None
    # The buyer's, where the provider has asked for it.
    email: str | None = None


class NotPayable(ActionRefused):
    """The payment cannot be made in this way, or not any more. The buyer begins again."""


@runtime_checkable
class Sells(Protocol):
    """Raises ActionRefused with a reason for operators where the app or the product cannot be sold so, StoreDown or
    CredentialsRefused as every adapter does."""

    async def payment_form(self, app: ConnectedApp, order: CheckoutOrder, account_id: str | None) -> PaymentForm:
        """What a form needs to show itself. Creates nothing."""

    async def begin_sale(
        self, app: ConnectedApp, order: CheckoutOrder, account_id: str | None, back: ReturnAddresses | None = None
    ) -> BegunCheckout:
        """`account_id`: the app's account at the provider, if the operator has said it. With the way `back`, on a page
        that the provider shows at an address of its own, at the price that the order has."""

    async def confirm_sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str | None) -> Confirmation:
        """The payment of a form: that of this handle, or a new one. Raises NotPayable."""

    async def sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str) -> Sale:
        """How the payment stands, as the provider says."""
