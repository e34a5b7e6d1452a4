"""What the test store accepts: its actions, what each of them needs, and which are possible in the current state."""

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Product
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Environment, Ownership, Purchase, Reason
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import Invalid, Refusal, found
from latchkey.domain.stores.test_store import actions
from latchkey.domain.stores.test_store.billing import STORE

T = TypeVar("T")

ActionName = Literal[
    "purchase",
    "renew",
    "cancel",
    "uncancel",
    "fail_billing",
    "recover_billing",
    "expire",
    "refund",
    "reverse_refund",
    "change_product",
    "pause",
    "resume",
    "extend",
    "issue_invoice",
    "store_outage",
]


class Action(Struct, frozen=True, kw_only=True):
    name: ActionName
    app_user_id: str
    # The id of a purchase that this action may create; drawn by the caller.
    new_id: str
    product_id: str | None = None
    environment: Environment = Environment.SANDBOX
    trial: bool = False
    ownership: Ownership = Ownership.PURCHASED
    reason: Reason | None = None
    grace_days: int = 0
    new_product_id: str | None = None
    at_renewal: bool = False
    resumes_at: Ms | None = None
    days: int | None = None
    app_id: str | None = None
    # Where it is bought, and in which currency: the catalog's number in another one.
    country: str | None = None
    currency: str | None = None


# The parameter that each action requires, as the API names it.
NEEDS: Mapping[ActionName, str] = {
    "purchase": "product_id",
    "store_outage": "product_id",
    "change_product": "new_product_id",
    "pause": "resume_at_ms",
    "extend": "days",
}
# The parameters that each action accepts besides its name, the customer and the product.
TAKES: Mapping[ActionName, frozenset[str]] = {
    "purchase": frozenset({"environment", "trial", "ownership_type", "country", "currency"}),
    "store_outage": frozenset({"environment"}),
    "cancel": frozenset({"reason"}),
    "expire": frozenset({"reason"}),
    "fail_billing": frozenset({"grace_days"}),
    "change_product": frozenset({"new_product_id", "when"}),
    "pause": frozenset({"resume_at_ms"}),
    "extend": frozenset({"days"}),
}
# The only actions while the project's test store is closed: they give no access.
WHILE_CLOSED: frozenset[ActionName] = frozenset({"cancel", "expire", "refund"})


def bought(customer: Customer) -> dict[str, Subscription | Purchase]:
    """The newest purchase of each product in this store, which is the one that actions apply to."""
    return {actions.product_of(one): one for one in actions.owned(customer)}


def refusal_of(customer: Customer, catalog: Catalog, now: Ms, action: Action) -> Refusal | None:
    """Why this action would be refused now; None if it would succeed."""
    try:
        perform(customer, catalog, now, action)
    except Refusal as refusal:
        return refusal
    return None


def perform(customer: Customer, catalog: Catalog, now: Ms, action: Action) -> Customer:
    """The customer after this action, or a Refusal."""
    if action.name not in WHILE_CLOSED:
        require_open(catalog)
    return take_in(customer, _snapshot(customer, catalog, now, action), now)


def _snapshot(customer: Customer, catalog: Catalog, now: Ms, action: Action) -> Subscription | Purchase:
    if action.name == "purchase":
        product = _product(catalog, action.product_id, "product_id")
        if action.currency is not None:
            product = replace(product, price=Price(product.price.micros, action.currency))
        sold = actions.buy(
            customer,
            product,
            now,
            id=action.new_id,
            environment=action.environment,
            trial=action.trial,
            ownership=action.ownership,
            app_id=action.app_id,
        )
        return sold if action.country is None else actions.sold_in(sold, action.country)
    if action.name == "store_outage":
        product = _product(catalog, action.product_id, "product_id")
        return actions.store_outage(
            customer, product, now, id=action.new_id, environment=action.environment, app_id=action.app_id
        )
    bought = actions.find(customer, action.product_id)
    if action.name == "refund":
        return actions.refund(bought, now)
    if action.name == "reverse_refund":
        return actions.reverse_refund(bought, now)
    if not isinstance(bought, Subscription):
        raise Refusal(f"{bought.product_id!r} is a one-time purchase; it cannot {action.name}.", param="action")
    acts: dict[str, Callable[[Subscription], Subscription]] = {
        "renew": lambda one: actions.renew(one, catalog, now),
        "cancel": lambda one: actions.cancel(one, now, action.reason or Reason.UNSUBSCRIBE),
        "uncancel": lambda one: actions.uncancel(one, now),
        "fail_billing": lambda one: actions.fail_billing(one, now, action.grace_days),
        "recover_billing": lambda one: actions.recover_billing(one, catalog, now),
        "expire": lambda one: actions.expire(one, now, action.reason),
        "change_product": lambda one: actions.change_product(
            one, _product(catalog, action.new_product_id, "new_product_id"), now, at_renewal=action.at_renewal
        ),
        "pause": lambda one: actions.pause(one, now, _given(action.resumes_at, "resume_at_ms")),
        "resume": lambda one: actions.resume(one, catalog, now),
        "extend": lambda one: actions.extend(one, now, until=one.current.ends_at + _given(action.days, "days") * DAY),
        "issue_invoice": lambda one: actions.issue_invoice(one, now),
    }
    return acts[action.name](bought)


def require_open(catalog: Catalog) -> None:
    if STORE in catalog.closed_stores:
        raise Refusal("The test store of this project is closed. Open it in the project's settings.", param="action")


def _product(catalog: Catalog, product_id: str | None, param: str) -> Product:
    product = catalog.offered(_given(product_id, param))
    return found(product, f"There is no product {product_id!r} in this project.", param)


def _given(value: T | None, param: str) -> T:
    if value is None:
        raise Invalid(f"This action needs {param}.", param=param)
    return value
