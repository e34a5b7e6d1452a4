"""Why a checkout does not go on. The API has a code of the SDK for each. The messages are public: every visitor of the
shop can see them."""

from __future__ import annotations

from latchkey.domain.refusal import Refusal


class CheckoutRefusal(Refusal):
    pass


class CannotSell(CheckoutRefusal):
    """An operator has to act: the app or the product is not set up for it. The log says what is wrong."""


class NotForSale(CheckoutRefusal):
    """This app does not sell the product."""


class HasAlready(CheckoutRefusal):
    """The customer has it."""


class NoSuchCheckout(CheckoutRefusal):
    """This app has no such checkout, or it has expired."""


class CannotComplete(CheckoutRefusal):
    """The checkout cannot be paid in this way, or not any more."""


class InvalidEmail(CheckoutRefusal):
    pass


class NotInThisWay(CheckoutRefusal):
    """The shortcut that the page asked for is not there; the ordinary checkout is."""
